"""The stored events of a session as lines for people: what each run was asked, what it did, its answer and its end."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ao_protocol.events import Body, Event, Failure, Message, MessageDelta, Result, RunStarted
from ao_protocol.message_content import reasoning_of, text_of
from ao_runner.cli.printing import plain_text, shorten
from ao_runner.cli.progress_lines import Narrator, ProgressLine, describe_result, lines_of, lines_of_failure
from ao_runner.runs.narration import event_for_people, is_result
from ao_runner.store.records import Run, StoredEvent
from ao_runner.store.store import Store
from ao_runner.store.store_errors import RowDamaged

MAX_UNBROKEN: Final = 120
"""So many characters of a line are shown before it is complete."""


@dataclass
class _Written:
    """A message of the agent that is being written."""

    message_id: str
    text: str = ""
    """What has not been shown yet."""
    thought: str = ""

    def receive(self, body: MessageDelta) -> Iterator[ProgressLine]:
        """Add a piece, and return the lines that are complete."""
        self.thought += reasoning_of(body.content)
        self.text += text_of(body.content)
        if self.text:
            yield from self._thought_lines()
        *complete, self.text = self.text.split("\n")
        yield from _said(complete)
        while len(self.text) > MAX_UNBROKEN and " " in self.text[:MAX_UNBROKEN]:
            line, _, rest = self.text[:MAX_UNBROKEN].rpartition(" ")
            self.text = rest + self.text[MAX_UNBROKEN:]
            yield from _said([line])

    def rest(self) -> Iterator[ProgressLine]:
        """Return what is left at the end of the message."""
        yield from self._thought_lines()
        yield from _said([self.text] if self.text.strip() else [])
        self.text = ""

    def _thought_lines(self) -> Iterator[ProgressLine]:
        if self.thought.strip():
            yield ProgressLine("·", shorten(f"thinking: {self.thought.strip()}"), "dim")
        self.thought = ""


@dataclass
class ToldEvents:
    """The lines for the events of a session, which are passed in their order.

    Args:
        store: Where the runs are.
        session_id: The session.
        is_verbose: Whether messages, and what the model thought, are not cut.
        is_live: Whether a message of the agent is shown line by line while it is written.
    """

    store: Store
    session_id: str
    is_verbose: bool
    is_live: bool
    _run_id: str = ""
    _began_at: str = ""
    _executor: str = "NAME"
    _narrator: Narrator = field(init=False)
    _written: _Written | None = None
    _answered: Message | None = None
    """The last complete message that was shown while it was written."""

    def tell(self, stored: StoredEvent) -> Iterator[str]:
        """Return the lines for an event, each with its time.

        Raises:
            ValueError: It is no event.
        """
        event = event_for_people(stored.line.encode())
        for line in self._lines(stored.run_id, event):
            yield f"{event.envelope.timestamp[11:19]} {line.mark} {line.text}".rstrip()

    def _lines(self, run_id: str, event: Event) -> Iterator[ProgressLine]:
        if run_id != self._run_id:
            self._run_id, self._began_at = run_id, event.envelope.timestamp
            self._narrator, self._written, self._answered = Narrator(is_verbose=self.is_verbose), None, None
            try:
                run = self.store.runs.last(self.session_id, run_id)
            except RowDamaged as error:
                self.store.damage.add(error)
            else:
                yield from () if run is None else _asked(run)
        body = event.body
        if isinstance(body, RunStarted):
            self._executor = body.executor.name
        if self.is_live:
            yield from self._live_lines(body)
        for entry in self._narrator.narration.receive(body):
            is_shown = self._answered is not None and entry.message_id == self._answered.message_id
            if entry.weight == "line" and not is_shown:
                yield from lines_of(entry, self.is_verbose)
        if isinstance(body, Result | Failure):
            yield from self._end(body, _seconds(self._began_at, event.envelope.timestamp))

    def _live_lines(self, body: Body) -> Iterator[ProgressLine]:
        match body:
            case MessageDelta(role="assistant", parent_tool_call_id=None, message_id=message_id):
                if self._written is None or self._written.message_id != message_id:
                    self._written = _Written(message_id)
                yield from self._written.receive(body)
            case Message(message_id=message_id) if self._written is not None and self._written.message_id == message_id:
                yield from self._written.rest()
                self._written, self._answered = None, body

    def _end(self, body: Result | Failure, seconds: float) -> Iterator[ProgressLine]:
        if isinstance(body, Failure):
            yield from lines_of_failure(body.error, body.status, seconds, executor=self._executor)
            return
        if self._answered is None or not is_result(self._answered, body):
            text = body.result_text
            answer = json.dumps(body.result_data, indent=2, ensure_ascii=False) if text is None else text
            yield from _said(answer.strip().split("\n"))
        yield ProgressLine("✓", describe_result(body, seconds), "good")


def _asked(run: Run) -> Iterator[ProgressLine]:
    """Return what a run was asked: its prompt, or all its parameters."""
    prompt = run.parameters.get("prompt")
    if run.parameters:
        text = prompt if isinstance(prompt, str) else json.dumps(run.parameters, ensure_ascii=False)
        for line in plain_text(text).strip().split("\n"):
            yield ProgressLine(">", line)


def _said(lines: list[str]) -> Iterator[ProgressLine]:
    for line in lines:
        yield ProgressLine("│", plain_text(line))


def _seconds(began_at: str, ended_at: str) -> float:
    return (datetime.fromisoformat(ended_at) - datetime.fromisoformat(began_at)).total_seconds()

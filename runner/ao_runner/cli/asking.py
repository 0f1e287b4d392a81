"""Ask the person at the terminal of `ao run`, while the run goes on and others may answer, too."""

import asyncio
import os
import sys
import termios
from collections.abc import Callable
from contextlib import suppress

from ao_protocol.input_answers import InvalidAnswer, options_of, resolution_of
from ao_protocol.wire import JsonObject
from ao_runner.cli.inputs import lines_of
from ao_runner.cli.printing import echo
from ao_runner.run_events import Relayed
from ao_runner.runs.answering import value_from
from ao_runner.runs.journal import Listener

Give = Callable[[str, JsonObject], None]


class TerminalAsker:
    """A listener that asks the requests of a run on the terminal, one after another, and passes all events on.

    Args:
        inner: The listener that shows the run. It has `pause` and `resume` if it draws.
        give: Receives the id of a request and the answer of the person.
        run_id: The run, for the hint how to answer elsewhere.
    """

    def __init__(self, inner: Listener, give: Give, run_id: str) -> None:
        self._inner = inner
        self.when_room, self.on_note = inner.when_room, inner.on_note
        self._give = give
        self._run_id = run_id
        self._waiting: dict[str, JsonObject] = {}
        self._asked: str | None = None
        self._can_read = True
        self._has_given = False

    @property
    def is_full(self) -> bool:
        """Whether the inner listener cannot accept more events for now."""
        return self._inner.is_full

    def on_event(self, relayed: Relayed) -> None:
        """Pass an event on, and ask or stop to ask if it opens or resolves a request."""
        is_resolved = relayed.event_type == "input_resolved"
        if is_resolved and relayed.document["request_id"] == self._asked and not self._has_given:
            echo(err=True)  # ends the line of the prompt
        self._inner.on_event(relayed)
        if relayed.event_type == "input_requested":
            self._waiting[str(relayed.document["request_id"])] = relayed.document
        elif is_resolved:
            self._waiting.pop(str(relayed.document["request_id"]), None)
            if relayed.document["request_id"] == self._asked:
                self._stop_asking()
                if not self._has_given and relayed.document["by"] == "person":
                    echo(f"  answered elsewhere: {relayed.document['outcome']}", err=True)
        if self._asked is None and self._waiting:
            self._ask(next(iter(self._waiting)))

    def _ask(self, request_id: str) -> None:
        self._asked, self._has_given = request_id, False
        self._pause(True)
        fields = self._waiting[request_id]
        for line in lines_of(fields)[1:]:  # the title is shown as progress
            echo(f"  {line}", err=True)
        if not self._can_read:
            echo(f"  answer it elsewhere: ao answer {self._run_id} {request_id}", err=True)
            return
        with suppress(termios.error):  # what was typed before the prompt is no answer to it
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        self._prompt()
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)

    def _prompt(self) -> None:
        fields = self._waiting[self._asked or ""]
        numbers = f"1-{len(options_of(fields))}" if options_of(fields) else "value"
        echo(f"  answer [{numbers}]: ", fg="yellow", nl=False, err=True)

    def _read(self) -> None:
        text = os.read(sys.stdin.fileno(), 64 * 1024).decode(errors="replace")
        request_id = self._asked
        if request_id is None:
            return
        if not text:
            self._can_read = False
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            echo(f"\n  answer it elsewhere: ao answer {self._run_id} {request_id}", err=True)
            return
        fields = self._waiting[request_id]
        try:
            answer = answer_from(fields, text.strip())
            resolution_of(fields, answer)
        except InvalidAnswer as error:
            echo(f"  {error}", err=True)
            self._prompt()
            return
        self._has_given = True
        self._give(request_id, answer)

    def _stop_asking(self) -> None:
        self._asked = None
        if self._can_read:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        self._pause(False)

    def _pause(self, is_paused: bool) -> None:
        draw = getattr(self._inner, "pause" if is_paused else "resume", None)
        if draw is not None:
            draw()


def answer_from(fields: JsonObject, text: str) -> JsonObject:
    """Return the answer for what a person typed: the number or the id of an option, or a value.

    A value is JSON, or text if the schema asks for a string.

    Raises:
        InvalidAnswer: It is neither.
    """
    options = list(options_of(fields))
    if text.isdecimal() and 1 <= int(text) <= len(options):
        return {"option_id": options[int(text) - 1]}
    if text in options:
        return {"option_id": text}
    schema = fields.get("schema")
    if schema is None:
        raise InvalidAnswer(f"{text[:40]!r} is no option; type a number from 1 to {len(options)}, or an id")
    return {"value": value_from(schema, text)}

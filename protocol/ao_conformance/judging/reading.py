"""The lines of stdout as events: each is read once, and the same reading serves every judge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ao_conformance.driver.transcript import OutputLine
from ao_conformance.judging.completing import TERMINAL, Asked, Completing
from ao_protocol.framing import NotIJson, decode_object


@dataclass(frozen=True, slots=True)
class Event:
    """A line that holds a JSON object with an `event_type`."""

    line: int
    seconds: float
    type: str
    document: dict[str, Any]
    """The whole event, where it was completed."""
    bytes: int
    """Of the line, its end included."""
    absent: tuple[str, ...] = ()
    """The paths of what was added to it."""

    @property
    def is_terminal(self) -> bool:
        """Whether it ends a run."""
        return self.type in TERMINAL

    @property
    def error(self) -> dict[str, Any]:
        """The error object of a failure; an empty one where there is none."""
        found = self.document.get("error")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that holds no event."""

    line: int
    raw: bytes
    reason: str
    is_json: bool
    """Whether there is JSON in it, which breaks a rule of form and not the one about noise."""


@dataclass(frozen=True, slots=True)
class Output:
    """Everything that stood on stdout."""

    events: tuple[Event, ...]
    unreadable: tuple[Unreadable, ...]
    lines: tuple[OutputLine, ...]
    unfinished: bytes
    takes_turns: bool = False
    """Whether the process was asked to stay for further runs."""

    @property
    def runs(self) -> list[list[Event]]:
        """The events of each run: another one begins with a run_started behind a terminal event."""
        runs: list[list[Event]] = []
        for event in self.events:
            if not runs or (runs[-1][-1].is_terminal and event.type == "run_started"):
                runs.append([])
            elif runs[-1][-1].is_terminal and self.takes_turns:
                continue
            runs[-1].append(event)
        return runs

    @property
    def endings(self) -> list[Event]:
        """The terminal event of each run, or its last one where it has none."""
        return [next((event for event in run if event.is_terminal), run[-1]) for run in self.runs]

    @property
    def ends_unreadably(self) -> bool:
        """Whether the last line is a whole one, is meant as an event and cannot be read: it may be the terminal one."""
        if self.unfinished or not self.unreadable or not self.lines:
            return False
        last = self.unreadable[-1]
        return last.line == self.lines[-1].number and b"event_type" in last.raw

    @property
    def between_runs(self) -> list[Event]:
        """What a process that was asked to stay said when no run was going on."""
        if not self.takes_turns:
            return []
        of_runs = {id(event) for run in self.runs for event in run}
        return [event for event in self.events if id(event) not in of_runs]


def read_output(
    lines: Sequence[OutputLine], unfinished: bytes, *, takes_turns: bool = False, asked: Asked | None = None
) -> Output:
    """Return the events, completed by what was `asked` where that is given, and the lines that are none."""
    completing = Completing(asked) if asked else None
    events: list[Event] = []
    unreadable: list[Unreadable] = []
    for line in _with_last(lines, unfinished):
        found = _read(line, completing)
        if isinstance(found, Event):
            events.append(found)
        else:
            unreadable.append(found)
    return Output(tuple(events), tuple(unreadable), tuple(lines), unfinished, takes_turns)


def _with_last(lines: Sequence[OutputLine], unfinished: bytes) -> Iterable[OutputLine]:
    yield from lines
    if unfinished:
        yield OutputLine(len(lines) + 1, lines[-1].seconds if lines else 0.0, unfinished)


def _read(line: OutputLine, completing: Completing | None) -> Event | Unreadable:
    body = line.raw.removesuffix(b"\n")
    try:
        document = decode_object(body)
    except NotIJson as problem:
        reason = str(problem)
        return Unreadable(line.number, body, reason, is_json=b"{" in body or b"[" in body or not body.strip())
    event_type = document.get("event_type")
    if not isinstance(event_type, str):
        return Unreadable(line.number, body, "the object has no event_type", is_json=True)
    whole, absent = completing.complete(document, line.seconds) if completing else (dict(document), ())
    return Event(line.number, line.seconds, event_type, whole, len(line.raw), absent)

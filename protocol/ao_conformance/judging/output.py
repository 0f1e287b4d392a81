"""The lines of stdout as complete events: each line is read once, and completed as by a receiver (SPEC 5.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final

from ao_conformance.driver.transcript import TERMINAL, OutputLine
from ao_conformance.play_result import PlayResult
from ao_conformance.subject import Subject
from ao_conformance.verdict import Finding, Verdict
from ao_protocol.framing import Ambiguous, NotIJson, decode_object
from ao_protocol.lifecycle import KnownOfRun, complete_event

NAMES: Final = ("run_id", "session_id")


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts that the suite knows about the runs of a process, as a runner does."""

    runs: tuple[str | None, ...]
    """The `run_id`s that were sent, of the invocation and of turns; None if one had none."""
    session_id: str | None
    executor: Mapping[str, str]
    schema_version: str
    names_are_known: bool = True
    """Whether the executor could read the names or has to create those that were not sent; otherwise they are null."""
    began_clock: float = 0.0


class Completing:
    """Completes the events of one process, one after another."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._run = self._seq = 0
        self._has_ended = False
        self._open_tools: dict[str, str] = {}

    def complete(self, document: Mapping[str, Any], seconds: float) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the complete event, and the paths of the fields that it lacks at standard."""
        kind = document.get("event_type")
        if self._has_ended and kind == "run_started":
            self._run, self._seq, self._has_ended = self._run + 1, 0, False
            self._open_tools.clear()
        asked, written = self._asked, dict(document)
        run_id = asked.runs[self._run] if self._run < len(asked.runs) else None
        known = KnownOfRun(run_id, asked.session_id, asked.executor, asked.schema_version)
        told = datetime.fromtimestamp(asked.began_clock + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        whole = dict(complete_event(written, known, seq=self._seq + 1, timestamp=told, open_tools=self._open_tools))
        if kind == "result":  # without an answer SPEC 5.2 adds nothing, and only the missing answer is reported
            whole.setdefault("stop_reason", "end_turn")
        absent = _absent(written, whole)
        for name in NAMES if asked.names_are_known else ():
            if name in absent and whole[name] is None:
                del whole[name]
        seq, call = whole.get("seq"), str(whole.get("tool_call_id"))
        self._seq = seq if isinstance(seq, int) else self._seq + 1
        self._has_ended = self._has_ended or kind in TERMINAL
        if kind == "tool_started":
            self._open_tools[call] = str(whole.get("tool_name"))
        elif kind == "tool_finished":
            self._open_tools.pop(call, None)
        return whole, absent


def _absent(written: Mapping[str, Any], whole: Mapping[str, Any]) -> tuple[str, ...]:
    error, whole_error = written.get("error"), whole.get("error")
    of_error = whole_error.keys() - error.keys() if isinstance(error, dict) and isinstance(whole_error, dict) else ()
    return (*sorted(whole.keys() - written.keys()), *(f"error.{name}" for name in sorted(of_error)))


@dataclass(frozen=True, slots=True)
class Event:
    """A line with a JSON object that has an `event_type`."""

    line: int
    seconds: float
    type: str
    document: dict[str, Any]
    """The event, completed unless `read_output` lacks `asked`."""
    bytes: int
    """The size of the line, its end included."""
    absent: tuple[str, ...] = ()
    """The paths of the fields that were added."""

    @property
    def is_terminal(self) -> bool:
        """Whether the event ends a run."""
        return self.type in TERMINAL

    @property
    def error(self) -> dict[str, Any]:
        """The error object of a failure; empty if the event has none."""
        found = self.document.get("error")
        return found if isinstance(found, dict) else {}

    def breaks(self, requirement: str, expected: str, found: str, verdict: Verdict = Verdict.FAIL) -> Finding:
        """Return a finding that this event shows."""
        return Finding(requirement, expected, found, verdict, self.line)


class Fault(Enum):
    """What is wrong with a line that is not an event."""

    AMBIGUOUS = "JSON that receivers may read differently"
    NO_EVENT = "an object without event_type"
    FORM = "something that was meant as JSON, a blank line, or text that is not UTF-8"
    NOISE = "anything else"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that is not an event."""

    line: int
    raw: bytes
    reason: str
    fault: Fault


@dataclass(frozen=True, slots=True)
class Output:
    """The content of stdout."""

    events: tuple[Event, ...]
    unreadable: tuple[Unreadable, ...]
    lines: tuple[OutputLine, ...]
    unfinished: bytes
    takes_turns: bool = False
    """Whether the process was asked to stay for further runs."""

    @property
    def runs(self) -> list[list[Event]]:
        """The events of each run. A `run_started` after a terminal event begins another run."""
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
        """The terminal event of each run, or the last event of a run without one."""
        return [next((event for event in run if event.is_terminal), run[-1]) for run in self.runs]

    @property
    def ends_unreadably(self) -> bool:
        """Whether the last line is complete, meant as an event and unreadable: it may be the terminal event."""
        if self.unfinished or not self.unreadable or not self.lines:
            return False
        last = self.unreadable[-1]
        return last.line == self.lines[-1].number and b"event_type" in last.raw

    @property
    def between_runs(self) -> list[Event]:
        """The events outside any run of a process that was asked to stay."""
        if not self.takes_turns:
            return []
        of_runs = {id(event) for run in self.runs for event in run}
        return [event for event in self.events if id(event) not in of_runs]


def read_output(
    lines: Sequence[OutputLine], unfinished: bytes, *, takes_turns: bool = False, asked: Asked | None = None
) -> Output:
    """Return the events, completed by `asked` if it is given, and the lines that are not events."""
    completing = Completing(asked) if asked else None
    last = [OutputLine(len(lines) + 1, lines[-1].seconds if lines else 0.0, unfinished)] if unfinished else []
    found = [_read(line, completing) for line in (*lines, *last)]
    events = tuple(one for one in found if isinstance(one, Event))
    unreadable = tuple(one for one in found if isinstance(one, Unreadable))
    return Output(events, unreadable, tuple(lines), unfinished, takes_turns)


def _read(line: OutputLine, completing: Completing | None) -> Event | Unreadable:
    body = line.raw.removesuffix(b"\n")
    try:
        document = decode_object(body)
    except NotIJson as problem:
        is_of_form = b"{" in body or b"[" in body or not body.strip()
        fault = Fault.FORM if is_of_form or isinstance(problem.__cause__, UnicodeDecodeError) else Fault.NOISE
        return Unreadable(line.number, body, str(problem), Fault.AMBIGUOUS if isinstance(problem, Ambiguous) else fault)
    event_type = document.get("event_type")
    if not isinstance(event_type, str):
        return Unreadable(line.number, body, "the object has no event_type", Fault.NO_EVENT)
    whole, absent = completing.complete(document, line.seconds) if completing else (dict(document), ())
    return Event(line.number, line.seconds, event_type, whole, len(line.raw), absent)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The input of the rules: the executable, its play and its output."""

    subject: Subject
    played: PlayResult
    output: Output

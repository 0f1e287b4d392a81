"""The input and output of one play, with times. Several threads write it, and the judge reads it."""

import json
import re
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ao_conformance.verdict import Reason, TranscriptEntry
from ao_protocol.redaction import NO_SECRETS, Redactor
from ao_protocol.short_text import shorten_middle

MAX_ENTRIES: Final = 2_000
"""The maximum number of entries, beside those of `TOLD_ALWAYS`; the judge sees everything."""
TOLD_ALWAYS: Final = frozenset({"exit", "signal", "start"})
STOP_SECONDS: Final = 0.25
"""The time in which an interrupt is noticed."""
SHOWN_CHARACTERS: Final = 2_000
"""The maximum length of an entry in reports; the judge sees everything."""
TELLING: Final = (
    re.compile(r"[\w.:]*(error|exception|panic)\b", re.IGNORECASE),
    re.compile(r".*(error|exception|panic|can(no|')t\b)", re.IGNORECASE),
)
"""Lines that explain a failure, the surest first: `Error: …` comes after `throw new Error(…)`."""
COMPLAINT_CHARACTERS: Final = 300
TERMINAL: Final = frozenset({"result", "failure"})


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line of stdout as it came, with its line end if it had one."""

    number: int
    """The number of the line, from 1."""
    seconds: float
    """When the last byte was read, in seconds since the start of the play."""
    raw: bytes


class Stopped(Exception):
    """The tester has interrupted the suite."""


class Transcript:
    """The clock and the entries of one play, without secrets. Its waits raise `Stopped` when `stop` is set."""

    def __init__(self, stop: threading.Event | None = None, redactor: Redactor = NO_SECRETS) -> None:
        self._redactor = redactor
        self._stop = stop or threading.Event()
        self._began = time.monotonic()
        self.began_clock = time.time()
        """When the play began, in seconds since 1970."""
        self._entries: list[TranscriptEntry] = []
        self._left_out = 0
        self.changed = threading.Condition()

    def seconds(self) -> float:
        """Return the seconds since the play began."""
        return self.seconds_at(time.monotonic())

    def seconds_at(self, moment: float) -> float:
        """Return a moment of the monotonic clock in seconds since the play began."""
        return moment - self._began

    def note(self, channel: str, text: str | bytes, process: int = 0) -> None:
        """Add an entry, shortened if it is long."""
        told = self._redactor.data(text) if isinstance(text, bytes) else self._redactor.text(text)
        entry = TranscriptEntry(round(self.seconds(), 3), channel, shown(told), process)
        with self.changed:
            if len(self._entries) < MAX_ENTRIES or channel in TOLD_ALWAYS:
                self._entries.append(entry)
            else:
                self._left_out += 1

    @property
    def entries(self) -> tuple[TranscriptEntry, ...]:
        """All entries so far, in order."""
        with self.changed:
            if not self._left_out:
                return tuple(self._entries)
            rest = TranscriptEntry(round(self.seconds(), 3), "note", f"{self._left_out} more entries were left out")
            return (*self._entries, rest)

    def wait_for(self, holds: Callable[[], bool], until_seconds: float) -> bool:
        """Wait until `holds` is true or the play is `until_seconds` old; return whether it is true.

        Raises:
            Stopped: The tester interrupted the suite.
        """
        with self.changed:
            while not holds():
                left = until_seconds - self.seconds()
                if left <= 0:
                    return False
                if self._stop.is_set():
                    raise Stopped(Reason.INTERRUPTED)
                self.changed.wait(min(left, STOP_SECONDS))
            return True


def shown(text: str | bytes) -> str:
    """Return text for people, cut in the middle if it is long."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", errors="backslashreplace")
    return shorten_middle(text, SHOWN_CHARACTERS)


def exit_text(code: int) -> str:
    """Return a text for people about an exit code, which is negative for a signal."""
    if code >= 0:
        return f"exit {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def complaint(stderr: bytes) -> str:
    """Return the line that explains a failure: the first that names an error, else the last; empty if no line came.

    Interpreters write more after it, such as a stack and their own version.
    """
    lines = [line.strip() for line in stderr.decode(errors="backslashreplace").splitlines() if line.strip()]
    if not lines:
        return ""
    telling = [number for form in TELLING for number, line in enumerate(lines) if form.match(line)]
    number = telling[0] if telling else len(lines) - 1
    said = " ".join(lines[number : number + 2]) if lines[number].endswith(":") else lines[number]
    return said[:COMPLAINT_CHARACTERS]


def member(raw: bytes, name: str) -> Any:  # noqa: ANN401  # any JSON
    """Return a field of the object on a line; None if it has none."""
    try:
        document = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return None
    return document.get(name) if isinstance(document, dict) else None


def event_type_of(raw: bytes) -> str | None:
    """Return the type of the event on a line; None if it has none."""
    found = member(raw, "event_type") if b"event_type" in raw else None
    return found if isinstance(found, str) else None


def is_terminal(raw: bytes) -> bool:
    """Return whether a line is a terminal event."""
    return event_type_of(raw) in TERMINAL


def count_of_type(lines: Sequence[OutputLine], event_type: str) -> int:
    """Return the number of lines that are events of a type."""
    return sum(1 for line in lines if event_type_of(line.raw) == event_type)

"""What went in and came out of one play, with times; written by several threads, read by the judge."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ao_conformance.verdict import INTERRUPTED, TranscriptEntry

MAX_ENTRIES: Final = 2_000
"""More are not kept, but for how the play ended; the judge sees everything."""
TOLD_ALWAYS: Final = frozenset({"exit", "signal", "start"})
STOP_SECONDS: Final = 0.25
"""How soon an interrupt is noticed."""
SHOWN_CHARACTERS: Final = 2_000
"""How much of one entry is kept for reports; the judge sees everything."""


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line of stdout as it came, its end included where it had one."""

    number: int
    """From 1."""
    seconds: float
    """When its last byte was read, since the start of the play."""
    raw: bytes


class Stopped(Exception):
    """The tester has interrupted the suite."""


class Transcript:
    """The clock and the notes of one play. Its waits end, with `Stopped`, when `stop` is set."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()
        self._began = time.monotonic()
        self.began_clock = time.time()
        """When the play began, in seconds since 1970."""
        self._entries: list[TranscriptEntry] = []
        self._left_out = 0
        self.changed = threading.Condition()

    def seconds(self) -> float:
        """Return the time since the play began."""
        return self.seconds_at(time.monotonic())

    def seconds_at(self, moment: float) -> float:
        """Return when a moment of the monotonic clock was, since the play began."""
        return moment - self._began

    def note(self, channel: str, text: str | bytes, process: int = 0) -> None:
        """Add an entry, cut where it is long."""
        entry = TranscriptEntry(round(self.seconds(), 3), channel, shown(text), process)
        with self.changed:
            if len(self._entries) < MAX_ENTRIES or channel in TOLD_ALWAYS:
                self._entries.append(entry)
            else:
                self._left_out += 1

    @property
    def entries(self) -> tuple[TranscriptEntry, ...]:
        """Everything so far, in order."""
        with self.changed:
            if not self._left_out:
                return tuple(self._entries)
            rest = TranscriptEntry(round(self.seconds(), 3), "note", f"{self._left_out} more entries were left out")
            return (*self._entries, rest)

    def wait_for(self, holds: Callable[[], bool], until_seconds: float) -> bool:
        """Wait until something is true or the play is that old; return whether it is true."""
        with self.changed:
            while not holds():
                left = until_seconds - self.seconds()
                if left <= 0:
                    return False
                if self._stop.is_set():
                    raise Stopped(INTERRUPTED)
                self.changed.wait(min(left, STOP_SECONDS))
            return True


def shown(text: str | bytes) -> str:
    """Return text for people, cut in the middle where it is long."""
    if isinstance(text, bytes):
        text = text[: 4 * SHOWN_CHARACTERS].decode("utf-8", errors="backslashreplace") + (
            f"… ({len(text)} bytes)" if len(text) > 4 * SHOWN_CHARACTERS else ""
        )
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half]} … ({len(text) - 2 * half} characters left out) … {text[-half:]}"

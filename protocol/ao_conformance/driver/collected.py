"""What has been read of a process so far."""

from dataclasses import dataclass, field
from typing import Final

from ao_conformance.driver.transcript import OutputLine

MOST_LINES: Final = 100_000
MOST_BYTES: Final = 64 * 1024 * 1024
"""No play has a use for more output: what writes more is ended, so that the suite keeps its time and memory."""


@dataclass(slots=True)
class Collected:
    """Output as it comes, and when what ended; written by several threads, under the lock of the transcript."""

    stdout: list[OutputLine] = field(default_factory=list)
    unfinished: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    stdout_ended: float | None = None
    stderr_ended: float | None = None
    exited: float | None = None
    _stdout_bytes: int = 0

    @property
    def has_flooded(self) -> bool:
        """Whether more has come than a play has a use for."""
        return len(self.stdout) > MOST_LINES or self._stdout_bytes > MOST_BYTES

    def take(self, chunk: bytes, seconds: float) -> list[OutputLine]:
        """Add what has come on stdout, and return the lines that it completes."""
        self._stdout_bytes += len(chunk)
        *whole, rest = chunk.split(b"\n")
        lines: list[OutputLine] = []
        for piece in whole:
            raw = bytes(self.unfinished) + piece + b"\n"
            self.unfinished.clear()
            lines.append(OutputLine(len(self.stdout) + len(lines) + 1, seconds, raw))
        self.stdout += lines
        self.unfinished += rest
        return lines

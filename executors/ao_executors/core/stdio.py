"""The owner of descriptors 0 and 1: only the invocation, control lines and events use them (SPEC 10).

Internal. Both are moved to private descriptors before foreign code runs: output of a library goes to stderr, and a
child process has an empty stdin.
"""

import os
import select
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ao_protocol.framing import MAX_INVOCATION_BYTES, EndedMidLine, LineSplitter, LineTooLong

_CHUNK_BYTES: Final = 256 * 1024


class NobodyReads(BrokenPipeError):
    """The read end of stdout is closed. Any other broken pipe is an ordinary error of the executor."""


@dataclass(slots=True)
class Stdio:
    """The private stdin and stdout of the process. Lines that were read but not taken stay for the next call."""

    stdin_fd: int
    stdout_fd: int
    _splitter: LineSplitter = field(default_factory=lambda: LineSplitter(MAX_INVOCATION_BYTES))
    _lines: list[bytes | LineTooLong] = field(default_factory=list)

    @classmethod
    def take_over(cls) -> "Stdio":
        """Move descriptors 0 and 1 to private descriptors that no child inherits."""
        try:
            stdin_fd = os.dup(0)
        except OSError:  # closed: treated as empty
            stdin_fd = os.open(os.devnull, os.O_RDONLY)
        stdio = cls(stdin_fd, os.dup(1))
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        return stdio

    def let_go(self) -> None:
        """Replace both descriptors by the null device. For a forked child: they belong to its parent."""
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, self.stdin_fd, inheritable=False)
        os.dup2(nothing, self.stdout_fd, inheritable=False)
        os.close(nothing)

    @property
    def is_silent(self) -> bool:
        """True while stdin has neither a byte nor its end to read."""
        ready = select.poll()
        ready.register(self.stdin_fd, select.POLLIN)
        return not self._lines and not ready.poll(0)

    def read_invocation_line(self) -> bytes:
        """Wait for the first line that is not blank; do not wait for the end of stdin.

        A last line without a line end counts, so that `printf` works as well as `echo`.

        Raises:
            LineTooLong: The line is longer than 16 MiB.
            EOFError: stdin ended before such a line.
        """
        while (line := self.take_invocation_line()) is None:
            continue
        return line

    def take_invocation_line(self) -> bytes | None:
        """Read one chunk from stdin and return its first line that is not blank; None if it completes none.

        Raises:
            LineTooLong: The line is longer than 16 MiB.
            EOFError: stdin has ended.
        """
        for line in self.read_lines():
            if isinstance(line, LineTooLong):
                raise line
            if line.strip():
                return line
        return None

    def read_lines(self) -> Iterator[bytes | LineTooLong]:
        """Read one chunk from stdin and yield the lines that it completes. Lines that are not taken stay for later.

        Raises:
            EOFError: stdin has ended.
        """
        if not self._lines:
            self._lines.extend(self._read_some())
        while self._lines:
            yield self._lines.pop(0)

    def _read_some(self) -> Iterable[bytes | LineTooLong]:
        while True:
            try:
                chunk = os.read(self.stdin_fd, _CHUNK_BYTES)
                break
            except BlockingIOError:
                _wait_for(self.stdin_fd, select.POLLIN)
        if chunk:
            return self._splitter.feed(chunk)
        try:
            self._splitter.end()
        except EndedMidLine as error:
            return [error.tail]
        raise EOFError("stdin has ended")

    @property
    def has_lines(self) -> bool:
        """True if lines were read from stdin and not taken yet."""
        return bool(self._lines)

    def write(self, line: bytes) -> None:
        """Write one whole event line, unbuffered. Wait for a slow reader.

        Raises:
            NobodyReads: The read end of stdout is closed.
        """
        view = memoryview(line)
        while view:
            try:
                view = view[os.write(self.stdout_fd, view) :]
            except BlockingIOError:  # another process that shares the pipe has made it non-blocking
                _wait_for(self.stdout_fd, select.POLLOUT)
            except BrokenPipeError as error:
                raise NobodyReads(*error.args) from error


def _wait_for(descriptor: int, mask: int) -> None:
    poll = select.poll()
    poll.register(descriptor, mask)
    poll.poll()

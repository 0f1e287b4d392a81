"""The runner's end of a child's stdin."""

import fcntl
import os
import termios
from typing import IO, Final

NOTHING: Final = memoryview(b"")


class StdinWriter:
    """Writes as much as the pipe takes and keeps the rest, so that a child that never reads blocks nobody."""

    __slots__ = ("_pending", "_stream", "fd", "was_left_unread")

    def __init__(self, stream: IO[bytes]) -> None:
        self.fd = stream.fileno()
        self._stream = stream
        self._pending = NOTHING
        self.was_left_unread = False
        """Whether the child had not read all of it when it was closed. False where the system does not tell."""

    @property
    def is_open(self) -> bool:
        """False once the pipe is closed, from whichever side."""
        return not self._stream.closed

    @property
    def wants_to_write(self) -> bool:
        """True while there is something that the pipe has not taken yet."""
        return self.is_open and bool(self._pending)

    def send(self, data: bytes) -> None:
        """Queue bytes and write what the pipe takes now. After the close, bytes are dropped."""
        if self.is_open:
            self._pending = memoryview(b"".join((self._pending, data)) if self._pending else data)
            self.write_pending()

    def write_pending(self) -> None:
        """Go on writing. A child that closed its stdin closes this end, too."""
        while self.wants_to_write:
            try:
                written = os.write(self.fd, self._pending)
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.close()
                return
            self._pending = self._pending[written:] or NOTHING

    def close(self) -> None:
        """Close the pipe; what was not written yet is dropped."""
        if self.is_open:
            self.was_left_unread = bool(self._pending) or self._holds_bytes()
            self._pending = NOTHING
            self._stream.close()

    def _holds_bytes(self) -> bool:
        try:
            return any(fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4)))
        except OSError:
            return False

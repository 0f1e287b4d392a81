"""The runner's end of a child's stdin."""

import fcntl
import os
import termios
from collections import deque
from typing import IO


class StdinWriter:
    """Writes as much as the pipe takes and keeps the rest, so that a child that never reads blocks nobody."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.fd = stream.fileno()
        self._stream = stream
        self._pending: deque[memoryview] = deque()
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
            self._pending.append(memoryview(data))
            self.write_pending()

    def write_pending(self) -> None:
        """Go on writing. A child that closed its stdin closes this end, too."""
        while self.wants_to_write:
            try:
                written = os.write(self.fd, self._pending[0])
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.close()
                return
            if written == len(self._pending[0]):
                self._pending.popleft()
            else:
                self._pending[0] = self._pending[0][written:]

    def close(self) -> None:
        """Close the pipe; what was not written yet is dropped."""
        if self.is_open:
            self.was_left_unread = bool(self._pending) or self._holds_bytes()
            self._pending.clear()
            self._stream.close()

    def _holds_bytes(self) -> bool:
        try:
            return any(fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4)))
        except OSError:
            return False

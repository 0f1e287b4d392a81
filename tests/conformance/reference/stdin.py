"""The lines that come on stdin, however their bytes are cut (SPEC 3)."""

import os
import stat

MAX_LINE_BYTES = 16 * 1024 * 1024
CHUNK_BYTES = 256 * 1024


class LineTooLong(Exception):
    """More than 16 MiB came without a line end, or with one behind them."""


class Stdin:
    """Descriptor 0 as lines. `fill` reads once and may block; `take_line` never does."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.has_ended = False
        self._unread = bytearray()
        self._looked_at = 0

    def is_regular_file(self) -> bool:
        """Say whether stdin is a file, whose end says nothing about a runner."""
        return stat.S_ISREG(os.fstat(self.descriptor).st_mode)

    def fill(self) -> None:
        """Read what is there."""
        try:
            chunk = os.read(self.descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self._unread += chunk
        self.has_ended = not chunk

    def take_line(self) -> bytes | None:
        """Return the next whole line without its line end, or None.

        Raises:
            LineTooLong: it has more than 16 MiB.
        """
        end = self._unread.find(b"\n", self._looked_at)
        if end < 0:
            self._looked_at = len(self._unread)
            if len(self._unread) > MAX_LINE_BYTES + 1:
                raise LineTooLong
            return None
        line = bytes(self._unread[:end]).removesuffix(b"\r")
        del self._unread[: end + 1]
        self._looked_at = 0
        if len(line) > MAX_LINE_BYTES:
            raise LineTooLong
        return line

    def take_rest(self) -> bytes:
        """Return what stands behind the last line end, once stdin has ended."""
        rest, self._unread = bytes(self._unread), bytearray()
        if len(rest) > MAX_LINE_BYTES:
            raise LineTooLong
        return rest


def is_blank(line: bytes) -> bool:
    """Say whether a line holds nothing."""
    return not line.strip(b" \t\r")

"""Texts between this process and another one, that nobody else finds: prompts, configuration with secrets, a log."""

import os
import sys
import tempfile
from pathlib import Path


class PrivateText:
    """A text with a path. On Linux it is in memory only, and gone with this process, however that ends.

    Elsewhere it is a file that its owner alone may read, and that a SIGKILL leaves behind.
    """

    def __init__(self, name: str, text: str) -> None:
        data = text.encode(errors="replace")
        if sys.platform == "linux":
            self._descriptor = os.memfd_create(name)
            self.path = Path(f"/proc/{os.getpid()}/fd/{self._descriptor}")
        else:
            self._descriptor, path = tempfile.mkstemp(prefix=f"ao-{name}-")
            self.path = Path(path)
        with os.fdopen(os.dup(self._descriptor), "wb") as file:
            file.write(data)
        self._is_there = True

    def size(self) -> int:
        """Return how many bytes there are; the other process may add some."""
        return os.fstat(self._descriptor).st_size

    def read(self, start: int) -> str:
        """Return what stands from byte `start` on."""
        return os.pread(self._descriptor, max(0, self.size() - start), start).decode(errors="replace")

    def forget(self) -> None:
        """Let it go. Whoever has read it keeps what it read; a second call does nothing."""
        if self._is_there:
            self._is_there = False
            os.close(self._descriptor)
            if sys.platform != "linux":
                self.path.unlink(missing_ok=True)

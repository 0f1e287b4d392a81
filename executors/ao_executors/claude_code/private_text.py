"""Texts that another process is to read once, and that nobody else finds: prompts, and configuration with secrets."""

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

    def forget(self) -> None:
        """Let it go. Whoever has read it keeps what it read; a second call does nothing."""
        if self._is_there:
            self._is_there = False
            os.close(self._descriptor)
            if sys.platform != "linux":
                self.path.unlink(missing_ok=True)

"""A file that nobody may open: it notes who does, where the machine tells (Linux)."""

import ctypes
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

IN_OPEN: Final = 0x20
NOTE_BYTES: Final = 4096


class WatchedFile:
    """A file for as long as a `with` block lasts."""

    def __init__(self, path: Path, text: str) -> None:
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        self.path = path
        self._notes = _watch(path)

    @property
    def is_opened(self) -> bool:
        """Whether it was opened since it was written."""
        if self._notes is None:
            return False
        try:
            return bool(os.read(self._notes, NOTE_BYTES))
        except BlockingIOError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._notes is not None:
            os.close(self._notes)


def _watch(path: Path) -> int | None:
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    notes: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if notes < 0:
        return None
    if libc.inotify_add_watch(notes, os.fsencode(path), IN_OPEN) < 0:
        os.close(notes)
        return None
    return notes

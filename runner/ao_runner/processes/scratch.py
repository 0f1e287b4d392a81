"""A folder for temporary files of one process, its TMPDIR, gone with it."""

import asyncio
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ao_runner.processes.cleanup_notes import NOT_NOTED, Belongings
from ao_runner.processes.spawn import Child

MOST_ENTRIES: Final = 1000
"""So many are removed in some milliseconds."""
MOST_LEVELS: Final = 100
"""Python removes folders within folders by recursion, and gives up in the middle of some hundreds."""
_REMOVAL: Final = 'rm -rf -- "$1" || { chmod -R u+rwX -- "$1"; rm -rf -- "$1"; }'
"""Also of folders that nobody may write to, as module caches are."""
PREFIX: Final = "ao-"


class ScratchNotMade(OSError):
    """There is no folder for temporary files; `filename` is where it was to be made."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder for temporary files, and the notes of whose it is."""

    folder: Path
    belongings: Belongings = NOT_NOTED

    @classmethod
    def make(cls, environment: Mapping[str, str], belongings: Belongings = NOT_NOTED) -> Self:
        """Make a folder that only this user can read, where the environment keeps temporary files.

        Raises:
            ScratchNotMade: none can be made there.
        """
        below = Path(environment.get("TMPDIR") or _usual_folder()).absolute()
        scratch = cls(below / f"{PREFIX}{secrets.token_hex(8)}", belongings)
        belongings.note_scratch(scratch.folder.name, scratch.folder)
        try:
            scratch.folder.mkdir(mode=0o700)
        except OSError as error:
            scratch._forget()
            raise ScratchNotMade(error.errno, error.strerror, str(below)) from error
        return scratch

    def note_group(self, leader: int | None) -> None:
        """Note the group of the process that it was made for; None where a lifeline holds it."""
        self.belongings.note_group(self.folder.name, leader)

    def remove(self) -> None:
        """Remove it, as nobody uses it any more; where that takes long or is hard, by a process that no run waits for.

        What is no folder of this user's is left alone.
        """
        if _is_ours(self.folder) and _is_soon_removed(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
        if _is_ours(self.folder):
            _have_removed(self.folder, self._forget)
        else:
            self._forget()

    def _forget(self) -> None:
        """Forget a folder that is gone; what could not be removed is tried again by the next start."""
        if not _is_ours(self.folder):
            self.belongings.forget(self.folder.name)


def _usual_folder() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError as error:
        raise ScratchNotMade(error.errno, error.strerror, tempfile.tempdir or "/tmp") from error  # noqa: S108  # a name


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and folder.name.startswith(PREFIX)


def _is_soon_removed(folder: Path) -> bool:
    """Tell whether it is small, and whether all of it can be seen: what an executor made there may be of any shape."""
    waiting, entries = [(str(folder), 0)], 0
    while waiting:
        below, level = waiting.pop()
        try:
            with os.scandir(below) as found:
                for entry in found:
                    entries += 1
                    if entries > MOST_ENTRIES:
                        return False
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, level + 1))
        except OSError:
            return False  # a path that is too long, or a folder that may not be read
        if level > MOST_LEVELS:
            return False
    return True


def _have_removed(folder: Path, on_removed: Callable[[], None]) -> None:
    argv = ["sh", "-c", f"exec 2>/dev/null; {_REMOVAL}", "sh", str(folder)]
    try:
        loop = asyncio.get_running_loop()
        remover = Child(argv, {"PATH": os.defpath})
    except (OSError, RuntimeError):
        return  # the machine has no process for it, or nobody could hear its end: it stays until the next start

    def hear_the_end() -> None:
        loop.remove_reader(remover.exit_fd)
        remover.close()
        on_removed()

    loop.add_reader(remover.exit_fd, hear_the_end)

"""A folder for temporary files of one process, its TMPDIR, gone with it."""

import asyncio
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Self

from ao_runner.belongings import NOT_NOTED, Belongings
from ao_runner.spawn import Child

MOST_ENTRIES: Final = 1000
"""So many are removed in some milliseconds."""
PREFIX: Final = "ao-"


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder for temporary files, and the notes of whose it is."""

    folder: Path
    belongings: Belongings = NOT_NOTED

    @classmethod
    def make(cls, environment: Mapping[str, str], belongings: Belongings = NOT_NOTED) -> Self:
        """Make a folder that only this user can read, where the environment keeps temporary files.

        Raises:
            OSError: none can be made there.
        """
        below = Path(environment.get("TMPDIR") or tempfile.gettempdir()).absolute()
        scratch = cls(below / f"{PREFIX}{secrets.token_hex(8)}", belongings)
        belongings.note_scratch(scratch.folder.name, scratch.folder)
        try:
            scratch.folder.mkdir(mode=0o700)
        except OSError:
            scratch._forget()
            raise
        return scratch

    def note_group(self, leader: int | None) -> None:
        """Note the group of the process that it was made for; None where a lifeline holds it."""
        self.belongings.note_group(self.folder.name, leader)

    def remove(self) -> None:
        """Remove it, as nobody uses it any more; where it holds much a process does it, so that no run waits.

        What is no folder of this user's is left alone.
        """
        if not _is_ours(self.folder):
            self._forget()
        elif _holds_much(self.folder):
            _have_removed(self.folder, self._forget)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
            self._forget()

    def _forget(self) -> None:
        """Forget a folder that is gone; what could not be removed is tried again by the next start."""
        if not _is_ours(self.folder):
            self.belongings.forget(self.folder.name)


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and folder.name.startswith(PREFIX)


def _holds_much(folder: Path) -> bool:
    entries = (entry for _, folders, files in os.walk(folder) for entry in (*folders, *files))
    return next(islice(entries, MOST_ENTRIES, None), None) is not None


def _have_removed(folder: Path, on_removed: Callable[[], None]) -> None:
    try:
        loop = asyncio.get_running_loop()
        remover = Child(["rm", "-rf", "--", str(folder)], {"PATH": os.defpath})
    except (OSError, RuntimeError):
        return  # the machine has no process for it, or nobody could hear its end: it stays until the next start

    def hear_the_end() -> None:
        loop.remove_reader(remover.exit_fd)
        remover.close()
        on_removed()

    loop.add_reader(remover.exit_fd, hear_the_end)

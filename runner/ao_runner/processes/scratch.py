"""A folder for temporary files of one process, its TMPDIR, gone with it."""

import asyncio
import json
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ao_lifeline import removal
from ao_lifeline.removal import TooManyEntries, remove_tree
from ao_runner.processes.cleanup_notes import NOT_NOTED, Belongings
from ao_runner.processes.spawn import Child, read_available

MOST_ENTRIES: Final = 1000
"""So many are removed in some milliseconds."""
_KEPT_VARIABLES: Final = ("PATH", "LD_LIBRARY_PATH")
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
            scratch._conclude(())
            raise ScratchNotMade(error.errno, error.strerror, str(below)) from error
        return scratch

    def note_group(self, leader: int | None) -> None:
        """Note the group of the process that it was made for; None where a lifeline holds it."""
        self.belongings.note_group(self.folder.name, leader)

    def remove(self) -> None:
        """Remove it, as nobody uses it any more; where that takes long, by a process that no run waits for.

        What is no folder of this user's is left alone. What cannot be removed, as it is a mount, is left and named.
        """
        if not _is_ours(self.folder):
            self.belongings.forget(self.folder.name)
            return
        try:
            self._conclude(remove_tree(str(self.folder), MOST_ENTRIES))
        except TooManyEntries:
            _have_removed(self.folder, self._conclude)

    def _conclude(self, left: Sequence[str]) -> None:
        """Forget a folder that is gone; what could not be removed is tried again by the next start."""
        for sentence in left:
            self.belongings.warn(f"a temporary file cannot be removed: {sentence}; remove it by hand")
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


def _have_removed(folder: Path, conclude: Callable[[Sequence[str]], None]) -> None:
    argv = [sys.executable, "-I", "-S", removal.__file__, str(folder)]
    try:
        loop = asyncio.get_running_loop()
        remover = Child(argv, {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ})
    except (OSError, RuntimeError):
        return  # the machine has no process for it, or nobody could hear its end: it stays until the next start

    def hear_the_end() -> None:
        loop.remove_reader(remover.exit_fd)
        left = read_available(remover.stdout_fd)
        remover.close()
        with suppress(ValueError):  # it was killed
            conclude(json.loads(left or b""))

    loop.add_reader(remover.exit_fd, hear_the_end)

"""A folder for temporary files of one process, its TMPDIR, gone with it; and what dead runners of a home have left."""

import asyncio
import json
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ao_lifeline import removal
from ao_lifeline.removal import TooManyEntries, remove_tree
from ao_runner.home import take_lock
from ao_runner.processes.cleanup_journal import FOLDER_NAME, NOT_NOTED, CleanupJournal
from ao_runner.processes.spawn import Child, read_available
from ao_runner.store.ownership import forget_owner, is_alive

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
    cleanup: CleanupJournal = NOT_NOTED

    @classmethod
    def make(cls, environment: Mapping[str, str], cleanup: CleanupJournal = NOT_NOTED) -> Self:
        """Make a folder that only this user can read, where the environment keeps temporary files.

        Raises:
            ScratchNotMade: none can be made there.
        """
        below = Path(environment.get("TMPDIR") or _usual_folder()).absolute()
        scratch = cls(below / f"{PREFIX}{secrets.token_hex(8)}", cleanup)
        cleanup.note_scratch(scratch.folder.name, scratch.folder)
        try:
            scratch.folder.mkdir(mode=0o700)
        except OSError as error:
            scratch._conclude(())
            raise ScratchNotMade(error.errno, error.strerror, str(below)) from error
        return scratch

    def note_group(self, leader: int | None) -> None:
        """Note the group of the process that it was made for; None where a lifeline holds it."""
        self.cleanup.note_group(self.folder.name, leader)

    def remove(self) -> None:
        """Remove it, as nobody uses it any more; where that takes long, by a process that no run waits for.

        What is no folder of this user's is left alone. What cannot be removed, as it is a mount, is left and named.
        """
        if not _is_ours(self.folder):
            self.cleanup.forget(self.folder.name)
            return
        try:
            self._conclude(remove_tree(str(self.folder), MOST_ENTRIES))
        except TooManyEntries:
            _have_removed(self.folder, self._conclude)

    def _conclude(self, left: Sequence[str]) -> None:
        """Forget a folder that is gone; what could not be removed is tried again by the next start."""
        for sentence in left:
            self.cleanup.warn(f"a temporary file cannot be removed: {sentence}; remove it by hand")
        if not _is_ours(self.folder):
            self.cleanup.forget(self.folder.name)


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


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """Process groups, by their leaders' ids, and folders for temporary files that dead runners have left."""

    groups: tuple[int, ...] = ()
    folders: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups or self.folders)

    def __str__(self) -> str:
        groups = f"process groups {', '.join(map(str, self.groups))}" if self.groups else ""
        folders = f"{len(self.folders)} temporary folders" if self.folders else ""
        return " and ".join(part for part in (groups, folders) if part)


def find_left_behind(home: Path) -> LeftBehind:
    """Look for what dead runners have left, and touch nothing."""
    notes = [note for owner in _dead(home) for note in CleanupJournal(owner).list_notes()]
    return LeftBehind(
        tuple(note.group.leader for note in notes if note.group is not None and note.group.is_there()),
        tuple(note.scratch for note in notes if note.scratch is not None and note.scratch.is_dir()),
    )


def sweep_left_behind(home: Path, warn: Callable[[str], object]) -> LeftBehind:
    """Kill the groups and remove the folders that dead runners have left, and return which.

    A group whose number is another's by now is left alone, and so is one of which that cannot be told. A runner lives
    while it holds its lock, wherever it runs. Runners that start at the same time do not sweep for the same one.
    `warn` hears of what cannot be removed.
    """
    groups, folders = list[int](), list[Path]()
    for owner in _dead(home):
        with _claimed(owner) as is_ours:
            cleanup = CleanupJournal(owner, warn)
            for note in cleanup.list_notes() if is_ours else ():
                if note.group is not None and note.group.kill():
                    groups.append(note.group.leader)
                if note.scratch is None:
                    cleanup.forget(note.name)
                    continue
                if note.scratch.is_dir():
                    folders.append(note.scratch)
                Scratch(note.scratch, cleanup).remove()
            if is_ours:
                with suppress(OSError):
                    owner.rmdir()
                forget_owner(home, owner.name)
    return LeftBehind(tuple(groups), tuple(folders))


def _dead(home: Path) -> list[Path]:
    folder = home / FOLDER_NAME
    owners = sorted(folder.iterdir()) if folder.is_dir() else []
    return [owner for owner in owners if owner.is_dir() and not is_alive(home, owner.name)]


@contextmanager
def _claimed(owner: Path) -> Iterator[bool]:
    try:
        lock = os.open(owner, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield False
        return
    try:
        yield take_lock(lock)
    finally:
        os.close(lock)

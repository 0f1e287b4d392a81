"""What dead runners of a home have left is ended by the next start; what a living one has is left alone."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ao_runner.file_locks import take_lock
from ao_runner.processes.cleanup_notes import FOLDER_NAME, Belongings
from ao_runner.processes.scratch import Scratch
from ao_runner.store.ownership import forget_owner, is_alive


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
    notes = [note for owner in _dead(home) for note in Belongings(owner).list_notes()]
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
            belongings = Belongings(owner, warn)
            for note in belongings.list_notes() if is_ours else ():
                if note.group is not None and note.group.kill():
                    groups.append(note.group.leader)
                if note.scratch is None:
                    belongings.forget(note.name)
                    continue
                if note.scratch.is_dir():
                    folders.append(note.scratch)
                Scratch(note.scratch, belongings).remove()
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

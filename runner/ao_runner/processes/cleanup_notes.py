"""What an owner has that would outlive its SIGKILL: folders for temporary files, and groups that no lifeline holds.

Each is noted in the home, under the owner's name, before it has done anything: a folder before it is made, a group
before its leader is given an invocation. So the next start ends what a dead owner has left. Notes are not synced, for
nothing that they name outlives a crash of the system but folders.
"""

import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ao_runner.home import private_folder
from ao_runner.processes.groups import Group, began_at

FOLDER_NAME: Final = "belongings"
MAX_PATH: Final = 4096


@dataclass(frozen=True, slots=True)
class Note:
    """What stands in a note: a folder, a group, or both."""

    name: str
    scratch: Path | None = None
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class Belongings:
    """The notes of one owner; without a folder nothing is noted. `warn` hears of what cannot be removed.

    A disk that takes no note does not hold up a run: what is not noted is not found by the next start.
    """

    folder: Path | None = None
    warn: Callable[[str], object] = lambda _: None

    def note_scratch(self, name: str, scratch: Path) -> None:
        """Note a folder for temporary files that is about to be made."""
        self._write(name, {"scratch": str(scratch)})

    def note_group(self, name: str, leader: int | None) -> None:
        """Note a group whose leader was just started; None is the leader of one that a lifeline holds."""
        if self.folder is not None and leader is not None:
            self._write(name, {"leader": leader, "began": began_at(leader)})

    def forget(self, name: str) -> None:
        """Forget a note, of which nothing is left."""
        if self.folder is not None:
            with suppress(OSError):
                (self.folder / name).unlink(missing_ok=True)

    @contextmanager
    def noted_group(self, leader: int | None) -> Iterator[None]:
        """Keep a note of a group inside the `with` block."""
        name = secrets.token_hex(8)
        self.note_group(name, leader)
        try:
            yield
        finally:
            self.forget(name)

    def list_notes(self) -> list[Note]:
        """Return the notes that can be read."""
        paths = sorted(self.folder.iterdir()) if self.folder is not None and self.folder.is_dir() else []
        return [_read(path) for path in paths]

    def _write(self, name: str, facts: dict[str, object]) -> None:
        if self.folder is None:
            return
        with suppress(OSError):
            note = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                os.write(note, json.dumps(facts).encode() + b"\n")
            finally:
                os.close(note)


NOT_NOTED: Final = Belongings()


@contextmanager
def own_belongings(home: Path, owner: str, warn: Callable[[str], object]) -> Iterator[Belongings]:
    """Yield the notes of an owner that lives (see `ao_runner.store.ownership`), for as long as the `with` block."""
    folder = private_folder(home, FOLDER_NAME, owner)
    try:
        yield Belongings(folder, warn)
    finally:
        with suppress(OSError):
            folder.rmdir()  # what is still noted is still being removed, and the next start looks after it


def _read(path: Path) -> Note:
    facts: dict[str, object] = {}
    with suppress(OSError, ValueError, TypeError, RecursionError):  # its writer was killed before it had written
        for line in path.read_bytes().splitlines():
            facts |= json.loads(line)
    named = facts.get("scratch")
    scratch = Path(named) if isinstance(named, str) and "\0" not in named and len(named) < MAX_PATH else None
    leader, began = facts.get("leader"), facts.get("began")
    group = Group(leader, began, scratch) if isinstance(leader, int) and isinstance(began, str) else None
    return Note(path.name, scratch, group)

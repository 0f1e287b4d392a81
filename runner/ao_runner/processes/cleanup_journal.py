"""What an owner has that would outlive its SIGKILL: folders for temporary files, and groups that no lifeline holds.

Each is noted in the home, under the owner's name, before it has done anything: a folder before it is made, a group
before its leader is given an invocation. So the next start ends what a dead owner has left. Notes are not synced, for
nothing that they name outlives a crash of the system but folders.

A group is the one that was noted if its leader began when the noted one did. Where the leader has left and others of
its group have not, they are known by the TMPDIR in their environment, a folder that nobody else was given.
"""

import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ao_runner.home import private_folder

GONE_SECONDS: Final = 1.0
"""How long it may take until what was killed is gone."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as it was noted: its leader's process id, and when that one began; `folder` was its TMPDIR."""

    leader: int
    began: str
    folder: Path | None = None

    def is_there(self) -> bool:
        """Tell whether any process of it lives; False where that cannot be told from somebody else's group."""
        if not has_members(self.leader):
            return False
        began = began_at(self.leader)
        if began is not None:
            return began == self.began
        return self.folder is not None and has_member_with(self.leader, self.folder)

    def kill(self) -> bool:
        """Kill it, if it is there, and return whether it was. It is gone then, or will be as soon as it can be."""
        if not self.is_there():
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, signal.SIGKILL)
        ends_at = time.monotonic() + GONE_SECONDS
        while has_members(self.leader) and time.monotonic() < ends_at:
            time.sleep(0.005)
        return True


if sys.platform == "darwin":
    from ao_runner.processes.spawn import first_line_of

    PS_SECONDS: Final = 10.0

    def began_at(pid: int) -> str | None:
        """Return when a process began, as a text that no later process of the same id has; None if there is none."""
        return first_line_of(["/bin/ps", "-o", "lstart=", "-p", str(pid)], {"LC_ALL": "C"}, PS_SECONDS)

    def has_members(group: int) -> bool:
        """Tell whether any process of a group is there."""
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return began_at(group) is not None  # so it says of a group whose processes have all ended, too
        return True

    def has_member_with(group: int, folder: Path) -> bool:
        """Tell nothing: the environment of others is not reliably shown."""
        return False

else:
    _STATE, _GROUP, _BEGAN = 0, 2, 19
    """Fields of /proc/<pid>/stat behind the name, which may contain anything."""

    def began_at(pid: int) -> str | None:
        """Return when a process began, as a text that no later process of the same id has; None if there is none.

        The kernel counts from its start, and process ids belong to a namespace: both stand in it.
        """
        try:
            fields = _stat(pid)
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            return f"{boot} {os.readlink('/proc/self/ns/pid')} {fields[_BEGAN]}"  # noqa: PTH115  # it is no path
        except OSError:
            return None

    def has_members(group: int) -> bool:
        """Tell whether any process of a group lives; one that only has to be reaped does not."""
        return next(_members(group), None) is not None

    def has_member_with(group: int, folder: Path) -> bool:
        """Tell whether any process of a group was started with this folder as TMPDIR."""
        wanted = b"TMPDIR=" + os.fsencode(folder)
        return any(wanted in _environment(pid) for pid in _members(group))

    def _members(group: int) -> Iterator[int]:
        for entry in os.listdir("/proc"):  # noqa: PTH208  # thousands of names
            if not entry.isdigit():
                continue
            with suppress(OSError):
                fields = _stat(int(entry))
                if fields[_GROUP] == str(group) and fields[_STATE] not in "ZX":
                    yield int(entry)

    def _environment(pid: int) -> list[bytes]:
        try:
            return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return []

    def _stat(pid: int) -> list[str]:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(")")[2].split()


FOLDER_NAME: Final = "belongings"
MAX_PATH: Final = 4096


@dataclass(frozen=True, slots=True)
class Note:
    """What stands in a note: a folder, a group, or both."""

    name: str
    scratch: Path | None = None
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class CleanupJournal:
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


NOT_NOTED: Final = CleanupJournal()


@contextmanager
def own_cleanup_journal(home: Path, owner: str, warn: Callable[[str], object]) -> Iterator[CleanupJournal]:
    """Yield the notes of an owner that lives (see `ao_runner.store.ownership`), for as long as the `with` block."""
    folder = private_folder(home, FOLDER_NAME, owner)
    try:
        yield CleanupJournal(folder, warn)
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

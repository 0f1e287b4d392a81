"""What an owner has that would outlive its SIGKILL: folders for temporary files, and groups that no lifeline holds.

Each is noted in the home, under the owner's name, before it has done anything: a folder before it is made, a group
before its leader is given an invocation. So the next start ends what a dead owner has left. Notes are not synced, for
nothing that they name outlives a crash of the system but folders.

A group is the one that was noted if its leader began when the noted one did. Where the leader has left and others of
its group have not, they are known by the TMPDIR in their environment, a folder that nobody else was given.
"""

import asyncio
import json
import os
import secrets
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ao_lifeline import removal
from ao_lifeline.removal import TooManyEntries, remove_tree
from ao_runner.home import private_folder, take_lock
from ao_runner.processes.spawn import Child, first_line_of, read_available
from ao_runner.store.ownership import forget_owner, is_alive

GONE_SECONDS: Final = 1.0
"""How long it may take until what was killed is gone."""
MOST_ENTRIES: Final = 1000
"""So many are removed in some milliseconds."""
_KEPT_VARIABLES: Final = ("PATH", "LD_LIBRARY_PATH")
PREFIX: Final = "ao-"
FOLDER_NAME: Final = "belongings"
MAX_PATH: Final = 4096


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

"""Resources of an owner that would outlive its SIGKILL: temporary folders, and process groups without a lifeline.

Each is recorded in the home under the owner's name before its first use: a folder before it is created, a group before
its leader gets an invocation. So the next start removes the remains of a dead owner. Notes are not synced, since only
folders outlive a crash of the system.

A group is the recorded one if its leader has the recorded start time. If the leader has exited and other members have
not, they are identified by the TMPDIR in their environment, which is unique.
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
from typing import Final, NamedTuple, Self

from ao_lifeline import removal
from ao_lifeline.removal import TooManyEntries, remove_tree
from ao_runner.home import locked, private_folder
from ao_runner.processes.spawn import Child, first_line_of, read_available
from ao_runner.store.ownership import forget_owner, is_alive

GONE_SECONDS: Final = 1.0
"""How long to wait until killed processes are gone."""
MOST_ENTRIES: Final = 1000
"""Number of entries that can be removed in a few milliseconds."""
_KEPT_VARIABLES: Final = ("PATH", "LD_LIBRARY_PATH")
PREFIX: Final = "ao-"
FOLDER_NAME: Final = "belongings"
MAX_PATH: Final = 4096


class Group(NamedTuple):
    """A recorded process group: the process id and start time of its leader; `folder` is its TMPDIR."""

    leader: int
    began: str
    folder: Path | None = None

    def is_there(self) -> bool:
        """Return whether a member is alive; False if it cannot be distinguished from another group."""
        if not has_members(self.leader):
            return False
        began = began_at(self.leader)
        if began is not None:
            return began == self.began
        return self.folder is not None and has_member_with(self.leader, self.folder)

    def kill(self) -> bool:
        """Kill the group if it exists, wait up to `GONE_SECONDS` for its end, and return whether it existed."""
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
        """Return the start of a process, as a text unique among processes with its id; None if there is none."""
        return first_line_of(["/bin/ps", "-o", "lstart=", "-p", str(pid)], {"LC_ALL": "C"}, PS_SECONDS)

    def has_members(group: int) -> bool:
        """Return whether a group has any process."""
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return began_at(group) is not None  # this error also occurs if all processes of the group have ended
        return True

    def has_member_with(group: int, folder: Path) -> bool:
        """Return False: the environment of other processes is not reliably available."""
        return False

else:
    _STATE, _GROUP, _BEGAN = 0, 2, 19
    """Fields of /proc/<pid>/stat behind the name, which may contain anything."""

    def began_at(pid: int) -> str | None:
        """Return the start of a process, as a text unique among processes with its id; None if there is none.

        The kernel counts from its own start, and process ids belong to a namespace, so the text contains both.
        """
        try:
            fields = _stat(pid)
            boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
            return f"{boot} {os.readlink('/proc/self/ns/pid')} {fields[_BEGAN]}"  # noqa: PTH115  # it is no path
        except OSError:
            return None

    def has_members(group: int) -> bool:
        """Return whether a group has a living process; a zombie does not count."""
        return next(_members(group), None) is not None

    def has_member_with(group: int, folder: Path) -> bool:
        """Return whether a process of a group was started with this folder as TMPDIR."""
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


class Note(NamedTuple):
    """The contents of a note: a folder, a group, or both."""

    name: str
    scratch: Path | None = None
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class CleanupJournal:
    """The notes of one owner; without a folder nothing is recorded. `warn` receives a message if removal fails.

    A failed write does not delay a run; then the next start does not find the resource.
    """

    folder: Path | None = None
    warn: Callable[[str], object] = lambda _: None

    def note_scratch(self, name: str, scratch: Path) -> None:
        """Record a temporary folder before its creation."""
        self._write(name, {"scratch": str(scratch)})

    def note_group(self, name: str, leader: int | None) -> None:
        """Record a group whose leader was just started; a leader of None means that a lifeline holds the group."""
        if self.folder is not None and leader is not None:
            self._write(name, {"leader": leader, "began": began_at(leader)})

    def forget(self, name: str) -> None:
        """Delete a note whose resources are gone."""
        if self.folder is not None:
            with suppress(OSError):
                (self.folder / name).unlink(missing_ok=True)

    @contextmanager
    def noted_group(self, leader: int | None) -> Iterator[None]:
        """Record a group for the duration of the `with` block."""
        name = secrets.token_hex(8)
        self.note_group(name, leader)
        try:
            yield
        finally:
            self.forget(name)

    def list_notes(self) -> list[Note]:
        """Return the readable notes."""
        paths = sorted(self.folder.iterdir()) if self.folder is not None and self.folder.is_dir() else []
        return [_read(path) for path in paths]

    def _write(self, name: str, facts: dict[str, object]) -> None:
        if self.folder is None:
            return
        with suppress(OSError):
            descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(descriptor, "ab", buffering=0) as note:  # noqa: PTH123  # a descriptor
                note.write(json.dumps(facts).encode() + b"\n")


NOT_NOTED: Final = CleanupJournal()


@contextmanager
def own_cleanup_journal(home: Path, owner: str, warn: Callable[[str], object]) -> Iterator[CleanupJournal]:
    """Yield the notes of a living owner (see `ao_runner.store.ownership`) for the duration of the `with` block."""
    folder = private_folder(home, FOLDER_NAME, owner)
    try:
        yield CleanupJournal(folder, warn)
    finally:
        with suppress(OSError):
            folder.rmdir()  # fails while resources are still being removed; the next start continues with them


def _read(path: Path) -> Note:
    facts: dict[str, object] = {}
    with suppress(OSError, ValueError, TypeError, RecursionError):  # its writer was killed before or while writing
        for line in path.read_bytes().splitlines():
            facts |= json.loads(line)
    named = facts.get("scratch")
    scratch = Path(named) if isinstance(named, str) and "\0" not in named and len(named) < MAX_PATH else None
    leader, began = facts.get("leader"), facts.get("began")
    group = Group(leader, began, scratch) if isinstance(leader, int) and isinstance(began, str) else None
    return Note(path.name, scratch, group)


class ScratchNotMade(OSError):
    """No temporary folder could be created; `filename` is its parent."""


class Scratch(NamedTuple):
    """A temporary folder and the notes of its owner."""

    folder: Path
    cleanup: CleanupJournal = NOT_NOTED

    @classmethod
    def make(cls, environment: Mapping[str, str], cleanup: CleanupJournal = NOT_NOTED) -> Self:
        """Create a folder that only this user can read, below the environment's TMPDIR.

        Raises:
            ScratchNotMade: It cannot be created there.
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
        """Record the group of the process that uses the folder; None if a lifeline holds it."""
        self.cleanup.note_group(self.folder.name, leader)

    def remove(self) -> None:
        """Remove the unused folder; a large one is removed by another process, so that no run waits.

        Anything that is not this user's folder stays. Files that cannot be removed, such as mounts, are reported.
        """
        if not _is_ours(self.folder):
            self.cleanup.forget(self.folder.name)
            return
        try:
            self._conclude(remove_tree(str(self.folder), MOST_ENTRIES))
        except TooManyEntries:
            _have_removed(self.folder, self._conclude)

    def _conclude(self, left: Sequence[str]) -> None:
        """Delete the note of a removed folder; the next start tries again to remove the rest."""
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
        return  # no process or event loop is available for it: the folder stays until the next start

    def hear_the_end() -> None:
        loop.remove_reader(remover.exit_fd)
        left = read_available(remover.stdout_fd)
        remover.close()
        with suppress(ValueError):  # it was killed
            conclude(json.loads(left or b""))

    loop.add_reader(remover.exit_fd, hear_the_end)


class LeftBehind(NamedTuple):
    """Process groups, by the ids of their leaders, and temporary folders of dead runners."""

    groups: tuple[int, ...] = ()
    folders: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups or self.folders)

    def __str__(self) -> str:
        groups = f"process groups {', '.join(map(str, self.groups))}" if self.groups else ""
        folders = f"{len(self.folders)} temporary folders" if self.folders else ""
        return " and ".join(part for part in (groups, folders) if part)


def find_left_behind(home: Path) -> LeftBehind:
    """Return the remains of dead runners without changing anything."""
    notes = [note for owner in _dead(home) for note in CleanupJournal(owner).list_notes()]
    return LeftBehind(
        tuple(note.group.leader for note in notes if note.group is not None and note.group.is_there()),
        tuple(note.scratch for note in notes if note.scratch is not None and note.scratch.is_dir()),
    )


def sweep_left_behind(home: Path, warn: Callable[[str], object]) -> LeftBehind:
    """Kill the groups and remove the folders of dead runners, and return them.

    A group is left alone if its id was reused or may have been. A runner is alive while it holds its lock, in any
    namespace. Runners that start at the same time do not sweep the same dead runner.
    `warn` receives a message if removal fails.
    """
    groups, folders = list[int](), list[Path]()
    for owner in _dead(home):
        with locked(owner) as is_ours:
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

"""The store cannot be written: its disk is at fault, or a process that does not let go of it, which is then named."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from ao_runner.errors import RunnerError
from ao_runner.file_locks import take_lock

_BETWEEN_TRIES_SECONDS: Final = 0.01
_WRITE_LOCK_BYTE: Final = 120
"""Who writes holds this byte of the file `-shm` (SQLite, "WAL-mode File Format", 2.3.1)."""


@dataclass(eq=False)
class StoreUnwritable(RunnerError):
    """The store takes no more: its disk is full or broken, or others do not let go of it."""

    path: Path
    reason: str
    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        return (
            f"cannot write to {self.path}: {self.reason}. Free disk space, make the folder writable, or choose another "
            "one with --home or AO_HOME. An active run was stopped; the next ao command records its end"
        )


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes to a store now."""

    pid: int
    is_stopped: bool


@dataclass(eq=False)
class StoreBusy(StoreUnwritable):
    """Another process has been writing to the store for longer than anybody should."""

    holder: Holder | None = None

    def __str__(self) -> str:
        match self.holder:
            case Holder(pid=pid, is_stopped=True):
                who = f"process {pid} holds the write lock and is suspended. Resume it: kill -CONT {pid}"
            case Holder(pid=pid):
                who = f"process {pid} does not release the write lock. Inspect it: ps -fp {pid}"
            case None:
                who = f"another process does not release the write lock. Find it: lsof {self.path}"
        return f"cannot write to {self.path}: {who}; then retry. An active run was stopped"


def unwritable(path: Path, error: sqlite3.OperationalError) -> StoreUnwritable:
    """Return what is to be said of an error that a write had."""
    if is_busy(error):
        return StoreBusy(path, str(error), find_holder(path))
    return StoreUnwritable(path, str(error))


def is_busy(error: sqlite3.Error) -> bool:
    """Tell whether others did not let go of the store in time."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def made_by_one(path: Path, patience_seconds: float) -> Iterator[None]:
    """Let one process at a time make a store's file, by a lock on its folder: see `find_holder` why not on the file.

    Raises:
        StoreBusy: another process has been making it for longer than that.
    """
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    until = time.monotonic() + patience_seconds
    try:
        while not take_lock(descriptor):
            if time.monotonic() > until:
                raise StoreBusy(path, "another process is making it", _find_maker(path.parent))
            time.sleep(_BETWEEN_TRIES_SECONDS)
        yield
    finally:
        os.close(descriptor)


def find_holder(path: Path) -> Holder | None:
    """Return the process that writes to a store now; None where there is none, or the system does not say (Linux only).

    It opens none of the store's files, for to close one would drop this process's own locks.
    """
    for pid, first, last in _write_locks(path.with_name(f"{path.name}-shm")):
        if last != "EOF" and pid != os.getpid() and int(first) <= _WRITE_LOCK_BYTE <= int(last):
            return Holder(pid, _is_stopped(pid))
    return None


def _find_maker(folder: Path) -> Holder | None:
    makers = (pid for pid, _, last in _write_locks(folder) if last == "EOF")
    return next((Holder(pid, _is_stopped(pid)) for pid in makers), None)


def _write_locks(path: Path) -> list[tuple[int, str, str]]:
    """Return who holds which bytes of a file alone, as pid, first and last byte; Linux only."""
    try:
        inode = path.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    # 1: POSIX ADVISORY WRITE <pid> <major>:<minor>:<inode> <first byte> <last byte>
    found = (fields for fields in map(str.split, lines) if len(fields) == 8 and fields[3] == "WRITE")
    return [
        (int(fields[4]), fields[6], fields[7])
        for fields in found
        if fields[5].endswith(f":{inode}") and int(fields[4]) > 0
    ]


def _is_stopped(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in {"T", "t"}

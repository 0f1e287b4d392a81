"""The file of the local store: opened, brought to the layout of today, written in transactions. It knows no queries."""

import os
import sqlite3
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from ao_runner.errors import RunnerError
from ao_runner.home import private_home, take_lock

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


FILE_NAME: Final = "ao.sqlite3"
BUSY_SECONDS: Final = 30.0

_LAYOUTS: Final = (
    """
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY, created_at TEXT NOT NULL, executor_name TEXT NOT NULL, executor_path TEXT NOT NULL,
    project_dir TEXT NOT NULL, blueprint TEXT NOT NULL, executor_config TEXT NOT NULL, executor_session_id TEXT,
    is_simulated INTEGER NOT NULL
) STRICT;
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES sessions, mode TEXT NOT NULL, parameters TEXT NOT NULL,
    started_at TEXT NOT NULL, status TEXT NOT NULL, ended_at TEXT, error_type TEXT, record TEXT, owner TEXT NOT NULL
) STRICT;
CREATE INDEX runs_of_session ON runs (session_id);
CREATE UNIQUE INDEX one_running_run ON runs (session_id) WHERE status = 'running';
CREATE TABLE events (
    position INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL REFERENCES runs, seq INTEGER NOT NULL,
    event_type TEXT NOT NULL, line TEXT NOT NULL, UNIQUE (run_id, seq)
) STRICT;
""",
    """
ALTER TABLE runs ADD COLUMN contract TEXT;
ALTER TABLE runs ADD COLUMN schema_name TEXT AS (json_extract(contract, '$.schema_name'));
CREATE INDEX runs_of_schema ON runs (schema_name);
CREATE TABLE schemas (
    name TEXT PRIMARY KEY, description TEXT NOT NULL, schema TEXT NOT NULL, created_at TEXT NOT NULL, deleted_at TEXT
) STRICT;
""",
    """
ALTER TABLE events ADD COLUMN last_seq INTEGER;
ALTER TABLE sessions ADD COLUMN profile TEXT;
ALTER TABLE runs ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN queued_at TEXT;
ALTER TABLE runs ADD COLUMN profile TEXT;
ALTER TABLE runs ADD COLUMN timeout_seconds REAL;
ALTER TABLE runs ADD COLUMN metadata TEXT;
ALTER TABLE runs ADD COLUMN has_begun INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN lease_until REAL;
ALTER TABLE runs ADD COLUMN stop_wanted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_that_are_not_over ON runs (status) WHERE status IN ('queued', 'running');
""",
    """
ALTER TABLE runs ADD COLUMN model_script TEXT;
""",
)
"""How each layout is made from the one before it: what stands here is never edited, a new layout is added below.

A new file takes all the steps and an old one those that it lacks, so both end alike."""

LAYOUT: Final = len(_LAYOUTS)


@dataclass(eq=False)
class StoreUnusable(RunnerError):
    """The store's file cannot be opened, or another version of this program made it."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"cannot use {self.path}: {self.reason}. Choose another folder with --home or AO_HOME"


class StoreDamaged(StoreUnusable):
    """What stands in the store's file cannot be read: pages, tables or columns of it are broken or missing."""

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged: {self.reason}. Restore it from a backup, or save what is left with"
            f" `sqlite3 {self.path} .recover`; until then choose another folder with --home or AO_HOME"
        )


_BEYOND_THE_FILE: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR}
)
"""Errors that say nothing about what stands in the file."""
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})


def explain(path: Path, error: sqlite3.Error) -> RunnerError:
    """Return what is to be said of an error that SQLite had with an open store."""
    if isinstance(error, sqlite3.OperationalError) and _code_of(error) in _BEYOND_THE_FILE:
        return unwritable(path, error)
    return StoreDamaged(path, str(error))


def _code_of(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_writable(path: Path) -> bool:
    """Tell whether a store's file can be written, and the files beside it that SQLite needs for that."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def open_store_file(home: Path) -> sqlite3.Connection:
    """Open the file below a folder, made when it is not there; the caller closes the connection.

    A text that is not UTF-8 is read as bytes. What is not writable is opened for reading.

    Raises:
        StoreUnusable: it cannot be opened, or was made by a newer version of this program.
        StoreDamaged: it is no database, or not one of this program.
        StoreBusy: it has to be made or changed, and another process does not let go of it.
        StoreUnwritable: the disk is full or broken.
    """
    path = home / FILE_NAME
    try:
        private_home(home)
        _make(path)
        if not path.is_file():
            raise StoreUnusable(path, "it is no file")
        connection = _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise StoreUnusable(path, str(error)) from error
    try:
        _prepare(connection, path)
    except (OSError, sqlite3.Error) as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError) and (is_busy(error) or _code_of(error) in _NO_ROOM):
            raise unwritable(path, error) from error
        if isinstance(error, sqlite3.Error) and _code_of(error) not in _BEYOND_THE_FILE:
            raise StoreDamaged(path, str(error)) from error
        raise StoreUnusable(path, str(error)) from error
    except UnicodeDecodeError as error:  # SQLite quotes the damaged schema
        connection.close()
        raise StoreDamaged(path, "its schema is no UTF-8") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _make(path: Path) -> None:
    """Make the file where it is not there: prompts, answers and configuration stand in it, which nobody else may read.

    One that is there is left alone. SQLite's locks are a process's, and to close any descriptor of the file drops them
    all; others would then take the file for unused, and remove the write-ahead log that this process goes on to write.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(OSError):  # it is not there, or another user's
            file = path.with_name(name)
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def _connect(path: Path) -> sqlite3.Connection:
    """Connect. A write-ahead log needs an index beside it: where none can be made, it is made in memory."""
    if not os.access(path, os.R_OK):
        raise StoreUnusable(path, "permission denied")
    how, log, index = "", path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
    if not is_writable(path) and not (log.exists() and index.exists()):
        how = "?mode=ro&vfs=unix-none" if log.exists() else "?immutable=1"
    address = f"file:{urllib.parse.quote(str(path))}{how}"
    connection = sqlite3.connect(address, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
    connection.text_factory = _text_or_bytes
    if "unix-none" in how:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def _text_or_bytes(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Do everything inside or nothing; other writers wait from the first moment on.

    Raises:
        StoreUnwritable: nothing can be written now; where another process is why, `StoreBusy` names it.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        raise unwritable(_path_of(connection), error) from error
    try:
        yield
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:  # a full disk may have ended it already
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.OperationalError) and _code_of(error) in _BEYOND_THE_FILE:
            raise unwritable(_path_of(connection), error) from error
        raise


def _path_of(connection: sqlite3.Connection) -> Path:
    return Path(connection.execute("PRAGMA database_list").fetchone()[2])


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA temp_store = MEMORY")  # a full TMPDIR must not keep a change from being written
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if _layout(connection) == 0:
        # Changing to WAL does not wait for others as everything else does, so one process at a time makes the file.
        with made_by_one(path, BUSY_SECONDS):
            if _layout(connection) == 0:
                # A row holds the events of up to a megabyte: larger pages take half the time for those.
                connection.execute("PRAGMA page_size = 16384")
                connection.execute("PRAGMA journal_mode = WAL")
            _upgrade(connection)
    elif _layout(connection) < LAYOUT:
        if not is_writable(path):
            raise StoreUnusable(path, "an older version of ao made it, and it is read-only")
        _upgrade(connection)
    if (layout := _layout(connection)) > LAYOUT:
        raise StoreUnusable(path, f"a newer version of ao made it (layout {layout}, here {LAYOUT})")


def _upgrade(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        # Another process may have done it while this one waited.
        for number, layout in enumerate(_LAYOUTS[_layout(connection) :], _layout(connection) + 1):
            for statement in layout.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")


def _layout(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])

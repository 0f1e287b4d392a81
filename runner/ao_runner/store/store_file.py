"""The file of the local store: open it, upgrade its layout, write in transactions, read row by row.

It contains no queries. A damaged part of a row, or a damaged page, makes no other row unreadable.
"""

import os
import sqlite3
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from ao_runner.errors import RunnerError
from ao_runner.home import private_home, take_lock
from ao_runner.store.columns import ADDED, NO_TEXT, Row
from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.store_errors import (
    Damage,
    Holder,
    StoreBusy,
    StoreDamaged,
    StoreUnusable,
    StoreUnwritable,
)

FILE_NAME: Final = "ao.sqlite3"
BUSY_SECONDS: Final = 30.0
_CONSTRAINTS: Final[Mapping[int, Literal["one_running_run", "reference"]]] = {
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: "one_running_run",
    sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY: "reference",
}
_BETWEEN_TRIES_SECONDS: Final = 0.01
_WRITE_LOCK_BYTE: Final = 120
"""The byte of the file `-shm` that a writer locks (SQLite, "WAL-mode File Format", 2.3.1)."""

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
    """
ALTER TABLE sessions ADD COLUMN agent_name TEXT NOT NULL DEFAULT '';
UPDATE sessions SET agent_name = iif(json_valid(blueprint), coalesce(json_extract(blueprint, '$.name'), ''), '');
ALTER TABLE sessions ADD COLUMN host TEXT;
ALTER TABLE runs ADD COLUMN requires TEXT NOT NULL DEFAULT '[]';
ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN not_before TEXT;
ALTER TABLE runs ADD COLUMN requeue INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN succeeds TEXT;
CREATE INDEX copies_of_runs ON runs (succeeds) WHERE succeeds IS NOT NULL;
CREATE TABLE limits (
    kind TEXT NOT NULL, name TEXT NOT NULL, most INTEGER NOT NULL, until TEXT, PRIMARY KEY (kind, name)
) STRICT;
""",
    """
CREATE INDEX queued_runs ON runs (priority DESC) WHERE status = 'queued';
""",
    """
ALTER TABLE sessions ADD COLUMN parent_session_id TEXT;
CREATE INDEX children_of_sessions ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
ALTER TABLE runs ADD COLUMN parent_session_id TEXT;
ALTER TABLE runs ADD COLUMN execution_mode TEXT;
ALTER TABLE runs ADD COLUMN announced INTEGER NOT NULL DEFAULT 1;
ALTER TABLE runs ADD COLUMN cost_usd REAL;
ALTER TABLE runs ADD COLUMN input_tokens INTEGER;
ALTER TABLE runs ADD COLUMN output_tokens INTEGER;
CREATE INDEX runs_to_announce ON runs (status) WHERE announced = 0;
CREATE TABLE agents (
    name TEXT PRIMARY KEY, document TEXT NOT NULL, status TEXT NOT NULL, created_at TEXT NOT NULL,
    modified_at TEXT NOT NULL
) STRICT;
CREATE TABLE answers (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, answer TEXT NOT NULL, created_at TEXT NOT NULL
) STRICT;
CREATE TABLE webhooks (
    webhook_id TEXT PRIMARY KEY, url TEXT NOT NULL, secret TEXT NOT NULL, created_at TEXT NOT NULL
) STRICT;
CREATE TABLE deliveries (
    kind TEXT NOT NULL, target TEXT NOT NULL, run_id TEXT NOT NULL, since TEXT NOT NULL, tries INTEGER NOT NULL,
    next_at TEXT, problem TEXT, PRIMARY KEY (kind, target, run_id)
) STRICT;
CREATE INDEX waiting_deliveries ON deliveries (target, next_at) WHERE next_at IS NOT NULL;
CREATE TABLE workers (
    worker_id TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, offer TEXT NOT NULL, lease_until REAL NOT NULL
) STRICT;
CREATE TABLE actions (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, role TEXT NOT NULL, what TEXT NOT NULL,
    target TEXT NOT NULL
) STRICT;
CREATE INDEX actions_by_time ON actions (at);
""",
    """
ALTER TABLE runs ADD COLUMN input_responses TEXT;
CREATE TABLE inputs (
    run_id TEXT NOT NULL, request_id TEXT NOT NULL, asked_at TEXT NOT NULL, fields TEXT NOT NULL, answer TEXT,
    answered_by TEXT, outcome TEXT, parked INTEGER NOT NULL, PRIMARY KEY (run_id, request_id)
) STRICT;
CREATE INDEX waiting_inputs ON inputs (asked_at) WHERE answer IS NULL AND (outcome IS NULL OR parked = 1);
CREATE INDEX answered_inputs ON inputs (run_id) WHERE answer IS NOT NULL AND outcome IS NULL;
ALTER TABLE workers ADD COLUMN drain INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workers ADD COLUMN outbox_seconds REAL NOT NULL DEFAULT 0;
CREATE INDEX given_up_deliveries ON deliveries (since) WHERE next_at IS NULL;
""",
    *ADDED,
)
"""The steps from each layout to the next. Never edit a step; append a new layout.

A new file takes all steps and an old one the missing steps, so both end with the same layout."""


class StoreFile:
    """The open file. A `with` block owns the connection.

    Everything that a method has written when it returns survives a crash of this process and of the machine. `damage`
    lists damaged rows that a list omitted. If an SQLite error leaves the block, `StoreDamaged` or `StoreUnwritable` is
    raised instead.
    """

    def __init__(self, home: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self.home = home
        self.path = home / FILE_NAME
        self.place = str(self.path)
        self.connection = open_store_file(home)
        if busy_seconds != BUSY_SECONDS:
            self.connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
        self.is_writable = is_writable(self.path)
        self.damage = Damage()
        self.gaps: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, sqlite3.Error):
            self.connection.close()
            return
        told = explain(self.path, error)
        self.connection.close()
        raise told from error

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Convert SQLite errors of the block into `StoreUnwritable` or `StoreDamaged`."""
        try:
            yield
        except sqlite3.Error as error:
            raise explain(self.path, error) from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make the block atomic; other writers wait from its beginning.

        Raises:
            StoreUnwritable: The store cannot be written now; `StoreBusy` names the process that blocks it, if any.
        """
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise unwritable(self.path, error) from error
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException as error:
            if self.connection.in_transaction:  # a full disk may have ended it already
                self.connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.OperationalError) and _code_of(error) in _BEYOND_THE_FILE:
                raise unwritable(self.path, error) from error
            raise

    def commit_together(self, steps: Sequence[Callable[[], object]]) -> list[object]:
        """Run steps in one transaction and return the return value of each, or its `RunnerError` or `ValueError`.

        A failed step is rolled back, and the others continue.

        Raises:
            StoreUnwritable: The store cannot be written now, by any step.
            StoreDamaged: The contents of the file cannot be read or changed.
        """
        with self.explaining(), self.transaction():
            return [self._taken(step) for step in steps]

    def _taken(self, step: Callable[[], object]) -> object:
        self.connection.execute("SAVEPOINT step")
        try:
            return step()
        except StoreUnwritable:
            raise
        except (RunnerError, ValueError) as error:
            self.connection.execute("ROLLBACK TO step")
            return error
        finally:
            if self.connection.in_transaction:
                self.connection.execute("RELEASE step")

    def check(self) -> None:
        """Check every page of the file.

        Raises:
            StoreDamaged: A page is broken; the error names the first one.
        """
        (found,) = self.connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise StoreDamaged(self.path, found)

    def fetch(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """See `Engine`."""
        return self.connection.execute(statement, _storable(values)).fetchall()

    def write(self, statement: str, values: Sequence[object] = ()) -> int:
        """See `Engine`."""
        try:
            return self.connection.execute(statement, _storable(values)).rowcount
        except sqlite3.OperationalError as error:
            raise unwritable(self.path, error) from error
        except sqlite3.IntegrityError as error:
            raise ConstraintBroken(_CONSTRAINTS.get(error.sqlite_errorcode, "key"), str(error)) from error


def _storable(values: Sequence[object]) -> list[object]:
    return [
        NO_TEXT.sub("\ufffd", value) if isinstance(value, str) and not value.isascii() else value for value in values
    ]


def is_corrupt(error: sqlite3.Error) -> bool:
    """Return whether a damaged page of the file, and not the statement, caused an error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


_BEYOND_THE_FILE: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR}
)
"""Errors that do not concern the contents of the file."""
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})


def explain(path: Path, error: sqlite3.Error) -> RunnerError:
    """Return the runner error for an SQLite error on an open store."""
    if isinstance(error, sqlite3.OperationalError) and _code_of(error) in _BEYOND_THE_FILE:
        return unwritable(path, error)
    return StoreDamaged(path, str(error))


def _code_of(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def unwritable(path: Path, error: sqlite3.OperationalError) -> StoreUnwritable:
    """Return the runner error for a failed write."""
    if is_busy(error):
        return StoreBusy(path, str(error), find_holder(path))
    return StoreUnwritable(path, str(error))


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether other processes held the store for longer than the timeout."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def made_by_one(path: Path, patience_seconds: float) -> Iterator[None]:
    """Let one process at a time create a store's file, with a lock on its folder (not on the file: see `find_holder`).

    Raises:
        StoreBusy: Another process has been creating it for longer than `patience_seconds`.
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
    """Return the process that holds a store's write lock; None if there is none or it is unknown (Linux only).

    This opens no file of the store, because closing one would release this process's own locks.
    """
    for pid, first, last in _write_locks(path.with_name(f"{path.name}-shm")):
        if last != "EOF" and pid != os.getpid() and int(first) <= _WRITE_LOCK_BYTE <= int(last):
            return Holder(pid, _is_stopped(pid))
    return None


def _find_maker(folder: Path) -> Holder | None:
    makers = (pid for pid, _, last in _write_locks(folder) if last == "EOF")
    return next((Holder(pid, _is_stopped(pid)) for pid in makers), None)


def _write_locks(path: Path) -> list[tuple[int, str, str]]:
    """Return the exclusive locks on a file as pid, first and last byte; Linux only."""
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


def is_writable(path: Path) -> bool:
    """Return whether a store's file is writable, and the folder of the further files that SQLite needs for writing."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def open_store_file(home: Path) -> sqlite3.Connection:
    """Open the file in a folder, created if missing; the caller closes the connection.

    Text that is not UTF-8 is read as bytes. A file that is not writable is opened read-only.

    Raises:
        StoreUnusable: It cannot be opened, or was made by a newer version of this program.
        StoreDamaged: It is not a database, or not one of this program.
        StoreBusy: It has to be created or changed, and another process holds it.
        StoreUnwritable: The disk is full or broken.
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
    """Create a missing file, readable only by its owner, since it contains prompts, answers and configuration.

    An existing file is not opened. SQLite's locks belong to the process; closing any descriptor of the file releases
    all of them. Others would then consider the file unused and remove the write-ahead log that this process writes.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(OSError):  # it does not exist, or belongs to another user
            file = path.with_name(name)
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def _connect(path: Path) -> sqlite3.Connection:
    """Connect. A write-ahead log needs an index file; if none can be created, the index is kept in memory."""
    if not os.access(path, os.R_OK):
        raise StoreUnusable(path, "permission denied")
    how, log, index = "", path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
    if not is_writable(path) and not (log.exists() and index.exists()):
        how = "?mode=ro&vfs=unix-none" if log.exists() else "?immutable=1"
    address = f"file:{urllib.parse.quote(str(path))}{how}"
    connection = sqlite3.connect(address, timeout=BUSY_SECONDS, isolation_level=None, uri=True, check_same_thread=False)
    connection.text_factory = _text_or_bytes
    if "unix-none" in how:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    return connection


def _text_or_bytes(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA temp_store = MEMORY")  # a full TMPDIR must not prevent writes
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if _layout(connection) == 0:
        # Changing to WAL, unlike everything else, does not wait for other processes, so only one process does it.
        with made_by_one(path, BUSY_SECONDS):
            if _layout(connection) == 0:
                # A row holds up to a megabyte of events: larger pages halve the time for such rows.
                connection.execute("PRAGMA page_size = 16384")
                connection.execute("PRAGMA journal_mode = WAL")
            _upgrade(connection)
    elif _layout(connection) < len(_LAYOUTS):
        if not is_writable(path):
            raise StoreUnusable(path, "an older version of ao made it, and it is read-only")
        _upgrade(connection)
    if (layout := _layout(connection)) > len(_LAYOUTS):
        raise StoreUnusable(path, f"a newer version of ao made it (layout {layout}, here {len(_LAYOUTS)})")


def _upgrade(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have upgraded the file while this one waited.
        for number, layout in enumerate(_LAYOUTS[_layout(connection) :], _layout(connection) + 1):
            for statement in layout.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _layout(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])

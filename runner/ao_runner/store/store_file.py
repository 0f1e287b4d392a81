"""The file of the local store: open it, write in transactions, set it aside if it is damaged. It has no queries."""

import fcntl
import os
import sqlite3
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self
from weakref import finalize

from ao_runner.errors import RunnerError
from ao_runner.home import private_home, renamed_as_damaged, take_lock
from ao_runner.store.columns import NO_TEXT, Row
from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.sqlite_layout import LAYOUTS, layout_of, upgrade
from ao_runner.store.store_errors import (
    NEWER,
    Damage,
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


class StoreFile:
    """The open file. A `with` block owns the connection.

    Everything that a method has written when it returns survives a crash of this process and of the machine. `damage`
    lists damaged rows that a list omitted. If an SQLite error leaves the block, `StoreDamaged` or `StoreUnwritable` is
    raised instead, and a file with a damaged page is set aside.
    """

    def __init__(self, home: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        self.home = home
        self.path = home / FILE_NAME
        self.place = str(self.path)
        self.connection, self._lock = open_store_file(home)
        self._unlock = finalize(self, os.close, self._lock)
        if busy_seconds != BUSY_SECONDS:
            self.connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
        self.is_writable = is_writable(self.path)
        self.damage = Damage()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()
        cause = error.__cause__ if isinstance(error, StoreDamaged) else error
        told = explain(self.path, cause, self._lock) if isinstance(cause, sqlite3.Error) else None
        self._unlock()
        if told is not None:
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
            StoreUnwritable: The store cannot be written now; `StoreBusy` if another process writes to it.
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


_BEYOND_THE_FILE: Final = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR}
)
"""Errors that do not concern the contents of the file."""
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})


def explain(path: Path, error: sqlite3.Error, lock: int | None = None) -> RunnerError:
    """Return the runner error for an SQLite error. With the lock of a closed connection, set a damaged file aside."""
    if isinstance(error, sqlite3.OperationalError) and _code_of(error) in _BEYOND_THE_FILE:
        return unwritable(path, error)
    is_corrupt = _code_of(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
    return set_aside(path, str(error), lock) if is_corrupt and lock is not None else StoreDamaged(path, str(error))


def _code_of(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def unwritable(path: Path, error: sqlite3.OperationalError) -> StoreUnwritable:
    """Return the runner error for a failed write."""
    if _code_of(error) == sqlite3.SQLITE_BUSY:
        return StoreBusy(path, str(error))
    return StoreUnwritable(path, str(error))


@contextmanager
def made_by_one(path: Path, patience_seconds: float) -> Iterator[None]:
    """Let one process at a time create a store's file, with a lock on its folder (not on the file: see `_make`).

    Raises:
        StoreBusy: Another process has been creating it for longer than `patience_seconds`.
    """
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    until = time.monotonic() + patience_seconds
    try:
        while not take_lock(descriptor):
            if time.monotonic() > until:
                raise StoreBusy(path, "another process is making it")
            time.sleep(_BETWEEN_TRIES_SECONDS)
        yield
    finally:
        os.close(descriptor)


def is_writable(path: Path) -> bool:
    """Return whether a store's file is writable, and the folder of the further files that SQLite needs for writing."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def open_store_file(home: Path) -> tuple[sqlite3.Connection, int]:
    """Open the file in a folder, created if missing, and return the connection and the lock to close behind it.

    Text that is not UTF-8 is read as bytes. A file that is not writable is opened read-only.

    Raises:
        StoreUnusable: It cannot be opened, or was made by a newer version of this program.
        StoreDamaged: It is not a database, or not one of this program.
        StoreBusy: It has to be created or changed, and another process holds it.
        StoreUnwritable: The disk is full or broken.
    """
    path = home / FILE_NAME
    with ExitStack() as undo:
        try:
            private_home(home)
            _make(path)
            if not path.is_file():
                raise StoreUnusable(path, "it is no file")
            lock = _lock_of_user(path)
            undo.callback(os.close, lock)
            connection = _connect(path)
        except (OSError, sqlite3.Error) as error:
            raise StoreUnusable(path, str(error)) from error
        undo.callback(connection.close)
        try:
            _prepare(connection, path)
        except UnicodeDecodeError as error:  # SQLite quotes the damaged schema
            connection.close()
            raise set_aside(path, "its schema is no UTF-8", lock) from error
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, OSError) or _code_of(error) in _BEYOND_THE_FILE - _NO_ROOM - {sqlite3.SQLITE_BUSY}:
                raise StoreUnusable(path, str(error)) from error
            connection.close()
            raise explain(path, error, lock) from error
        undo.pop_all()
    return connection, lock


def _lock_of_user(path: Path) -> int:
    """Take note that this process uses a store's file, until the returned descriptor is closed."""
    if not is_writable(path):
        return os.open(os.devnull, os.O_RDONLY)
    lock = os.open(path.with_name(f"{path.name}-lock"), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def set_aside(path: Path, reason: str, lock: int) -> StoreDamaged:
    """Rename a damaged file that nobody else uses, so that the next command makes a new one; return the error to raise.

    SQLite removes the log of a file by its name when the last connection is closed, so that no other one may be open.
    """
    if not take_lock(lock):
        return StoreDamaged(path, f"{reason}. Another process uses it; when it has ended, repeat this to set it aside")
    try:
        kept = renamed_as_damaged(path.parent, (path.name, f"{path.name}-wal", f"{path.name}-shm"))
    except OSError as error:
        return StoreDamaged(path, f"{reason}; it cannot be set aside ({error.strerror})")
    return StoreDamaged(path, reason, kept[0])


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
    if layout_of(connection) == 0:
        # Changing to WAL, unlike everything else, does not wait for other processes, so only one process does it.
        with made_by_one(path, BUSY_SECONDS):
            if layout_of(connection) == 0:
                # A row holds up to a megabyte of events: larger pages halve the time for such rows.
                connection.execute("PRAGMA page_size = 16384")
                connection.execute("PRAGMA journal_mode = WAL")
            upgrade(connection)
    elif layout_of(connection) < len(LAYOUTS):
        if not is_writable(path):
            raise StoreUnusable(path, "an older version of ao made it, and it is read-only")
        upgrade(connection)
    if (layout := layout_of(connection)) > len(LAYOUTS):
        raise StoreUnusable(path, NEWER.format(layout=layout, known=len(LAYOUTS)))

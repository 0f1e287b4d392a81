"""The SQLite file of an outbox: one row for each batch of events of a key, and one row for the state of the key.

Every row has a checksum, which detects changed data. SQLite alone reads the file and its log. A file with any damage is
set aside whole.
"""

import secrets
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ao_runner.home import renamed_as_damaged
from ao_runner.run_events import RunKey

FILE_NAME: Final = "outbox.sqlite3"
LOG_NAME: Final = f"{FILE_NAME}-wal"
PAGE_BYTES: Final = 4096
LOG_BYTES: Final = 1 << 20
"""The size at which the write-ahead log moves into the file, so that the log can be overwritten."""
RESERVE_BYTES: Final = 1 << 22
"""More than the maximum size of the log: moving it into the file needs that much space."""
_SHRINK_BYTES: Final = 1 << 24
"""The unused space at which an outbox without events returns it to the disk."""
_HEADER: Final = b"SQLite format 3\0" + PAGE_BYTES.to_bytes(2, "big") + b"\x02\x02\0@  "
"""The first bytes of a file with this page size and a write-ahead log."""
_LAYOUT: Final = 1
_MOST_LAYOUTS: Final = 1000
_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
_TABLES: Final = (
    """CREATE TABLE keys (
    row INTEGER PRIMARY KEY, run_id TEXT NOT NULL, attempt INTEGER NOT NULL, acknowledged_seq INTEGER NOT NULL,
    is_closed INTEGER NOT NULL, note TEXT NOT NULL, crc32 INTEGER NOT NULL, UNIQUE (run_id, attempt)
) STRICT""",
    """CREATE TABLE batches (
    row INTEGER PRIMARY KEY, run_id TEXT NOT NULL, attempt INTEGER NOT NULL, first_seq INTEGER NOT NULL,
    count INTEGER NOT NULL, ends INTEGER NOT NULL, lines_crc32 INTEGER NOT NULL, crc32 INTEGER NOT NULL, lines BLOB
) STRICT""",
)
_INSERT: Final = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPSERT: Final = """
INSERT INTO keys VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET acknowledged_seq = ?3, is_closed = ?4, note = ?5, crc32 = ?6
"""
_DELETE: Final = "DELETE FROM batches WHERE row BETWEEN ? AND ?"


class FileDamaged(sqlite3.DatabaseError):
    """The file does not contain the data that was written."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The last acknowledged `seq` of a key; for a closed key, it is that of the terminal event."""

    acknowledged_seq: int = 0
    is_closed: bool = False
    note: str = ""
    """The caller's note about the events up to there; empty for a closed key."""


@dataclass(slots=True, eq=False)
class Record:
    """Events of one key in one row. While they are in memory, `parts` contains their lines, each with its LF."""

    key: RunKey
    first_seq: int
    count: int = 0
    size: int = 0
    ends: bool = False
    row: int = 0
    lines_crc32: int = 0
    parts: list[bytes] = field(default_factory=list)

    @property
    def last_seq(self) -> int:
        """The `seq` of the last event."""
        return self.first_seq + self.count - 1


class OutboxFile:
    """The open file. One process owns its folder and has the only connection."""

    def __init__(self, folder: Path, cache_bytes: int, *, may_be_new: bool) -> None:
        """Open the file in a folder. SQLite caches about `cache_bytes` of it in memory.

        With `may_be_new`, create it if it is missing or empty, and has no log.

        Raises:
            FileDamaged: It is not the file of an outbox.
            OSError: It cannot be created.
            sqlite3.Error: It cannot be read, or a newer version made it.
        """
        self.path = path = folder / FILE_NAME
        log = folder / LOG_NAME
        may_be_new = may_be_new and not (log.exists() and log.stat().st_size)
        if not (may_be_new or path.exists()):
            raise FileDamaged("it is missing")
        path.touch(mode=0o600)
        with path.open("rb") as file:
            if (header := file.read(len(_HEADER))) != _HEADER and not (may_be_new and not header):
                raise FileDamaged(f"it begins with {header[:16]!r}")
        self._reserve = folder / "reserve"
        self._log_bytes = 0
        self._next_row = 1
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.text_factory = lambda stored: stored.decode(errors="replace")
        with ExitStack() as undo, _finding_damage():
            undo.callback(self._connection.close)
            self._prepare(cache_bytes, may_be_new=may_be_new)
            undo.pop_all()

    def read(self) -> Iterator[tuple[RunKey, Progress] | Record]:
        """Check the whole file, and yield the keys that are not closed, then all batches with their lines, as written.

        Raises:
            FileDamaged: A row or page of the file is not as it was written.
            sqlite3.Error: The file cannot be read.
        """
        with _finding_damage():
            if (problem := self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
                raise FileDamaged(problem.replace("\n", " "))
            for row in self._connection.execute("SELECT * FROM keys"):
                progress = _progress_of(row)
                if not progress.is_closed:
                    yield RunKey(row[1], row[2]), progress
            for row, *head, crc32, lines in self._connection.execute("SELECT * FROM batches ORDER BY row"):
                run_id, attempt, first_seq, events, ends, lines_crc32 = head
                if crc32 != _crc32(*head) or not _is_whole(lines, lines_crc32):
                    raise FileDamaged(f"row {row} of batches is not what was written")
                self._next_row = row + 1
                key = RunKey(run_id, attempt)
                yield Record(key, first_seq, events, len(lines), bool(ends), row, lines_crc32, [lines])

    def find(self, key: RunKey) -> Progress | None:
        """Return the progress of a key.

        Raises:
            FileDamaged: It is not as it was written.
            sqlite3.Error: It cannot be read.
        """
        query = "SELECT * FROM keys WHERE run_id = ? AND attempt = ?"
        with _finding_damage():
            row = self._connection.execute(query, _of(key)).fetchone()
        return _progress_of(row) if row else None

    def read_lines(self, record: Record) -> bytes | None:
        """Return the lines of a batch, or None if they are not as they were written.

        Raises:
            sqlite3.Error: They cannot be read now.
        """
        try:
            with _finding_damage():
                row = self._connection.execute("SELECT lines FROM batches WHERE row = ?", (record.row,)).fetchone()
        except FileDamaged:
            return None
        return row[0] if row and _is_whole(row[0], record.lines_crc32) else None

    def insert(self, records: Sequence[Record]) -> None:
        """Make batches durable, all or none, and set the row of each.

        Raises:
            sqlite3.Error: None was stored.
        """
        rows, size = list[tuple[object, ...]](), sum(record.size + PAGE_BYTES for record in records)
        for row, record in enumerate(records, self._next_row):
            lines = b"".join(record.parts)
            record.row, record.lines_crc32 = row, zlib.crc32(lines)
            head = (*_of(record.key), record.first_seq, record.count, int(record.ends), record.lines_crc32)
            rows.append((row, *head, _crc32(*head), lines))
        try:
            self._commit((_INSERT, rows))
        except sqlite3.OperationalError:
            self._make_room()
            (unused,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            if unused * PAGE_BYTES < 2 * size:  # the file would grow into the reserve
                self.restore_reserve()
            self._commit((_INSERT, rows))
            self._make_room()
            self.restore_reserve()
        self._next_row += len(records)
        self._note_written(sum(record.size for record in records))

    def update(self, progress: Mapping[RunKey, Progress], released: Collection[int]) -> None:
        """Store progress durably and delete rows of batches, all or nothing. This also works on a full disk.

        Raises:
            sqlite3.Error: Nothing was stored.
        """
        if not progress and not released:
            return
        rows = []
        for key, new in progress.items():
            values = (*_of(key), new.acknowledged_seq, int(new.is_closed), new.note)
            rows.append((*values, _crc32(*values)))
        ranges = list(_ranges(sorted(released)))
        try:
            self._commit((_UPSERT, rows), (_DELETE, ranges))
        except sqlite3.OperationalError:
            self._make_room()
            self._commit((_UPSERT, rows), (_DELETE, ranges))
        self._note_written(PAGE_BYTES * (len(ranges) + 1))
        self.restore_reserve()

    def shrink(self) -> None:
        """Return a large amount of unused space to the disk. Only for a file without batches: it is rewritten."""
        with suppress(sqlite3.Error):
            (unused,) = self._connection.execute("PRAGMA freelist_count").fetchone()
            if unused * PAGE_BYTES >= _SHRINK_BYTES:
                self._connection.execute("VACUUM")
                self._checkpoint()

    def restore_reserve(self) -> None:
        """Reserve space that can be released when the disk is full, if there is space now.

        Without it a full disk could stay full: deleting events takes space in the log, and in the file for the log.
        """
        if self._reserve.exists():
            return
        try:
            # Some file systems store zeros without using space.
            self._reserve.touch(mode=0o600)
            self._reserve.write_bytes(secrets.token_bytes(RESERVE_BYTES))
        except OSError:
            self._reserve.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _prepare(self, cache_bytes: int, *, may_be_new: bool) -> None:
        for setting in (
            "locking_mode = EXCLUSIVE",  # before any access, or SQLite shares an index of the log in another file
            f"page_size = {PAGE_BYTES}",
            f"cache_size = {cache_bytes // PAGE_BYTES}",
            "temp_store = MEMORY",  # see `ao_runner.store.store_file`
            "journal_mode = WAL",
            "synchronous = FULL",
            "secure_delete = OFF",  # some systems turn it on, which overwrites deleted data
            "wal_autocheckpoint = 0",  # see `_note_written`
        ):
            self._connection.execute(f"PRAGMA {setting}")
        (layout,) = self._connection.execute("PRAGMA user_version").fetchone()
        schema = self._connection.execute("SELECT sql FROM sqlite_schema WHERE sql NOTNULL ORDER BY rowid").fetchall()
        tables = tuple(sql for (sql,) in schema)
        if may_be_new and not (layout or tables):
            steps = ("BEGIN IMMEDIATE", *_TABLES, f"PRAGMA user_version = {_LAYOUT}", "COMMIT")
            self._connection.executescript(";".join(steps))
        elif tables != _TABLES and _LAYOUT < layout < _MOST_LAYOUTS:
            raise sqlite3.NotSupportedError(f"a newer version of ao made it (layout {layout}, here {_LAYOUT})")
        elif tables != _TABLES or layout != _LAYOUT:
            raise FileDamaged(f"its tables, or its layout {layout}, are not those of an outbox")

    def _commit(self, *steps: tuple[str, Sequence[tuple[object, ...]]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for statement, rows in steps:
                self._connection.executemany(statement, rows)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _note_written(self, size: int) -> None:
        """Move a large log into the file. SQLite would do so by itself, but hide failures."""
        self._log_bytes += size + PAGE_BYTES
        if self._log_bytes >= LOG_BYTES:
            try:
                self._checkpoint()
            except sqlite3.Error:  # the written data is durable in the log
                self._make_room()
                self.restore_reserve()

    def _checkpoint(self, how: str = "PASSIVE") -> None:
        self._connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
        self._log_bytes = 0

    def _make_room(self) -> None:
        self._reserve.unlink(missing_ok=True)
        with suppress(sqlite3.Error):
            self._checkpoint("TRUNCATE")


@contextmanager
def _finding_damage() -> Iterator[None]:
    """Raise every error that comes from the file or its schema, and not from the disk or permissions, as one."""
    try:
        yield
    except UnicodeDecodeError as error:  # Python decodes names in the schema and in messages of SQLite
        raise FileDamaged(f"its schema contains {error.object!r}") from error
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
            raise
        raise FileDamaged(str(error)) from error


@contextmanager
def keeping_log(folder: Path) -> Iterator[None]:
    """Restore the log of a file that is found damaged: SQLite deletes it on closing, also what it could not read."""
    log = folder / LOG_NAME
    content = log.read_bytes() if log.exists() else b""
    try:
        yield
    except FileDamaged:
        if content:
            log.write_bytes(content)
        raise


def set_aside(folder: Path, reason: str) -> str:
    """Rename a damaged file and its log to names that are free, and return a sentence about it.

    The file comes first: a log without its file is damage, too, so that the next owner completes this.

    Raises:
        OSError: They cannot be renamed.
    """
    kept = ", ".join(map(str, renamed_as_damaged(folder, (FILE_NAME, LOG_NAME))))
    return (
        f"{folder / FILE_NAME} was damaged: {reason}. Kept of it: {kept or 'nothing'}. A new one began "
        "without its events: runs whose end was not delivered end as attempt_lost. Check the disk"
    )


def _progress_of(row: Sequence[Any]) -> Progress:
    number, run_id, attempt, acknowledged_seq, is_closed, note, crc32 = row
    if crc32 != _crc32(run_id, attempt, acknowledged_seq, is_closed, note):
        raise FileDamaged(f"row {number} of keys is not what was written")
    return Progress(acknowledged_seq, bool(is_closed), note)


def _is_whole(lines: object, crc32: int) -> bool:
    return isinstance(lines, bytes) and zlib.crc32(lines) == crc32


def _crc32(*values: object) -> int:
    return zlib.crc32(repr(values).encode(errors="replace"))


def _of(key: RunKey) -> tuple[str, int]:
    return key.run_id, key.attempt


def _ranges(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of consecutive rows, which one statement deletes."""
    first = 0
    for index, row in enumerate(rows):
        if index + 1 == len(rows) or rows[index + 1] != row + 1:
            yield rows[first], row
            first = index + 1

"""The SQLite file of an outbox: one row for each batch of events of a key, and one row for the state of the key.

Every row has a checksum, which detects changed data. `ao_runner.outbox.salvage` reads a damaged file.
"""

import secrets
import sqlite3
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ao_runner.run_events import RunKey

FILE_NAME: Final = "outbox.sqlite3"
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
_CREATE: Final = """
BEGIN IMMEDIATE;
CREATE TABLE keys (
    row INTEGER PRIMARY KEY, run_id TEXT NOT NULL, attempt INTEGER NOT NULL, acknowledged_seq INTEGER NOT NULL,
    is_closed INTEGER NOT NULL, note TEXT NOT NULL, crc32 INTEGER NOT NULL, UNIQUE (run_id, attempt)
) STRICT;
CREATE TABLE batches (
    row INTEGER PRIMARY KEY, run_id TEXT NOT NULL, attempt INTEGER NOT NULL, first_seq INTEGER NOT NULL,
    count INTEGER NOT NULL, ends INTEGER NOT NULL, lines_crc32 INTEGER NOT NULL, crc32 INTEGER NOT NULL, lines BLOB
) STRICT;
PRAGMA user_version = 1;
COMMIT;
"""
_INSERT: Final = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPSERT: Final = """
INSERT INTO keys VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO UPDATE SET acknowledged_seq = ?3, is_closed = ?4, note = ?5, crc32 = ?6
"""
_DELETE: Final = "DELETE FROM batches WHERE row BETWEEN ? AND ?"


class FileDamaged(Exception):
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
    """Events of one key in one row. While they are in memory, `parts` contains their lines, each with its LF.

    `is_lost`: the row exists, but its lines are not the ones that were written.
    """

    key: RunKey
    first_seq: int
    count: int = 0
    size: int = 0
    ends: bool = False
    row: int = 0
    lines_crc32: int = 0
    is_lost: bool = False
    parts: list[bytes] = field(default_factory=list)

    @property
    def last_seq(self) -> int:
        """The `seq` of the last event."""
        return self.first_seq + self.count - 1


def record_of(values: Sequence[Any]) -> Record | None:
    """Return the record in a row of `batches`, with its lines; None if the row is damaged."""
    row, run_id, attempt, first_seq, count, ends, lines_crc32, crc32, lines = values
    if crc32 != _crc32(run_id, attempt, first_seq, count, ends, lines_crc32):
        return None
    key = RunKey(run_id, attempt)
    if not isinstance(lines, bytes) or zlib.crc32(lines) != lines_crc32:
        return Record(key, first_seq, count, row=row, is_lost=True)
    return Record(key, first_seq, count, len(lines), bool(ends), row, lines_crc32, parts=[lines])


def progress_of(values: Sequence[Any]) -> tuple[RunKey, Progress] | None:
    """Return the progress in a row of `keys`; None if the row is damaged."""
    _, run_id, attempt, acknowledged_seq, is_closed, note, crc32 = values
    if crc32 != _crc32(run_id, attempt, acknowledged_seq, is_closed, note):
        return None
    return RunKey(run_id, attempt), Progress(acknowledged_seq, bool(is_closed), note)


def _crc32(*values: object) -> int:
    return zlib.crc32(repr(values).encode(errors="replace"))


class OutboxFile:
    """The open file. One process owns its folder and has the only connection."""

    def __init__(self, path: Path, cache_bytes: int = 1 << 21) -> None:
        """Open the file, created if missing. SQLite caches about `cache_bytes` of it in memory.

        Raises:
            FileDamaged: It is not the file of an outbox.
            OSError: It cannot be created.
            sqlite3.Error: It is damaged, or a newer version made it.
        """
        self.path = path
        path.touch(mode=0o600)
        with path.open("rb") as file:
            if (header := file.read(len(_HEADER))) not in {_HEADER, b""}:
                raise FileDamaged(f"it begins with {header[:16]!r}")
        self._reserve = path.parent / "reserve"
        self._log_bytes = 0
        self._next_row = 1
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.text_factory = lambda stored: stored.decode(errors="replace")
        try:
            self._prepare(cache_bytes)
        except BaseException:
            self._connection.close()
            raise

    def read_keys(self) -> dict[RunKey, Progress]:
        """Return the keys whose terminal event was not acknowledged.

        Raises:
            FileDamaged: A row is not as it was written.
            sqlite3.Error: The file cannot be read.
        """
        found = dict[RunKey, Progress]()
        for values in self._connection.execute("SELECT * FROM keys WHERE NOT is_closed"):
            if (pair := progress_of(values)) is None:
                raise FileDamaged(f"row {values[0]} of keys is not what was written")
            found[pair[0]] = pair[1]
        return found

    def read_records(self) -> Iterator[Record]:
        """Yield all batches with their lines, in the order of writing.

        Raises:
            FileDamaged: A row or page of the file is not as it was written.
            sqlite3.Error: The file cannot be read.
        """
        if (problem := self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise FileDamaged(problem.replace("\n", " "))
        for values in self._connection.execute("SELECT * FROM batches ORDER BY row"):
            record = record_of(values)
            if record is None or (record.is_lost and values[-1] is not None):
                raise FileDamaged(f"row {values[0]} of batches is not what was written")
            self._next_row = record.row + 1
            yield record

    def find(self, key: RunKey) -> Progress | None:
        """Return the progress of a key."""
        query = "SELECT * FROM keys WHERE run_id = ? AND attempt = ?"
        row = self._connection.execute(query, (key.run_id, key.attempt)).fetchone()
        pair = progress_of(row) if row else None
        return pair[1] if pair else None

    def read_lines(self, record: Record) -> bytes | None:
        """Return the lines of a batch, or None if they are not as they were written.

        Raises:
            sqlite3.Error: They cannot be read now.
        """
        try:
            row = self._connection.execute("SELECT lines FROM batches WHERE row = ?", (record.row,)).fetchone()
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return None
        return row[0] if row and row[0] is not None and zlib.crc32(row[0]) == record.lines_crc32 else None

    def insert(self, records: Sequence[Record]) -> None:
        """Make batches durable, all or none, and set the row of each.

        Raises:
            sqlite3.Error: None was stored.
        """
        rows, size = list[tuple[object, ...]](), sum(record.size + PAGE_BYTES for record in records)
        for row, record in enumerate(records, self._next_row):
            lines = None if record.is_lost else b"".join(record.parts)
            record.row, record.lines_crc32 = row, zlib.crc32(lines or b"")
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

    def _prepare(self, cache_bytes: int) -> None:
        for setting in (
            f"page_size = {PAGE_BYTES}",
            f"cache_size = {cache_bytes // PAGE_BYTES}",
            "locking_mode = EXCLUSIVE",
            "temp_store = MEMORY",  # see `ao_runner.store.store_file`
            "journal_mode = WAL",
            "synchronous = FULL",
            "secure_delete = OFF",  # some systems turn it on, which overwrites deleted data
            "wal_autocheckpoint = 0",  # see `_note_written`
        ):
            self._connection.execute(f"PRAGMA {setting}")
        layout = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        if layout == 0:
            self._connection.executescript(_CREATE)
        elif not 0 < layout < _MOST_LAYOUTS:
            raise FileDamaged(f"its layout is {layout}")
        elif layout > _LAYOUT:
            raise sqlite3.DatabaseError(f"a newer version of ao made it (layout {layout}, here {_LAYOUT})")

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


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error comes from the file or its schema, not from the disk or permissions."""
    damage = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in damage


def _of(key: RunKey) -> tuple[str, int]:
    return key.run_id, key.attempt


def _ranges(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of consecutive rows, which one statement deletes."""
    first = 0
    for index, row in enumerate(rows):
        if index + 1 == len(rows) or rows[index + 1] != row + 1:
            yield rows[first], row
            first = index + 1

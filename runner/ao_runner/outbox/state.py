"""What was acknowledged, in a small SQLite file. It never holds events, and is always a little behind: see `flush`."""

import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ao_runner.run_events import RunKey

FILE_NAME: Final = "state.sqlite3"
_LAYOUT: Final = 1
_CREATE: Final = """
BEGIN IMMEDIATE;
CREATE TABLE keys (
    run_id TEXT NOT NULL, attempt INTEGER NOT NULL, acknowledged_seq INTEGER NOT NULL, is_closed INTEGER NOT NULL,
    note TEXT NOT NULL,    PRIMARY KEY (run_id, attempt)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 1;
COMMIT;
"""
_RESERVE_NAME: Final = "reserve"
_RESERVE_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Progress:
    """Through which seq a key was acknowledged; a closed one was so through its terminal event."""

    acknowledged_seq: int
    is_closed: bool
    note: str = ""
    """What the caller wanted to remember of the events up to there; empty for a closed key."""


class State:
    """The state file of one outbox."""

    def __init__(self, folder: Path) -> None:
        """Open the file, made when it is not there.

        Raises:
            OSError: it cannot be made.
            sqlite3.Error: it is damaged, or a newer version made it.
        """
        path = folder / FILE_NAME
        path.touch(mode=0o600)
        self._reserve = folder / _RESERVE_NAME
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.text_factory = lambda stored: stored.decode(errors="replace")
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def find(self, key: RunKey) -> Progress | None:
        """Return what is known of a key."""
        query = "SELECT acknowledged_seq, is_closed, note FROM keys WHERE run_id = ? AND attempt = ?"
        row = self._connection.execute(query, (key.run_id, key.attempt)).fetchone()
        return Progress(row[0], bool(row[1]), row[2]) if row else None

    def list_open(self) -> dict[RunKey, Progress]:
        """Return the keys whose terminal event was not acknowledged.

        Raises:
            sqlite3.DatabaseError: the file is damaged.
        """
        rows = self._connection.execute("SELECT run_id, attempt, acknowledged_seq, note FROM keys WHERE NOT is_closed")
        try:
            return {
                RunKey(run_id, attempt): Progress(max(0, seq), is_closed=False, note=note)
                for run_id, attempt, seq, note in rows
            }
        except ValueError as error:
            damaged = sqlite3.DatabaseError(f"it names a run that none can be: {error}")
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged from error

    def flush(self, progress: Mapping[RunKey, Progress]) -> None:
        """Keep progress durably, all of it or none.

        Raises:
            sqlite3.Error: none was kept.
        """
        if not progress:
            return
        rows = [
            (key.run_id, key.attempt, new.acknowledged_seq, new.is_closed, new.note) for key, new in progress.items()
        ]
        try:
            self._write(rows)
        except sqlite3.OperationalError:
            self._reserve.unlink(missing_ok=True)
            self._write(rows)

    def restore_reserve(self) -> None:
        """Take space that a later flush can use up when the disk is full, if there is any now.

        Without it a full disk could stay full: events are deleted only after a flush.
        """
        if self._reserve.exists():
            return
        try:
            # Zeros take no space on some file systems.
            self._reserve.touch(mode=0o600)
            self._reserve.write_bytes(secrets.token_bytes(_RESERVE_BYTES))
        except OSError:
            self._reserve.unlink(missing_ok=True)

    def close(self) -> None:
        """Give the file back."""
        self._connection.close()

    def _write(self, rows: Sequence[tuple[str, int, int, bool, str]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany("INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?)", rows)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _prepare(self) -> None:
        # One process owns the folder, so nothing needs to be shared between connections.
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._connection.execute("PRAGMA temp_store = MEMORY")  # see `ao_runner.store.store_file`
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        layout = int(self._connection.execute("PRAGMA user_version").fetchone()[0])
        if layout == 0:
            self._connection.executescript(_CREATE)
        elif layout > _LAYOUT:
            raise sqlite3.DatabaseError(f"a newer version of ao made it (layout {layout}, here {_LAYOUT})")

"""The store of one host: an SQLite file that several processes write at the same time, and its own queries.

Leases use the clock of the machine's uptime, which all processes share and which cannot be set.
"""

import json
from array import array
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.event_table import EventTable
from ao_runner.store.ownership import Wakeup, notify, own_wakeup
from ao_runner.store.records import TAIL_CHARACTERS, StoredEvent
from ao_runner.store.store import LatePart, Store
from ao_runner.store.store_errors import RowConflict
from ao_runner.store.store_file import BUSY_SECONDS, StoreFile

if TYPE_CHECKING:
    from ao_runner.store.worker_table import WorkerTable

_LAST_SEQ: Final = (
    "(SELECT coalesce(last_seq, seq) FROM events WHERE events.run_id = runs.run_id ORDER BY seq DESC LIMIT 1)"
)
_TAIL: Final = (
    f"(SELECT substr(line, -{TAIL_CHARACTERS}) FROM events WHERE events.run_id = runs.run_id"  # noqa: S608  # own words
    " AND (instr(line, '\"heartbeat\"') = 0 OR last_seq > seq) ORDER BY seq DESC LIMIT 1)"
)

_TAGS: Final = (
    "NOT EXISTS (SELECT 1 FROM json_each(iif(json_valid(requires), requires, '[]')) AS required"
    " WHERE required.value NOT IN (SELECT value FROM json_each(?)))"
)


class SqliteEvents(EventTable):
    """The events in an SQLite store."""

    def add(self, run_id: str, first_seq: int, lines: Sequence[bytes]) -> None:
        """See `EventTable`."""
        try:
            self._db.write(
                "INSERT INTO events (run_id, seq, last_seq, event_type, line) VALUES (?, ?, ?, '', ?)",
                (run_id, first_seq, first_seq + len(lines) - 1, b"\n".join(lines).decode()),
            )
        except ConstraintBroken as error:
            raise RowConflict(f"event {first_seq} of run {run_id}") from error

    def of_session(self, session_id: str, after: int = 0, run_id: str | None = None) -> Iterator[StoredEvent]:
        """See `EventTable`. One row is in memory at a time."""
        rows = self._db.fetch(
            "SELECT position FROM events WHERE position > ? AND run_id IN"
            " (SELECT run_id FROM runs WHERE session_id = ? AND run_id = coalesce(?, run_id)) ORDER BY position",
            (after, session_id, run_id),
        )
        for position in array("q", (position for (position,) in rows)):
            for row in self._db.fetch("SELECT run_id, seq, line FROM events WHERE position = ?", (position,)):
                yield from self._split(position, *row)


class SqliteStore(StoreFile, Store):
    """The store in a folder of this host, created if it is missing.

    If an SQLite error leaves the `with` block, `StoreDamaged` or `StoreUnwritable` is raised instead.
    """

    waits_for_a_server: ClassVar[bool] = False
    own_run_columns: ClassVar[tuple[str, ...]] = ()
    greatest: ClassVar[str] = "max"
    beginning_sql: ClassVar[str] = "json_quote(substr({column}, 1, {characters}))"
    last_seq_sql: ClassVar[str] = _LAST_SEQ
    among_sql: ClassVar[str] = "IN (SELECT value FROM json_each(?))"
    tags_sql: ClassVar[str] = _TAGS
    now_sql: ClassVar[str] = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
    claim_lock_sql: ClassVar[str] = ""
    claim_setting_sql: ClassVar[str] = "NULL"
    lock_sql: ClassVar[str] = ""
    seconds_sql: ClassVar[str] = "julianday(ended_at) - julianday(started_at)"
    model_sql: ClassVar[str] = "iif(json_valid(executor_config), executor_config ->> '$.model', NULL)"
    tail_sql: ClassVar[str] = _TAIL
    workers: "LatePart[WorkerTable]" = LatePart("sqlite_workers", "SqliteWorkers", "runs")

    host: str | None = None

    def __init__(self, home: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        StoreFile.__init__(self, home, busy_seconds)
        Store.__init__(self, SqliteEvents)

    def now(self) -> datetime:
        """See `Engine`: the clock of this host."""
        return datetime.now(UTC)

    def listed(self, values: Collection[str]) -> object:
        """See `Engine`."""
        return json.dumps(list(values))

    def lock_claims(self) -> None:
        """Do nothing, since a transaction has locked all writers out."""

    def notify(self) -> None:
        """See `Engine`."""
        notify(self.home)

    @asynccontextmanager
    async def listening(self, owner: str, tell: Callable[[str], None]) -> AsyncIterator[Wakeup]:
        """See `Engine`."""
        with own_wakeup(self.home, owner) as wakeup:
            yield wakeup

    def overwrite_what_is_deleted(self) -> None:
        """See `Engine`."""
        self.connection.execute("PRAGMA secure_delete = ON")  # prompts and answers do not stay in free pages

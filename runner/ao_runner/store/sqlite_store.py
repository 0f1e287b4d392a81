"""The store of one host: an SQLite file that several processes write at the same time, and its own queries.

Leases use the clock of the machine's uptime, which all processes share and which cannot be set.
"""

import json
import os
from array import array
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar, Final

from ao_runner.store.columns import Row
from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.event_table import EventTable
from ao_runner.store.ownership import (
    IDLE_LEASE_SECONDS,
    MAX_LEASE_SECONDS,
    REMOTE,
    WORKER_COLUMNS,
    Owner,
    Wakeup,
    is_alive,
    living_owners,
    notify,
    offer_text,
    own_wakeup,
    owner_of,
    uptime_seconds,
)
from ao_runner.store.records import TAIL_CHARACTERS, Offer, RunState, StoredEvent, timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import RowConflict
from ao_runner.store.store_file import BUSY_SECONDS, StoreFile
from ao_runner.store.worker_table import CLAIMED, WorkerTable

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
DAY: Final = 86400.0

_STRANDED: Final = """
SELECT run_id FROM runs JOIN sessions ON sessions.session_id = runs.session_id
WHERE status = 'queued' AND mode = 'resume' AND host IS NOT NULL AND max(queued_at, coalesce(not_before, '')) < ?
AND NOT EXISTS (SELECT 1 FROM workers WHERE workers.host = sessions.host AND lease_until - ? BETWEEN ? AND ?)
"""


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


@dataclass(eq=False)
class SqliteWorkers(WorkerTable):
    """The workers in an SQLite store."""

    _outbox_seconds: dict[str, float] = field(default_factory=dict)
    """What the rows of workers of this host say, so that they are written only when it changes."""

    def mark_claimed(self, offer: Offer, run_ids: Sequence[str]) -> list[Row]:
        """See `WorkerTable`."""
        self._renew(offer.owner, offer.lease_seconds)
        return self._db.fetch(
            "UPDATE runs SET status = 'running', owner = ?, lease_until = ?, has_begun = 0,"  # noqa: S608  # own names
            " attempt = min(attempt, 1 << 52) + 1"  # a damaged one must not overflow
            f" WHERE status = 'queued' AND run_id {self._db.among_sql} RETURNING {CLAIMED.columns()}",
            (offer.owner, uptime_seconds() + offer.lease_seconds, self._db.listed(run_ids)),
        )

    def renew_leases(self, owner: str, lease_seconds: float, outbox_seconds: float = 0.0) -> set[tuple[str, int]]:
        """See `WorkerTable`."""
        self._renew(owner, lease_seconds, outbox_seconds)
        rows = self._db.fetch(
            "UPDATE runs SET lease_until = ? WHERE owner = ? AND status = 'running' RETURNING run_id, attempt",
            (uptime_seconds() + lease_seconds, owner),
        )
        return {(run_id, attempt) for run_id, attempt in rows}

    def _renew(self, owner: str, lease_seconds: float, outbox_seconds: float | None = None) -> None:
        """Let a worker behind a server live on; the life of any other one is the lock on its file."""
        if owner.startswith(REMOTE):
            lease_until = uptime_seconds() + max(lease_seconds, IDLE_LEASE_SECONDS)
            statement = "UPDATE workers SET lease_until = ?, outbox_seconds = coalesce(?, outbox_seconds)"
            self._db.write(f"{statement} WHERE worker_id = ?", (lease_until, outbox_seconds, owner))
        elif outbox_seconds is not None and outbox_seconds != self._outbox_seconds.get(owner, 0.0):
            self._outbox_seconds[owner] = outbox_seconds
            self._db.write("UPDATE workers SET outbox_seconds = ? WHERE worker_id = ?", (outbox_seconds, owner))

    def lost_runs(self) -> list[RunState]:
        """See `WorkerTable`."""
        rows = self._db.fetch(
            "SELECT run_id FROM runs WHERE status = 'running' AND lease_until < ?", (uptime_seconds(),)
        )
        expired = {run_id for (run_id,) in rows}
        running = self._runs.states("running")
        remote = self._remote_owners() if any(one.owner.startswith(REMOTE) for one in running) else {}
        return [
            one
            for one in running
            if one.run.run_id in expired or not (one.owner in remote or is_alive(self._db.home, one.owner))
        ]

    def stranded_runs(self, gone_seconds: float) -> list[RunState]:
        """See `WorkerTable`. Sessions of this host are never stranded."""
        before = timestamp(datetime.now(UTC) - timedelta(seconds=gone_seconds))
        found = self._db.fetch(_STRANDED, (before, uptime_seconds(), -gone_seconds, MAX_LEASE_SECONDS))
        return self._runs.select(f"run_id {self._db.among_sql}", self._db.listed([row[0] for row in found]))

    def join(self, offer: Offer) -> None:
        """See `WorkerTable`. An owner on this host is announced by its file, and its row is for requests to it."""
        self._forget_workers()
        pid = 0 if offer.owner.startswith(REMOTE) else os.getpid()
        self._db.write(
            "INSERT INTO workers (worker_id, host, pid, offer, lease_until) VALUES (?, ?, ?, ?, 0)"
            " ON CONFLICT (worker_id) DO UPDATE SET host = excluded.host, offer = excluded.offer",
            (offer.owner, offer.host or "", pid, offer_text(offer)),
        )
        self._renew(offer.owner, offer.lease_seconds)

    def _forget_workers(self) -> None:
        """Delete the rows of workers that are gone: of this host at once, of others a day after their lease."""
        remote = f"worker_id LIKE '{REMOTE}%'"
        self._db.write(
            f"DELETE FROM workers WHERE {remote} AND NOT lease_until - ? BETWEEN ? AND ?",  # noqa: S608  # own words
            (uptime_seconds(), -DAY, MAX_LEASE_SECONDS),
        )
        here = [owner for (owner,) in self._db.fetch(f"SELECT worker_id FROM workers WHERE NOT {remote}")]  # noqa: S608
        gone = [owner for owner in here if not is_alive(self._db.home, owner)]
        self._db.write(f"DELETE FROM workers WHERE worker_id {self._db.among_sql}", (self._db.listed(gone),))  # noqa: S608

    def leave(self, owner: str) -> None:
        """See `WorkerTable`. The lock on the file of an owner on this host ends with the process."""
        if owner.startswith(REMOTE):
            self._db.write("UPDATE workers SET offer = '{}' WHERE worker_id = ?", (owner,))

    def living(self) -> dict[str, Owner]:
        """See `WorkerTable`."""
        here, rows = living_owners(self._db.home), self._rows_of_workers("lease_until = 0")
        for name in rows.keys() & here.keys():
            row = rows[name]
            here[name] = replace(here[name], drains=row.drains, slots=row.slots, outbox_seconds=row.outbox_seconds)
        return {**here, **self._remote_owners()}

    def _remote_owners(self) -> dict[str, Owner]:
        return self._rows_of_workers("lease_until - ? BETWEEN 0 AND ?", uptime_seconds(), MAX_LEASE_SECONDS)

    def _rows_of_workers(self, condition: str, *values: object) -> dict[str, Owner]:
        rows = self._db.fetch(f"SELECT worker_id, {WORKER_COLUMNS} FROM workers WHERE {condition}", values)  # noqa: S608
        return {worker_id: owner_of(*row) for worker_id, *row in rows}

    def lease_seconds(self) -> dict[str, float]:
        """See `WorkerTable`. A worker of this host has leases of its runs only."""
        rows = self._db.fetch(
            "SELECT owner, min(lease_until) - ? FROM runs WHERE status = 'running' AND lease_until IS NOT NULL"
            " GROUP BY owner UNION ALL SELECT worker_id, lease_until - ? FROM workers WHERE lease_until > 0",
            (uptime_seconds(), uptime_seconds()),
        )
        return {owner: float(seconds) for owner, seconds in rows}


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

    host: str | None = None

    def __init__(self, home: Path, busy_seconds: float = BUSY_SECONDS) -> None:
        StoreFile.__init__(self, home, busy_seconds)
        Store.__init__(self, SqliteEvents, SqliteWorkers)

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

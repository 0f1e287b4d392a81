"""The workers in an SQLite store."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from ao_runner.store.columns import Row
from ao_runner.store.ownership import (
    IDLE_LEASE_SECONDS,
    MAX_LEASE_SECONDS,
    REMOTE,
    Owner,
    is_alive,
    living_owners,
    uptime_seconds,
)
from ao_runner.store.records import RunState, timestamp
from ao_runner.store.worker_table import CLAIMED, WORKER_COLUMNS, Offer, WorkerTable, offer_text, owner_of

DAY: Final = 86400.0

_STRANDED: Final = """
SELECT run_id FROM runs JOIN sessions ON sessions.session_id = runs.session_id
WHERE status = 'queued' AND mode = 'resume' AND host IS NOT NULL AND max(queued_at, coalesce(not_before, '')) < ?
AND NOT EXISTS (SELECT 1 FROM workers WHERE workers.host = sessions.host AND lease_until - ? BETWEEN ? AND ?)
"""


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
            here[name] = here[name]._replace(drains=row.drains, slots=row.slots, outbox_seconds=row.outbox_seconds)
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

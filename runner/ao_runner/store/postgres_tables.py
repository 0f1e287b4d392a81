"""The queries about events and workers for which PostgreSQL needs SQL of its own."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from ao_runner.store.columns import Row
from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.event_table import EventTable
from ao_runner.store.ownership import IDLE_LEASE_SECONDS, REMOTE, WORKER_COLUMNS, Owner, offer_text, owner_of
from ao_runner.store.records import Offer, RunState, StoredEvent
from ao_runner.store.store_errors import RowConflict
from ao_runner.store.worker_table import CLAIMED, WorkerTable

ROWS_AT_ONCE: Final = 8
"""Rows of events in memory at a time; a row holds up to a megabyte, or one larger event."""

_ADD_EVENTS: Final = """
WITH held AS (
    UPDATE runs SET last_seq = ? WHERE run_id = ? AND attempt = ? AND status = 'running' AND last_seq = ?
    AND owner = coalesce(?, owner) RETURNING run_id, week
)
INSERT INTO events (week, run_id, seq, last_seq, line) SELECT week, run_id, ?, ?, ? FROM held
"""
_INSERT_EVENTS: Final = """
WITH written AS (UPDATE runs SET last_seq = ? WHERE run_id = ? AND last_seq < ? RETURNING run_id, week)
INSERT INTO events (week, run_id, seq, last_seq, line) SELECT week, run_id, ?, ?, ? FROM written
"""
_RENEW: Final = """
INSERT INTO workers (worker_id, host, pid, offer, lease_until)
VALUES (?, ?, ?, ?, clock_timestamp() + make_interval(secs => ?))
ON CONFLICT (worker_id) DO UPDATE SET offer = excluded.offer, lease_until = excluded.lease_until,
outbox_seconds = coalesce(?, workers.outbox_seconds)
"""
LOST: Final = """
runs LEFT JOIN workers ON worker_id = owner
WHERE status = 'running' AND (lease_until IS NULL OR lease_until < clock_timestamp())
"""
"""The running runs whose worker is gone, as the end of a query."""
_LOST: Final = f"SELECT run_id FROM {LOST} FOR UPDATE OF runs SKIP LOCKED"  # noqa: S608  # own words
_STRANDED: Final = """
SELECT run_id FROM runs JOIN sessions ON sessions.session_id = runs.session_id
WHERE status = 'queued' AND mode = 'resume' AND host IS NOT NULL
AND greatest(queued_at, not_before)::timestamptz < clock_timestamp() - make_interval(secs => ?)
AND NOT EXISTS (SELECT 1 FROM workers WHERE workers.host = sessions.host
                AND lease_until > clock_timestamp() - make_interval(secs => ?))
FOR UPDATE OF runs SKIP LOCKED
"""
_STILL_LOST: Final = """run_id = ANY(?) AND status = 'running'
AND NOT EXISTS (SELECT 1 FROM workers WHERE worker_id = owner AND lease_until >= clock_timestamp())"""


class PostgresEvents(EventTable):
    """The events in a PostgreSQL store."""

    def add(self, run_id: str, first_seq: int, lines: Sequence[bytes]) -> None:
        """See `EventTable`."""
        last_seq = first_seq + len(lines) - 1
        text = b"\n".join(lines).decode()
        if not self._db.write(_INSERT_EVENTS, (last_seq, run_id, first_seq, first_seq, last_seq, text)):
            raise RowConflict(f"event {first_seq} of run {run_id}")

    def add_of_attempt(
        self, run_id: str, attempt: int, first_seq: int, lines: Sequence[bytes], owner: str | None = None
    ) -> int:
        """See `EventTable`. One statement, unless some of the events are stored, or events before them are missing."""
        last_seq = first_seq + len(lines) - 1
        text = b"\n".join(lines).decode()
        values = (last_seq, run_id, attempt, first_seq - 1, owner, first_seq, last_seq, text)
        if self._db.write(_ADD_EVENTS, values):
            return last_seq
        return super().add_of_attempt(run_id, attempt, first_seq, lines, owner)

    def of_session(self, session_id: str, after: int = 0, run_id: str | None = None) -> Iterator[StoredEvent]:
        """See `EventTable`. Positions of a session increase in the order of commits: its runs run one at a time."""
        runs = self._db.fetch(
            "SELECT run_id, week FROM runs WHERE session_id = ? AND run_id = coalesce(?, run_id)", (session_id, run_id)
        )
        of_runs = ([row[0] for row in runs], [row[1] for row in runs])
        while rows := self._db.fetch(
            "SELECT position, run_id, seq, line FROM events WHERE run_id = ANY(?) AND week = ANY(?) AND position > ?"
            " ORDER BY position LIMIT ?",
            (*of_runs, after, ROWS_AT_ONCE),
        ):
            for row in rows:
                yield from self._split(*row)
            after = rows[-1][0]


@dataclass(eq=False)
class PostgresWorkers(WorkerTable):
    """The workers in a PostgreSQL store."""

    _announced: dict[str, tuple[str, int, str]] = field(default_factory=dict)
    """The host, process and offer of each owner that claims runs through this connection."""

    def mark_claimed(self, offer: Offer, run_ids: Sequence[str]) -> list[Row]:
        """See `WorkerTable`. A run whose session has become busy meanwhile is left out, and the others are marked."""
        try:
            rows = self._marked(offer, run_ids)
        except ConstraintBroken:
            rows = []
            for run_id in run_ids:
                with suppress(ConstraintBroken):
                    rows += self._marked(offer, [run_id])
        if rows:
            self._renew(offer.owner, offer.lease_seconds)
        return rows

    def _marked(self, offer: Offer, run_ids: Sequence[str]) -> list[Row]:
        with self._db.transaction():
            return self._db.fetch(
                "UPDATE runs SET status = 'running', owner = ?, has_begun = 0, attempt = attempt + 1"  # noqa: S608
                f" WHERE status || '' = 'queued' AND run_id = ANY(?) RETURNING {CLAIMED.columns()}",
                (offer.owner, list(run_ids)),
            )

    def renew_leases(self, owner: str, lease_seconds: float, outbox_seconds: float = 0.0) -> set[tuple[str, int]]:
        """See `WorkerTable`. A worker without runs has at least `IDLE_LEASE_SECONDS`, until its next claim."""
        rows = self._db.fetch("SELECT run_id, attempt FROM runs WHERE status = 'running' AND owner = ?", (owner,))
        self._renew(owner, lease_seconds if rows else max(lease_seconds, IDLE_LEASE_SECONDS), outbox_seconds)
        return {(run_id, attempt) for run_id, attempt in rows}

    def _renew(self, owner: str, lease_seconds: float, outbox_seconds: float | None = None) -> None:
        announced = self._announced.get(owner, (self._db.host or "", os.getpid(), "{}"))
        self._db.write(_RENEW, (owner, *announced, lease_seconds, outbox_seconds))
        self._db.keep_partitions()

    def lost_runs(self) -> list[RunState]:
        """See `WorkerTable`. The rows stay locked until the end of the transaction.

        The locked rows are checked again: one that changed before it was locked may belong to a living worker by now.
        """
        found = [run_id for (run_id,) in self._db.fetch(_LOST)]
        return self._runs.select(_STILL_LOST, found) if found else []

    def stranded_runs(self, gone_seconds: float) -> list[RunState]:
        """See `WorkerTable`."""
        found = [run_id for (run_id,) in self._db.fetch(_STRANDED, (gone_seconds, gone_seconds))]
        return self._runs.select("run_id = ANY(?)", found) if found else []

    def join(self, offer: Offer) -> None:
        """See `WorkerTable`."""
        pid = 0 if offer.owner.startswith(REMOTE) else os.getpid()
        self._announced[offer.owner] = (offer.host or self._db.host or "", pid, offer_text(offer))
        self._renew(offer.owner, offer.lease_seconds)

    def leave(self, owner: str) -> None:
        """See `WorkerTable`. Its lease goes on: the next worker of this host may deliver what it has left."""
        self._announced.pop(owner, None)
        self._db.write("UPDATE workers SET offer = '{}' WHERE worker_id = ?", (owner,))

    def living(self) -> dict[str, Owner]:
        """See `WorkerTable`."""
        alive = "lease_until > clock_timestamp()"
        rows = self._db.fetch(f"SELECT worker_id, {WORKER_COLUMNS} FROM workers WHERE {alive}")  # noqa: S608  # own names
        return {worker_id: owner_of(*row) for worker_id, *row in rows}

    def lease_seconds(self) -> dict[str, float]:
        """See `WorkerTable`."""
        rows = self._db.fetch(
            "SELECT worker_id, extract(epoch FROM lease_until - clock_timestamp())::float8 FROM workers"
        )
        return {str(worker_id): float(seconds) for worker_id, seconds in rows}

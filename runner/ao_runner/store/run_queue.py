"""The queue of runs in a store: enqueued, claimed, begun and ended, each by one worker at a time.

A claim is an attempt with a number and a lease. Later reports of the worker must carry that number: they are rejected
if another worker has claimed the run, or the run has ended.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ao_protocol.errors import ErrorType
from ao_runner.store.columns import Row
from ao_runner.store.engine import Part
from ao_runner.store.limit_table import LimitTable
from ao_runner.store.records import Run
from ao_runner.store.run_table import RUN, RunTable
from ao_runner.store.session_table import SESSION
from ao_runner.store.store_errors import RowDamaged
from ao_runner.store.worker_table import CLAIMED, ClaimedRun, Offer, WorkerTable

_NEW: Final[dict[str, object]] = {"status": "queued", "attempt": 0, "owner": "", "has_begun": 0, "announced": 0}


@dataclass(eq=False)
class RunQueue(Part):
    """The queue in one store. Each method is one statement, or is part of its caller's transaction."""

    _runs: RunTable
    _limits: LimitTable
    _workers: WorkerTable

    def add(self, *runs: Run) -> None:
        """Append runs to the queue. Their events belong to this week, whose partition no worker may have created."""
        self._db.keep_partitions()
        self._runs.insert(*((run, _NEW | {"queued_at": run.started_at}) for run in runs))

    def claim(self, offer: Offer, slots: int, on_damaged: Callable[[RowDamaged, Row], None]) -> list[ClaimedRun]:
        """Claim at most `slots` runs that suit an offer, as a step of a transaction.

        Runs with the highest priority come first, then the oldest. Only the oldest queued run of a session is claimed,
        and none of a session with a running one. A run whose row cannot be read ends as failed; before that,
        `on_damaged` receives the error, and run, session and attempt.
        """
        is_draining, rooms = self._rooms(offer.owner)
        if is_draining:
            return []
        full = [key for key, room in rooms.items() if room <= 0]
        db, host = self._db, offer.host or self._db.host
        candidates = db.fetch(
            _CANDIDATES.format(among=db.among_sql, tags=db.tags_sql, now=db.now_sql, lock=db.claim_lock_sql),
            (
                int(not offer.profiles), db.listed(offer.profiles), json.dumps(offer.tags),
                db.listed(["[]", json.dumps([f"host:{host}"])] if offer.needs_tag else []),
                int(offer.host is None or db.host is not None), host, db.listed(offer.shared),
                db.listed([name for kind, name in full if kind != "agent"]),
                db.listed([name for kind, name in full if kind == "agent"]), slots,
            ),
        )  # fmt: skip
        chosen = [run_id for run_id, *keys in candidates if _takes_room(rooms, *keys)]
        rows = {row[0]: row for row in self._workers.mark_claimed(offer, chosen)} if chosen else {}
        claimed = []
        for row in (rows[run_id] for run_id in chosen if run_id in rows):
            try:
                claimed.append(CLAIMED.read(row))
            except RowDamaged as damaged:
                values = dict(zip(CLAIMED.names, row, strict=True))
                on_damaged(damaged, [values[name] for name in ("run_id", "session_id", "attempt")])
                self._db.write(
                    "UPDATE runs SET status = 'failed', error_type = ? WHERE run_id = ?",
                    (str(ErrorType.INTERNAL_ERROR), values["run_id"]),
                )
        return claimed

    def _rooms(self, owner: str) -> tuple[bool, dict[tuple[str, str], int]]:
        """Return whether a worker drains, and how many more runs each limit allows.

        If there is a limit, no other process claims meanwhile.
        """
        # One query, so that the setting costs no round trip of its own.
        ((is_draining, is_limited, _),) = self._db.fetch(
            "SELECT EXISTS (SELECT 1 FROM workers WHERE worker_id = ? AND drain <> 0),"  # noqa: S608  # own words
            f" EXISTS (SELECT 1 FROM limits), {self._db.claim_setting_sql}",
            (owner,),
        )
        if is_draining or not is_limited:
            return bool(is_draining), {}
        self._db.lock_claims()
        return False, {(limit.kind, limit.name): limit.most - limit.running for limit in self._limits.all()}

    def requeue(self, run_id: str, ids: tuple[str, str], not_before: str, now: str) -> bool:
        """Queue a copy of a run that asked for it, and return whether it did.

        Args:
            run_id: The run.
            ids: The ids of the copy and of its session. A copy of a run that began a session begins another one.
            not_before: The earliest time of the copy.
            now: The time of its queueing.
        """
        rows = self._db.fetch("SELECT session_id, mode FROM runs WHERE run_id = ? AND requeue = 1", (run_id,))
        if not rows:
            return False
        ((session_id, mode),) = rows
        if mode == "start":
            new = {"session_id": ids[1], "created_at": now}
            self._db.copy("sessions", (*SESSION.copied, "agent_name"), new, ("session_id", session_id))
            session_id = ids[1]
        new = {"run_id": ids[0], "session_id": session_id, "started_at": now, "queued_at": now, "succeeds": run_id}
        copied = (*RUN.copied, *self._db.own_run_columns)
        self._db.copy("runs", copied, _NEW | new | {"not_before": not_before}, ("run_id", run_id))
        return True

    def begin(self, run_id: str, attempt: int, now: str, owner: str | None = None, host: str | None = None) -> None:
        """Record that a claimed run begins, on this host or another one, to which its session belongs from now on.

        Raises:
            NotHeld: The run was taken away, or has ended.
        """
        self._runs.check_held(run_id, attempt, owner)
        self._db.write("UPDATE runs SET has_begun = 1, started_at = ? WHERE run_id = ?", (now, run_id))
        if (host or self._db.host) is not None:
            self._db.write(
                "UPDATE sessions SET host = ? WHERE host IS NULL"
                " AND session_id = (SELECT session_id FROM runs WHERE run_id = ?)",
                (host or self._db.host, run_id),
            )

    def take_back(self, run_id: str, attempt: int, owner: str) -> bool:
        """Continue an attempt of which the store has lost the claim, and return whether nobody has claimed it since.

        Attempts are only ever counted up, so a queued run with a smaller one is in a store that went back in time.
        """
        return bool(
            self._db.write(
                "UPDATE runs SET status = 'running', owner = ?, attempt = ?, has_begun = 1"
                " WHERE run_id = ? AND status = 'queued' AND attempt < ?",
                (owner, attempt, run_id, attempt),
            )
        )

    def give_back(self, run_id: str, attempt: int) -> None:
        """Return a run that has not begun to the queue. Ignore one that has begun or is held by another worker."""
        self._db.write(
            "UPDATE runs SET status = 'queued', owner = ''"
            " WHERE run_id = ? AND attempt = ? AND status = 'running' AND has_begun = 0",
            (run_id, attempt),
        )


# `|| ''` makes a planner find the other runs by their session: without statistics, it reads the whole queue instead.
# Without OFFSET, it joins all of them where the statistics say that nearly all runs are queued.
_CANDIDATES: Final = """
SELECT runs.run_id, runs.profile, agent_name FROM runs LEFT JOIN sessions ON sessions.session_id = runs.session_id
WHERE runs.status = 'queued' AND (not_before IS NULL OR not_before <= {now}) AND NOT EXISTS (
    SELECT 1 FROM runs AS other WHERE other.session_id = runs.session_id AND (
        other.status || '' = 'running' OR other.status || '' = 'queued' AND other.rowid < runs.rowid)
    LIMIT 1 OFFSET 0)
AND (? = 1 OR runs.profile {among}) AND {tags} AND NOT requires {among}
AND (mode = 'start' OR host IS NULL AND (? = 1 OR executor_session_id IS NULL) OR host = ? OR runs.profile {among})
AND NOT coalesce(runs.profile, '') {among} AND NOT coalesce(agent_name, '') {among}
ORDER BY priority DESC, runs.rowid LIMIT ?{lock}
"""


def _takes_room(rooms: dict[tuple[str, str], int], profile: str, agent_name: str) -> bool:
    """Return whether the limits allow one more run, and count it if they do."""
    keys = [key for key in (("pause", profile), ("profile", profile), ("agent", agent_name)) if key in rooms]
    if any(rooms[key] <= 0 for key in keys):
        return False
    for key in keys:
        rooms[key] -= 1
    return True

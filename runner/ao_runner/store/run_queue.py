"""The queue of runs in the local store: enqueued, claimed, begun and ended, each by one worker at a time.

A claim is an attempt with a number and a lease. Later reports of the worker must carry that number: they are rejected
if another worker has claimed the run, or the run has ended. Leases use the clock of the machine's uptime, which all
processes share and which cannot be set.
"""

import json
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ao_protocol.errors import ErrorType
from ao_runner.store.ownership import is_alive
from ao_runner.store.records import (
    ClaimedRun,
    Damage,
    Live,
    LiveRun,
    NotHeld,
    QueuedRun,
    RowDamaged,
    Run,
    RunState,
    RunStatus,
)
from ao_runner.store.store_file import StoreFile, json_object, reading

RUN_COLUMNS: Final = "run_id, session_id, mode, parameters, started_at, status, ended_at, error_type, contract"
RUN_WIDTH: Final = RUN_COLUMNS.count(",") + 1
INSERT_EVENTS: Final = "INSERT INTO events (run_id, seq, last_seq, event_type, line) VALUES (?, ?, ?, '', ?)"

LATELY: Final = timedelta(minutes=1)
MOST_WAITING: Final = 50
"""Maximum number of queued runs to list; all are counted."""
MOST_LOOKED_BACK: Final = 10_000
"""Number of newest runs to check for a recent end, so that an old store costs no more."""
TAIL_CHARACTERS: Final = 64 * 1024
"""Maximum number of characters to read from the end of a run's last events."""

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def uptime_seconds() -> float:
    """Return the time since the machine started, including sleep."""
    return time.clock_gettime(_CLOCK)


class RunQueue(StoreFile):
    """The queue in one store. Each method is one statement, or is part of its caller's transaction."""

    def enqueue(self, queued: QueuedRun) -> None:
        """Append a run to the queue."""
        run = queued.run
        values = (
            run.run_id, run.session_id, run.mode, json.dumps(run.parameters), run.started_at, run.started_at,
            None if run.contract is None else json.dumps(run.contract), queued.profile, queued.timeout_seconds,
            json.dumps(queued.metadata or {}), queued.model_script,
        )  # fmt: skip
        self.connection.execute(
            "INSERT INTO runs (run_id, session_id, mode, parameters, started_at, queued_at, contract, profile,"
            " timeout_seconds, metadata, model_script, status, attempt, owner, has_begun)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued', 0, '', 0)",
            values,
        )

    def claim_runs(
        self,
        owner: str,
        profiles: Collection[str] | None,
        slots: int,
        lease_seconds: float,
        on_damaged: Callable[[RowDamaged, Sequence[Any]], None],
    ) -> list[ClaimedRun]:
        """Claim at most `slots` runs for the profiles, the oldest first, and none of a busy session.

        Without profiles, claim runs of any profile. Only the oldest queued run of a session is claimed. A run whose row
        cannot be read ends as failed; before that, `on_damaged` receives the error, and run, session and attempt.
        """
        rows = self.connection.execute(
            "UPDATE runs SET status = 'running', owner = ?, lease_until = ?, has_begun = 0,"  # noqa: S608
            " attempt = min(attempt, 1 << 52) + 1"  # a damaged one must not overflow
            " WHERE rowid IN (SELECT min(rowid) FROM runs AS waiting WHERE status = 'queued'"
            " AND NOT EXISTS (SELECT 1 FROM runs AS other WHERE other.session_id = waiting.session_id"
            " AND other.status = 'running') GROUP BY session_id"
            " HAVING ? OR profile IN (SELECT value FROM json_each(?)) ORDER BY min(rowid) LIMIT ?)"
            f" RETURNING rowid, {RUN_COLUMNS}, profile, timeout_seconds, metadata, attempt, queued_at,"  # own names
            " model_script",
            (owner, uptime_seconds() + lease_seconds, profiles is None, json.dumps(list(profiles or ())), slots),
        )
        claimed = []
        for number, *row in rows.fetchall():
            try:
                claimed.append(_claimed(row))
            except RowDamaged as damaged:
                on_damaged(damaged, [*row[:2], row[RUN_WIDTH + 3]])
                self.connection.execute(
                    "UPDATE runs SET status = 'failed', error_type = ?, lease_until = NULL WHERE rowid = ?",
                    (str(ErrorType.INTERNAL_ERROR), number),
                )
        return sorted(claimed, key=lambda one: one.queued_at)

    def begin_attempt(self, run_id: str, attempt: int, now: str) -> None:
        """Record that a claimed run begins.

        Raises:
            NotHeld: The run was taken away, or has ended.
        """
        self._check_held(run_id, attempt)
        self.connection.execute("UPDATE runs SET has_begun = 1, started_at = ? WHERE run_id = ?", (now, run_id))

    def add_attempt_events(self, run_id: str, attempt: int, first_seq: int, lines: Sequence[bytes]) -> int:
        """Store the events that are not stored yet, and return the `seq` of the last stored one.

        Events that are all stored already may be repeated, even after the end.

        Raises:
            NotHeld: The events are no longer accepted.
        """
        last = self.last_seq(run_id)
        new = lines[max(0, last + 1 - first_seq) :]
        self._check_held(run_id, attempt, or_ended=not new)
        if not new:
            return last
        # Events that a damaged outbox has lost are missing here as well, as a visible gap.
        self.connection.execute(INSERT_EVENTS, events_row(run_id, max(first_seq, last + 1), new))
        return first_seq + len(lines) - 1

    def end_attempt(self, run_id: str, attempt: int, status: RunStatus, now: str, error_type: str | None) -> None:
        """End a run, once.

        Raises:
            NotHeld: The run has ended, or another worker holds it.
        """
        self._check_held(run_id, attempt)
        self.connection.execute(
            "UPDATE runs SET status = ?, ended_at = ?, error_type = ?, lease_until = NULL WHERE run_id = ?",
            (status, now, error_type, run_id),
        )

    def give_back(self, run_id: str, attempt: int) -> None:
        """Return a run that has not begun to the queue. Ignore one that has begun or is held by another worker."""
        self.connection.execute(
            "UPDATE runs SET status = 'queued', owner = '', lease_until = NULL"
            " WHERE run_id = ? AND attempt = ? AND status = 'running' AND has_begun = 0",
            (run_id, attempt),
        )

    def renew_leases(self, owner: str, lease_seconds: float) -> set[tuple[str, int]]:
        """Extend every lease of an owner and return the runs that it holds, as run and attempt."""
        rows = self.connection.execute(
            "UPDATE runs SET lease_until = ? WHERE owner = ? AND status = 'running' RETURNING run_id, attempt",
            (uptime_seconds() + lease_seconds, owner),
        )
        return {(run_id, attempt) for run_id, attempt in rows.fetchall()}

    def lost_runs(self) -> list[RunState]:
        """Return the running runs whose owner is gone, or whose lease has expired because it hangs or sleeps."""
        rows = self.connection.execute(
            "SELECT run_id FROM runs WHERE status = 'running' AND lease_until < ?", (uptime_seconds(),)
        )
        expired = {run_id for (run_id,) in rows}
        running = self.list_states("running")
        return [one for one in running if one.run.run_id in expired or not is_alive(self.home, one.owner)]

    def request_stop(self, run_id: str) -> RunStatus | None:
        """Request a stop of a run and return its status, or None if there is no such run."""
        row = self.connection.execute(
            "UPDATE runs SET stop_wanted = stop_wanted + 1 WHERE run_id = ? RETURNING status", (run_id,)
        ).fetchone()
        return None if row is None else row[0]

    def requested_stops(self, owner: str) -> dict[str, int]:
        """Return the running runs of an owner that should stop, with the number of requests for each."""
        rows = self.connection.execute(
            "SELECT run_id, CAST(stop_wanted AS INTEGER) FROM runs"
            " WHERE status = 'running' AND owner = ? AND stop_wanted > 0",
            (owner,),
        )
        return dict(rows.fetchall())

    def list_states(self, *statuses: RunStatus) -> list[RunState]:
        """Return the runs with one of the statuses, or all, oldest first. Damaged rows go to `damage`."""
        condition = "? OR status IN (SELECT value FROM json_each(?))"
        return self._states(self.damage, condition, not statuses, json.dumps(statuses))

    def find_states(self, beginning: str) -> list[RunState]:
        """Return the run with an id, or the runs whose ids have that prefix, oldest first.

        Raises:
            RowDamaged: One of them is damaged.
        """
        found = self._states(None, "run_id = ?", beginning)
        return found or self._states(None, "substr(run_id, 1, ?) = ?", len(beginning), beginning)

    def _states(self, damage: Damage | None, condition: str, *values: object) -> list[RunState]:
        columns = (
            f"{RUN_COLUMNS}, profile, attempt, owner, queued_at, has_begun, stop_wanted,"  # noqa: S608  # own names
            " coalesce((SELECT coalesce(last_seq, seq) FROM events WHERE events.run_id = runs.run_id"
            " ORDER BY seq DESC LIMIT 1), 0)"
        )
        return self._rows("run", (columns, "runs", f"WHERE {condition} ORDER BY rowid"), values, _state, damage)

    def live_runs(self, now: datetime | None = None) -> Live:
        """Return the runs that are not over, in two queries for any size of store. Damaged rows go to `damage`."""
        lately = ((now or datetime.now(UTC)) - LATELY).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        queued, running, ended = self.connection.execute(_COUNTS, (lately,)).fetchone()
        runs = []
        for row in self.connection.execute(_RUNS):
            try:
                with reading("run", row):
                    runs.append(_live(row))
            except RowDamaged as damaged:
                self.damage.add(damaged)
        return Live(queued, running, ended, tuple(runs))

    def last_seq(self, run_id: str) -> int:
        """Return the `seq` of the last stored event of a run; 0 if there is none."""
        row = self.connection.execute(
            "SELECT coalesce(last_seq, seq) FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1", (run_id,)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def _check_held(self, run_id: str, attempt: int, *, or_ended: bool = False) -> None:
        row = self.connection.execute("SELECT status, attempt FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise NotHeld(run_id, "unknown run")
        status, current = row
        if current != attempt:
            raise NotHeld(run_id, f"attempt {current} has taken the place of attempt {attempt}")
        if status != "running" and not or_ended:
            raise NotHeld(run_id, f"it is {status}")


_COUNTS: Final = f"""
SELECT (SELECT count(*) FROM runs WHERE status IN ('queued', 'running') AND status = 'queued'),
       (SELECT count(*) FROM runs WHERE status IN ('queued', 'running') AND status = 'running'),
       (SELECT count(*) FROM runs WHERE rowid > (SELECT max(rowid) FROM runs) - {MOST_LOOKED_BACK} AND ended_at >= ?)
"""  # noqa: S608  # own numbers
_COLUMNS: Final = (
    "rowid AS number, run_id, session_id, profile, status, attempt, owner, queued_at, started_at, stop_wanted FROM runs"
    " WHERE status IN ('queued', 'running')"
)
# A tool that works for an hour only sends heartbeats, one per row; the events before them are the ones to show.
_RUNS: Final = f"""
SELECT run.run_id, run.session_id, iif(json_valid(blueprint), json_extract(blueprint, '$.name'), ''), run.profile,
       session.executor_name,
       run.status, run.attempt, run.owner, coalesce(run.queued_at, run.started_at), run.started_at, run.stop_wanted,
       (SELECT coalesce(last_seq, seq) FROM events WHERE run_id = run.run_id ORDER BY seq DESC LIMIT 1),
       (SELECT substr(line, -{TAIL_CHARACTERS}) FROM events WHERE run_id = run.run_id
        AND (instr(line, '"heartbeat"') = 0 OR last_seq > seq) ORDER BY seq DESC LIMIT 1)
FROM (SELECT {_COLUMNS} AND status = 'running'
      UNION ALL
      SELECT * FROM (SELECT {_COLUMNS} AND status = 'queued' ORDER BY rowid LIMIT {MOST_WAITING})
     ) AS run JOIN sessions AS session USING (session_id) ORDER BY run.status DESC, run.number
"""  # noqa: S608  # own names


def run_of(row: Sequence[Any]) -> Run:
    """Return the run in a row of `RUN_COLUMNS`.

    Raises:
        RowDamaged: The row contains no valid run.
    """
    run_id, session_id, mode, parameters, started_at, status, ended_at, error_type, contract = row
    with reading("run", row):
        return Run(
            run_id=run_id,
            session_id=session_id,
            mode=mode,
            parameters=json_object("parameters", parameters),
            started_at=started_at,
            status=status,
            ended_at=ended_at,
            error_type=error_type,
            contract=None if contract is None else json_object("contract", contract),
        )


def events_row(run_id: str, first_seq: int, lines: Sequence[bytes]) -> tuple[str, int, int, str]:
    """Return the values of `INSERT_EVENTS` for consecutive events, which share one row."""
    return run_id, first_seq, first_seq + len(lines) - 1, b"\n".join(lines).decode()


def _claimed(row: Sequence[Any]) -> ClaimedRun:
    profile, timeout_seconds, metadata, attempt, queued_at, model_script = row[RUN_WIDTH:]
    with reading("run", row):
        for column, value, kinds in (
            ("timeout_seconds", timeout_seconds, (int, float, type(None))),
            ("profile", profile, (str,)),
            ("attempt", attempt, (int,)),
            ("queued_at", queued_at, (str,)),
            ("model_script", model_script, (str, type(None))),
        ):
            if not isinstance(value, kinds):
                raise ValueError(f"column {column} holds {value!r}")  # noqa: TRY004  # `reading` turns it
        queued = QueuedRun(
            run_of(row[:RUN_WIDTH]), profile, timeout_seconds, json_object("metadata", metadata), model_script
        )
    return ClaimedRun(queued, attempt, queued_at)


def _state(row: Sequence[Any]) -> RunState:
    profile, attempt, owner, queued_at, has_begun, stop_wanted, last_seq = row[RUN_WIDTH:]
    with reading("run", row):
        run = run_of(row[:RUN_WIDTH])
    return RunState(run, profile, attempt, owner, queued_at, bool(has_begun), bool(stop_wanted), last_seq)


def _live(row: Sequence[Any]) -> LiveRun:
    run_id, session_id, agent_name, profile, executor_name, status, attempt, owner, *rest = row
    queued_at, started_at, stop_wanted, events, tail = rest
    return LiveRun(
        run_id=run_id,
        session_id=session_id,
        agent_name=str(agent_name or ""),
        profile=profile or executor_name,
        status=status,
        attempt=attempt,
        owner=owner,
        since=queued_at if status == "queued" else started_at,
        is_stopping=stop_wanted > 0 and status == "running",
        events=events or 0,
        last_lines=tuple((tail or "").split("\n")[len(tail or "") >= TAIL_CHARACTERS :]),  # the first may be incomplete
    )

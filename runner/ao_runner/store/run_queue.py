"""The queue of runs in a store: enqueued, claimed, begun and ended, each by one worker at a time.

A claim is an attempt with a number and a lease. Later reports of the worker must carry that number: they are rejected
if another worker has claimed the run, or the run has ended.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from ao_protocol.errors import ErrorType
from ao_runner.store.brief_fields import brief_columns
from ao_runner.store.engine import Engine, Row, json_object, reading
from ao_runner.store.records import (
    ClaimedRun,
    Damage,
    Fleet,
    Live,
    LiveRun,
    NotHeld,
    Offer,
    Placement,
    QueuedRun,
    RowDamaged,
    Run,
    RunFilter,
    RunLimit,
    RunState,
    RunStatus,
)
from ao_runner.store.run_figures import ONLY, contains

RUN_COLUMNS: Final = (
    "run_id, session_id, mode, parameters, started_at, status, ended_at, error_type, contract, parent_session_id,"
    " execution_mode, input_responses"
)
RUN_WIDTH: Final = RUN_COLUMNS.count(",") + 1
CLAIMED_COLUMNS: Final = f"{RUN_COLUMNS}, profile, timeout_seconds, metadata, attempt, queued_at, model_script"

LATELY: Final = timedelta(minutes=1)
MOST_WAITING: Final = 50
"""Maximum number of queued runs to list; all are counted."""
MOST_PROFILES: Final = 100
"""Maximum number of profiles whose load is told."""
MOST_LOOKED_BACK: Final = 10_000
"""Number of newest runs to check for a recent end, so that an old store costs no more."""
TAIL_CHARACTERS: Final = 64 * 1024
"""Maximum number of characters to read from the end of a run's last events."""


class RunQueue(Engine):
    """The queue in one store. Each method is one statement, or is part of its caller's transaction."""

    def run_values(self, run: Run) -> dict[str, object]:
        """Return the columns of a new run."""
        return {
            "run_id": run.run_id,
            "session_id": run.session_id,
            "mode": run.mode,
            "parameters": json.dumps(run.parameters),
            "started_at": run.started_at,
            "contract": None if run.contract is None else json.dumps(run.contract),
            "parent_session_id": run.parent_session_id,
            "execution_mode": run.execution_mode,
            "input_responses": None if run.input_responses is None else json.dumps(run.input_responses),
            "announced": 0,
        }

    def enqueue(self, queued: QueuedRun) -> None:
        """Append a run to the queue."""
        run = queued.run
        values = {
            **self.run_values(run),
            "queued_at": run.started_at,
            "profile": queued.profile,
            "timeout_seconds": queued.timeout_seconds,
            "metadata": json.dumps(queued.metadata or {}),
            "model_script": queued.model_script,
            "status": "queued",
            "attempt": 0,
            "owner": "",
            "has_begun": 0,
            "requires": json.dumps(queued.placement.requires),
            "priority": queued.placement.priority,
            "not_before": queued.placement.not_before,
            "requeue": int(queued.requeue),
        }
        self.write(insertion("runs", values), tuple(values.values()))

    def claim_runs(self, offer: Offer, slots: int, on_damaged: Callable[[RowDamaged, Row], None]) -> list[ClaimedRun]:
        """Claim at most `slots` runs that suit an offer, as a step of a transaction.

        Runs with the highest priority come first, then the oldest. Only the oldest queued run of a session is claimed,
        and none of a session with a running one. A run whose row cannot be read ends as failed; before that,
        `on_damaged` receives the error, and run, session and attempt.
        """
        is_draining, rooms = self._rooms(offer.owner)
        if is_draining:
            return []
        full = [key for key, room in rooms.items() if room <= 0]
        candidates = self.fetch(
            _CANDIDATES.format(
                among=self.among_sql, tags=self.tags_sql, now=self.now_sql, lock=self.claim_lock_sql
            ),
            (
                int(not offer.profiles), self.listed(offer.profiles), json.dumps(offer.tags),
                self.listed(['[]', json.dumps([f"host:{offer.host or self.host}"])] if offer.needs_tag else []),
                int(offer.host is None or self.host is not None), offer.host or self.host, self.listed(offer.shared),
                self.listed([name for kind, name in full if kind != "agent"]),
                self.listed([name for kind, name in full if kind == "agent"]), slots,
            ),
        )  # fmt: skip
        chosen = [run_id for run_id, *keys in candidates if _takes_room(rooms, *keys)]
        rows = {row[1]: row for row in self.mark_claimed(offer, chosen)} if chosen else {}
        claimed = []
        for number, *row in (rows[run_id] for run_id in chosen if run_id in rows):
            try:
                claimed.append(claimed_of(row))
            except RowDamaged as damaged:
                on_damaged(damaged, [*row[:2], row[RUN_WIDTH + 3]])
                self.write(
                    "UPDATE runs SET status = 'failed', error_type = ? WHERE rowid = ?",
                    (str(ErrorType.INTERNAL_ERROR), number),
                )
        return claimed

    def _rooms(self, owner: str) -> tuple[bool, dict[tuple[str, str], int]]:
        """Return whether a worker drains, and how many more runs each limit allows.

        If there is a limit, no other process claims meanwhile.
        """
        # One query, so that the setting costs no round trip of its own.
        ((is_draining, is_limited, _),) = self.fetch(
            "SELECT EXISTS (SELECT 1 FROM workers WHERE worker_id = ? AND drain <> 0),"  # noqa: S608  # own words
            f" EXISTS (SELECT 1 FROM limits), {self.claim_setting_sql}",
            (owner,),
        )
        if is_draining or not is_limited:
            return bool(is_draining), {}
        self.lock_claims()
        return False, {(limit.kind, limit.name): limit.most - limit.running for limit in self.list_limits()}

    def list_limits(self) -> list[RunLimit]:
        """Return the limits, with the number of runs that count."""
        return [RunLimit(*row) for row in self.fetch(_LIMITS.format(now=self.now_sql))]

    def put_limit(self, limit: RunLimit) -> None:
        """Store a limit, or replace that of the same agent or profile."""
        self.write(
            "INSERT INTO limits (kind, name, most, until) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (kind, name) DO UPDATE SET most = excluded.most, until = excluded.until",
            (limit.kind, limit.name, limit.most, limit.until),
        )

    def remove_limit(self, kind: str, name: str) -> bool:
        """Remove a limit, and return whether there was one."""
        return self.write("DELETE FROM limits WHERE kind = ? AND name = ?", (kind, name)) > 0

    def find_profile(self, run_id: str) -> str | None:
        """Return the profile of a run."""
        rows = self.fetch("SELECT profile FROM runs WHERE run_id = ?", (run_id,))
        return rows[0][0] if rows else None

    def requeue(self, run_id: str, ids: tuple[str, str], not_before: str, now: str) -> bool:
        """Queue a copy of a run that asked for it, and return whether it did.

        Args:
            run_id: The run.
            ids: The ids of the copy and of its session. A copy of a run that began a session begins another one.
            not_before: The earliest time of the copy.
            now: The time of its queueing.
        """
        rows = self.fetch("SELECT session_id, mode FROM runs WHERE run_id = ? AND requeue = 1", (run_id,))
        if not rows:
            return False
        ((session_id, mode),) = rows
        if mode == "start":
            self.write(
                f"INSERT INTO sessions (session_id, created_at, {_COPIED_OF_SESSION})"  # noqa: S608  # own names
                f" SELECT ?, ?, {_COPIED_OF_SESSION} FROM sessions WHERE session_id = ?",
                (ids[1], now, session_id),
            )
            session_id = ids[1]
        columns = f"{_COPIED_OF_RUN}{self.own_run_columns}"
        self.write(
            "INSERT INTO runs (run_id, session_id, started_at, queued_at, not_before, status, attempt, owner,"  # noqa: S608
            f" has_begun, succeeds, {columns})"
            f" SELECT ?, ?, ?, ?, ?, 'queued', 0, '', 0, run_id, {columns} FROM runs WHERE run_id = ?",
            (ids[0], session_id, now, now, not_before, run_id),
        )
        return True

    def find_successor(self, run_id: str) -> str | None:
        """Return the run that repeats one: after a usage limit, or because somebody has run it again from a page."""
        rows = self.fetch("SELECT run_id FROM runs WHERE succeeds = ?", (run_id,))
        return rows[0][0] if rows else None

    def begin_attempt(
        self, run_id: str, attempt: int, now: str, owner: str | None = None, host: str | None = None
    ) -> None:
        """Record that a claimed run begins, on this host or another one, to which its session belongs from now on.

        Raises:
            NotHeld: The run was taken away, or has ended.
        """
        self._check_held(run_id, attempt, owner)
        self.write("UPDATE runs SET has_begun = 1, started_at = ? WHERE run_id = ?", (now, run_id))
        if (host or self.host) is not None:
            self.write(
                "UPDATE sessions SET host = ? WHERE host IS NULL"
                " AND session_id = (SELECT session_id FROM runs WHERE run_id = ?)",
                (host or self.host, run_id),
            )

    def end_attempt(self, run_id: str, attempt: int, status: RunStatus, now: str, error_type: str | None) -> None:
        """End a run, once.

        Raises:
            NotHeld: The run has ended, or another worker holds it.
        """
        self._check_held(run_id, attempt)
        self.end_run(run_id, status, now, error_type)

    def end_run(self, run_id: str, status: RunStatus, ended_at: str, error_type: str | None) -> None:
        """Store the end of a run."""
        self.write(
            "UPDATE runs SET status = ?, ended_at = ?, error_type = ? WHERE run_id = ?",
            (status, ended_at, error_type, run_id),
        )

    def give_back(self, run_id: str, attempt: int) -> None:
        """Return a run that has not begun to the queue. Ignore one that has begun or is held by another worker."""
        self.write(
            "UPDATE runs SET status = 'queued', owner = ''"
            " WHERE run_id = ? AND attempt = ? AND status = 'running' AND has_begun = 0",
            (run_id, attempt),
        )

    def request_stop(self, run_id: str) -> RunStatus | None:
        """Request a stop of a run and return its status, or None if there is no such run."""
        rows = self.fetch("UPDATE runs SET stop_wanted = stop_wanted + 1 WHERE run_id = ? RETURNING status", (run_id,))
        return rows[0][0] if rows else None

    def list_states(self, *statuses: RunStatus) -> list[RunState]:
        """Return the runs with one of the statuses, or all, oldest first. Damaged rows go to `damage`."""
        if not statuses:
            return self._states(self.damage, "1 = 1")
        return self._states(self.damage, f"status IN ({', '.join('?' * len(statuses))})", *statuses)

    def find_states(self, beginning: str) -> list[RunState]:
        """Return the run with an id, or the runs whose ids have that prefix, oldest first.

        Raises:
            RowDamaged: One of them is damaged.
        """
        found = self._states(None, "run_id = ?", beginning, whole=True)
        return found or self._states(None, _PREFIXED, beginning, end_of_prefix(beginning), whole=True)

    def search_runs(self, wanted: RunFilter) -> list[RunState]:
        """Return the newest runs that fit a filter, newest first. Damaged rows go to `damage`.

        Large parameters are brief, see `brief_fields`.
        """
        conditions: list[tuple[str, list[object]]] = [(f"{name} = ?", [value]) for name, value in wanted.equal.items()]
        if wanted.before is not None:
            conditions.append(("rowid < ?", [wanted.before]))
        if wanted.agent is not None:
            conditions.append(("session_id IN (SELECT session_id FROM sessions WHERE agent_name = ?)", [wanted.agent]))
        if wanted.text is not None:
            conditions.append(contains(wanted.text, self.tail_sql))
        if wanted.statuses:
            conditions.append((f"status {self.among_sql}", [self.listed(wanted.statuses)]))
        condition = " AND ".join(["1 = 1", *(one for one, _ in conditions), *(ONLY[name] for name in wanted.only)])
        values = [value for _, some in conditions for value in some]
        return self._states(self.damage, condition, *values, tail=f" DESC LIMIT {wanted.limit:d}")

    def _states(
        self, damage: Damage | None, condition: str, *values: object, tail: str = "", whole: bool = False
    ) -> list[RunState]:
        of_session = "FROM sessions WHERE sessions.session_id = runs.session_id"
        columns = (
            f"{RUN_COLUMNS if whole else brief_columns(RUN_COLUMNS, self.beginning_sql)},"
            f" profile, attempt, owner, queued_at, has_begun, stop_wanted, {self.last_seq_sql},"
            f" requires, priority, not_before, (SELECT host {of_session}), succeeds,"
            f" (SELECT agent_name {of_session}), rowid"
        )
        return self.rows("run", (columns, "runs", f"WHERE {condition} ORDER BY rowid{tail}"), values, _state, damage)

    def progress_of(self, session_ids: Sequence[str]) -> dict[str, tuple[object, ...]]:
        """Return for each session a value that changes whenever a run of it is added, changes its status or has events.

        One query for all of them, for watchers of many sessions.
        """
        rows = self.fetch(
            f"SELECT session_id, count(*), sum({self.last_seq_sql}), sum(has_begun), count(ended_at), sum(stop_wanted)"  # noqa: S608
            f" FROM runs WHERE session_id {self.among_sql} GROUP BY session_id",
            (self.listed(session_ids),),
        )
        return {row[0]: tuple(row[1:]) for row in rows}

    def live_runs(self, now: datetime | None = None) -> Live:
        """Return the runs that are not over, in two queries for any size of store. Damaged rows go to `damage`."""
        lately = ((now or datetime.now(UTC)) - LATELY).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        ((queued, running, ended),) = self.fetch(_COUNTS, (lately,))
        runs = []
        for row in self.fetch(_LIVE_RUNS.format(last_seq=self.last_seq_sql, tail=self.tail_sql)):
            try:
                with reading("run", row):
                    runs.append(_live(row))
            except RowDamaged as damaged:
                self.damage.add(damaged)
        return Live(queued, running, ended, tuple(runs))

    def fleet(self) -> Fleet:
        """Return the number of workers, and the load by profile."""
        with self.explaining():
            rows = self.fetch(_LOAD.format(greatest=self.greatest))
            workers = sum(bool(owner.serves) for owner in self.living_owners().values())
        return Fleet(workers, [(profile, queued, running, since) for profile, queued, running, since in rows])

    def last_seq(self, run_id: str) -> int:
        """Return the `seq` of the last stored event of a run; 0 if there is none."""
        rows = self.fetch(f"SELECT {self.last_seq_sql} FROM runs WHERE run_id = ?", (run_id,))  # noqa: S608  # own words
        return int(rows[0][0] or 0) if rows else 0

    def _check_held(self, run_id: str, attempt: int, owner: str | None = None, *, or_ended: bool = False) -> None:
        statement = f"SELECT status, attempt, owner FROM runs WHERE run_id = ?{self.lock_sql}"  # noqa: S608  # own words
        rows = self.fetch(statement, (run_id,))
        if not rows:
            raise NotHeld(run_id, "unknown run")
        ((status, current, current_owner),) = rows
        if current != attempt:
            raise NotHeld(run_id, f"attempt {current} has taken the place of attempt {attempt}")
        if status != "running" and not or_ended:
            raise NotHeld(run_id, f"it is {status}")
        if owner not in {None, current_owner}:
            raise NotHeld(run_id, "another worker performs an attempt with the same number")


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
_LIMITS: Final = """
SELECT kind, name, most, until, (
    SELECT count(*) FROM runs JOIN sessions ON sessions.session_id = runs.session_id WHERE status = 'running'
    AND CASE kind WHEN 'agent' THEN agent_name ELSE runs.profile END = limits.name
) FROM limits WHERE until IS NULL OR until > {now} ORDER BY kind, name
"""
_COPIED_OF_SESSION: Final = (
    "executor_name, executor_path, project_dir, blueprint, executor_config, is_simulated, profile, agent_name,"
    " parent_session_id"
)
_COPIED_OF_RUN: Final = (
    "mode, parameters, contract, profile, timeout_seconds, metadata, model_script, requires, priority, requeue,"
    " parent_session_id, execution_mode, announced"
)
_PREFIXED: Final = "run_id >= ? AND run_id < ?"
_OPEN: Final = "status IN ('queued', 'running')"
_COUNTS: Final = f"""
SELECT (SELECT count(*) FROM runs WHERE {_OPEN} AND status = 'queued'),
       (SELECT count(*) FROM runs WHERE {_OPEN} AND status = 'running'),
       (SELECT count(*) FROM runs WHERE rowid > (SELECT max(rowid) FROM runs) - {MOST_LOOKED_BACK} AND ended_at >= ?)
"""  # noqa: S608  # own numbers
_LOAD: Final = f"""
SELECT profile, sum(queued), sum(1 - queued), min(since) FROM (
    SELECT profile, 1 AS queued, {{greatest}}(queued_at, coalesce(not_before, '')) AS since FROM runs
    WHERE {_OPEN} AND status = 'queued'
    UNION ALL SELECT profile, 0, NULL FROM runs WHERE {_OPEN} AND status = 'running'
) AS open_runs GROUP BY profile ORDER BY profile LIMIT {MOST_PROFILES}
"""  # noqa: S608  # own words
# A tool that works for an hour only sends heartbeats, one per row; the events before them are the ones to show.
_LIVE_RUNS: Final = f"""
SELECT runs.run_id, runs.session_id, agent_name, runs.profile, executor_name, status, attempt, owner,
       coalesce(queued_at, started_at), started_at, stop_wanted, {{last_seq}}, {{tail}}
FROM runs JOIN sessions ON sessions.session_id = runs.session_id
WHERE runs.rowid IN (SELECT rowid FROM runs WHERE {_OPEN} AND status = 'running'
                     UNION ALL
                     SELECT rowid FROM (SELECT rowid FROM runs WHERE {_OPEN} AND status = 'queued'
                                        ORDER BY rowid LIMIT {MOST_WAITING}) AS first_queued)
ORDER BY status DESC, runs.rowid
"""  # noqa: S608  # own names


def _takes_room(rooms: dict[tuple[str, str], int], profile: str, agent_name: str) -> bool:
    """Return whether the limits allow one more run, and count it if they do."""
    keys = [key for key in (("pause", profile), ("profile", profile), ("agent", agent_name)) if key in rooms]
    if any(rooms[key] <= 0 for key in keys):
        return False
    for key in keys:
        rooms[key] -= 1
    return True


def insertion(table: str, values: Sequence[str] | dict[str, object]) -> str:
    """Return the statement that inserts one row with the named columns."""
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608  # own


def end_of_prefix(prefix: str) -> str:
    """Return the least text behind all texts with a prefix, in the order of code points."""
    return f"{prefix}\U0010ffff"


def run_of(row: Row) -> Run:
    """Return the run in a row of `RUN_COLUMNS`.

    Raises:
        RowDamaged: The row contains no valid run.
    """
    run_id, session_id, mode, parameters, started_at, status, ended_at, error_type, contract, *asked = row
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
            parent_session_id=asked[0],
            execution_mode=asked[1],
            input_responses=None if asked[2] is None else json.loads(asked[2]),
        )


def claimed_of(row: Row) -> ClaimedRun:
    """Return the run in a row of `CLAIMED_COLUMNS`.

    Raises:
        RowDamaged: The row contains no valid run.
    """
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


def _state(row: Row) -> RunState:
    profile, attempt, owner, queued_at, has_begun, stop_wanted, last_seq, *rest = row[RUN_WIDTH:]
    with reading("run", row):
        run = run_of(row[:RUN_WIDTH])
        requires, priority, not_before, host, succeeds, agent_name, number = rest
        placement = Placement(tuple(json.loads(requires)), priority, not_before)
    return RunState(
        run=run,
        profile=profile,
        attempt=attempt,
        owner=owner,
        queued_at=queued_at,
        has_begun=bool(has_begun),
        stop_wanted=bool(stop_wanted),
        last_seq=last_seq or 0,
        placement=placement,
        host=host,
        succeeds=succeeds,
        agent_name=agent_name or "",
        number=number,
    )


def _live(row: Row) -> LiveRun:
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

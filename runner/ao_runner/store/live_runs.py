"""What goes on in a store now: the runs that wait and run, how each stands, and what it said last. For `ao top`."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ao_runner.store.records import RunStatus
from ao_runner.store.rows import Damage, RowDamaged, reading

LATELY: Final = timedelta(minutes=1)
MOST_WAITING: Final = 50
"""So many of those that wait are listed; all are counted."""
MOST_LOOKED_BACK: Final = 10_000
"""Whether a run has ended lately is asked of so many, the newest, so that a store of years costs no more."""
TAIL_CHARACTERS: Final = 64 * 1024
"""So much of the end of what a run said last is read."""

_COUNTS: Final = f"""
SELECT (SELECT count(*) FROM runs WHERE status IN ('queued', 'running') AND status = 'queued'),
       (SELECT count(*) FROM runs WHERE status IN ('queued', 'running') AND status = 'running'),
       (SELECT count(*) FROM runs WHERE rowid > (SELECT max(rowid) FROM runs) - {MOST_LOOKED_BACK} AND ended_at >= ?)
"""  # noqa: S608  # own numbers
_COLUMNS: Final = (
    "rowid AS number, run_id, session_id, profile, status, attempt, owner, queued_at, started_at, stop_wanted FROM runs"
    " WHERE status IN ('queued', 'running')"
)
# A tool that works for an hour says nothing but heartbeats, one a row: what counts is what stands before them.
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


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is not over. `since` is when it began, or was put into the queue."""

    run_id: str
    session_id: str
    agent_name: str
    profile: str
    status: RunStatus
    attempt: int
    owner: str
    since: str
    is_stopping: bool
    events: int
    last_lines: tuple[str, ...]
    """Some of its last events as JSON lines; none where the last one is too long to look at."""


@dataclass(frozen=True, slots=True)
class Live:
    """How things stand: all runs that run, the first of those that wait, and how many there are."""

    queued: int
    running: int
    ended_lately: int
    runs: tuple[LiveRun, ...]


def look(connection: sqlite3.Connection, damage: Damage, now: datetime | None = None) -> Live:
    """Look once: two queries, whatever the store holds. Damaged runs go to `damage`."""
    lately = ((now or datetime.now(UTC)) - LATELY).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    queued, running, ended = connection.execute(_COUNTS, (lately,)).fetchone()
    runs = []
    for row in connection.execute(_RUNS):
        try:
            with reading("run", row):
                runs.append(_live(row))
        except RowDamaged as damaged:
            damage.add(damaged)
    return Live(queued, running, ended, tuple(runs))


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
        last_lines=_whole_lines(tail or ""),
    )


def _whole_lines(tail: str) -> tuple[str, ...]:
    lines = tail.split("\n")
    return tuple(lines if len(tail) < TAIL_CHARACTERS else lines[1:])

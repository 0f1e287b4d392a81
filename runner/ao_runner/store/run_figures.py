"""What runs have cost, how many there are, and where their events begin: figures for people who look at many runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ao_protocol.events import UsageFigures
from ao_runner.store.columns import FLAG, Codec, Stored
from ao_runner.store.engine import Part
from ao_runner.store.records import TAIL_CHARACTERS, RunStatus, timestamp
from ao_runner.store.run_filter import OF_NEWEST

LATELY: Final = timedelta(minutes=1)
MOST_WAITING: Final = 50
"""Maximum number of queued runs to list; all are counted."""
MOST_LOOKED_BACK: Final = 10_000
"""Number of newest runs to check for a recent end, so that an old store costs no more."""


def _whole_lines(_: str, tail: str) -> tuple[str, ...]:
    """Return the lines of a tail of events, without the first one, of which only the end may be there."""
    return tuple(tail.split("\n")[len(tail) >= TAIL_CHARACTERS :])


_TAIL: Final[dict[str, object]] = {"codec": Codec("\n".join, _whole_lines)}


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
    is_stopping: bool = field(metadata=FLAG)
    events: int
    last_lines: tuple[str, ...] = field(metadata=_TAIL)
    """Some of its last events as JSON lines; empty if the last one is too long to read."""


@dataclass(frozen=True, slots=True)
class Live:
    """The current state: all active runs, the first queued ones, and the counts of both."""

    queued: int
    running: int
    ended_lately: int
    runs: tuple[LiveRun, ...]
    now: datetime
    """The time of the store's clock."""


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The figures of a run that has ended. Cost and tokens are None if its executor reported none."""

    agent_name: str
    profile: str | None
    model: str | None
    """The model that its agent or its request names."""
    error_type: str | None
    started_at: str
    ended_at: str
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None


_LIVE: Final = Stored("run", LiveRun)


class RunFigures(Part):
    """The figures about runs. Each query is bounded."""

    def live(self) -> Live:
        """Return the runs that are not over, in two queries for any size of store. Damaged rows go to `damage`."""
        now = self._db.now()
        ((queued, running, ended),) = self._db.fetch(_COUNTS, (timestamp(now - LATELY),))
        expressions = {
            "session_id": "runs.session_id",
            "agent_name": "coalesce(agent_name, '')",
            "profile": "coalesce(runs.profile, executor_name)",
            "since": "CASE status WHEN 'queued' THEN coalesce(queued_at, started_at) ELSE started_at END",
            "is_stopping": "CASE WHEN stop_wanted > 0 AND status = 'running' THEN 1 ELSE 0 END",
            "events": f"coalesce({self._db.last_seq_sql}, 0)",
            "last_lines": f"coalesce({self._db.tail_sql}, '')",
        }
        return Live(queued, running, ended, tuple(self._db.records(_LIVE, _LIVE_RUNS, (), expressions)), now)

    def usage_of(self, run_ids: Sequence[str]) -> dict[str, UsageFigures]:
        """Return what runs have used. Those that reported nothing are absent."""
        rows = self._db.fetch(
            "SELECT run_id, cost_usd, input_tokens, output_tokens FROM runs"  # noqa: S608  # own words
            f" WHERE run_id {self._db.among_sql} AND input_tokens IS NOT NULL",
            (self._db.listed(run_ids),),
        )
        return {
            run_id: UsageFigures(cost_usd=cost, input_tokens=received, output_tokens=sent)
            for run_id, cost, received, sent in rows
        }

    def ended_runs(self, since: str = "") -> list[EndedRun]:
        """Return the figures of the newest runs that have ended, since a time if one is given, newest first."""
        rows = self._db.fetch(
            f"SELECT agent_name, runs.profile, {self._db.model_sql}, error_type, started_at, ended_at,"  # noqa: S608  # own words
            " cost_usd, input_tokens, output_tokens FROM runs"
            f" JOIN sessions ON sessions.session_id = runs.session_id WHERE {OF_NEWEST} AND ended_at IS NOT NULL"
            " AND ended_at >= ? ORDER BY runs.rowid DESC",
            (since,),
        )
        return [EndedRun(agent_name or "", *figures) for agent_name, *figures in rows]

    def count_by_status(self) -> dict[str, int]:
        """Return the number of runs by status, of the newest runs."""
        rows = self._db.fetch(f"SELECT status, count(*) FROM runs WHERE {OF_NEWEST} GROUP BY status")  # noqa: S608  # own
        return {status: int(count) for status, count in rows}

    def count_by_agent(self) -> dict[str, int]:
        """Return the number of runs by the name of their agent, of the newest runs."""
        rows = self._db.fetch(
            "SELECT agent_name, count(*) FROM runs JOIN sessions ON sessions.session_id = runs.session_id"  # noqa: S608
            f" WHERE {OF_NEWEST} GROUP BY agent_name"
        )
        return {name or "": int(count) for name, count in rows}


OPEN: Final = "status IN ('queued', 'running')"
_COUNTS: Final = f"""
SELECT (SELECT count(*) FROM runs WHERE {OPEN} AND status = 'queued'),
       (SELECT count(*) FROM runs WHERE {OPEN} AND status = 'running'),
       (SELECT count(*) FROM runs WHERE rowid > (SELECT max(rowid) FROM runs) - {MOST_LOOKED_BACK} AND ended_at >= ?)
"""  # noqa: S608  # own numbers
# A tool that works for an hour only sends heartbeats, one per row; the events before them are the ones to show.
_LIVE_RUNS: Final = f"""
runs JOIN sessions ON sessions.session_id = runs.session_id
WHERE runs.rowid IN (SELECT rowid FROM runs WHERE {OPEN} AND status = 'running'
                     UNION ALL
                     SELECT rowid FROM (SELECT rowid FROM runs WHERE {OPEN} AND status = 'queued'
                                        ORDER BY rowid LIMIT {MOST_WAITING}) AS first_queued)
ORDER BY status DESC, runs.rowid
"""  # noqa: S608  # own names

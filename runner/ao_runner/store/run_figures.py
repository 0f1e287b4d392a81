"""What runs have cost, how many there are, and where their events begin: figures for people who look at many runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ao_protocol.events import UsageFigures
from ao_protocol.raw_events import events_of_types
from ao_runner.store.engine import Engine

NEWEST_RUNS: Final = 10_000
"""Number of newest runs that figures are about, so that an old store costs no more."""
ONLY: Final = {
    "last": "NOT EXISTS (SELECT 1 FROM runs AS o WHERE o.session_id = runs.session_id AND o.rowid > runs.rowid)",
    "unrepeated": "NOT EXISTS (SELECT 1 FROM runs AS o WHERE o.succeeds = runs.run_id)",
}
"""The SQL conditions of `RunFilter.only`."""
RUNS_WITH_RESULTS: Final = 5_000
"""Number of newest runs whose ends are searched."""
_OF_NEWEST: Final = f"runs.rowid > (SELECT max(rowid) FROM runs) - {NEWEST_RUNS}"  # noqa: S608  # own words


def contains(text: str, end_of_events: str) -> tuple[str, list[object]]:
    """Return the SQL condition that a run contains a text, in any case of letters, and the values for its marks.

    It is looked for in the parameters, and in the last stored events of the newest runs, if they have ended.
    """
    escaped, plain = (_pattern(text, is_ascii=is_ascii) for is_ascii in (True, False))
    patterns = [*dict.fromkeys([escaped, plain])]  # executors write events with and without escapes
    ends = " OR ".join([f"lower({end_of_events}) LIKE ? ESCAPE '!'"] * len(patterns))
    newest = f"runs.rowid > (SELECT max(rowid) FROM runs) - {RUNS_WITH_RESULTS} AND ended_at IS NOT NULL"  # noqa: S608
    return f"(lower(parameters) LIKE ? ESCAPE '!' OR {newest} AND ({ends}))", [escaped, *patterns]


def _pattern(text: str, *, is_ascii: bool) -> str:
    """Return the pattern of LIKE for JSON that contains a text, in lower case."""
    written = json.dumps(text.lower(), ensure_ascii=is_ascii)[1:-1]
    for special in "!%_":
        written = written.replace(special, f"!{special}")
    return f"%{written}%"


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The figures of a run that has ended. Cost and tokens are None if its executor reported none."""

    agent_name: str
    started_at: str
    ended_at: str
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None


class RunFigures(Engine):
    """The queries for figures about runs. Each is bounded."""

    def record_usage(self, run_id: str, usage: UsageFigures | None) -> None:
        """Store what a run has used, as a step of the transaction that stores the event that tells it."""
        if usage is not None:
            self.write(
                "UPDATE runs SET cost_usd = ?, input_tokens = ?, output_tokens = ? WHERE run_id = ?",
                (usage.cost_usd, usage.input_tokens, usage.output_tokens, run_id),
            )

    def note_usage(self, run_id: str, lines: Sequence[bytes]) -> None:
        """Store what the last `usage` event among some events of a run tells; its end need not tell it."""
        last = next(events_of_types(lines[::-1], {"usage"}), None)
        self.record_usage(run_id, None if last is None else UsageFigures.model_validate(last))

    def usage_of(self, run_ids: Sequence[str]) -> dict[str, UsageFigures]:
        """Return what runs have used. Those that reported nothing are absent."""
        rows = self.fetch(
            "SELECT run_id, cost_usd, input_tokens, output_tokens FROM runs"  # noqa: S608  # own words
            f" WHERE run_id {self.among_sql} AND input_tokens IS NOT NULL",
            (self.listed(run_ids),),
        )
        return {
            run_id: UsageFigures(cost_usd=cost, input_tokens=received, output_tokens=sent)
            for run_id, cost, received, sent in rows
        }

    def ended_runs(self) -> list[EndedRun]:
        """Return the figures of the newest runs that have ended, newest first."""
        rows = self.fetch(
            "SELECT agent_name, started_at, ended_at, cost_usd, input_tokens, output_tokens FROM runs"  # noqa: S608
            f" JOIN sessions ON sessions.session_id = runs.session_id WHERE {_OF_NEWEST} AND ended_at IS NOT NULL"
            " ORDER BY runs.rowid DESC"
        )
        return [EndedRun(agent_name or "", *figures) for agent_name, *figures in rows]

    def count_runs(self) -> dict[str, int]:
        """Return the number of runs by status, of the newest runs."""
        rows = self.fetch(f"SELECT status, count(*) FROM runs WHERE {_OF_NEWEST} GROUP BY status")  # noqa: S608  # own
        return {status: int(count) for status, count in rows}

    def count_runs_of_agents(self) -> dict[str, int]:
        """Return the number of runs by the name of their agent, of the newest runs."""
        rows = self.fetch(
            "SELECT agent_name, count(*) FROM runs JOIN sessions ON sessions.session_id = runs.session_id"  # noqa: S608
            f" WHERE {_OF_NEWEST} GROUP BY agent_name"
        )
        return {name or "": int(count) for name, count in rows}

    def note_repetition(self, run_id: str, of_run_id: str) -> None:
        """Store that a run repeats another one, which has ended, in the column for copies after a usage limit."""
        self.write("UPDATE runs SET succeeds = ? WHERE run_id = ?", (of_run_id, run_id))

    def children_of(self, session_id: str, most: int) -> list[str]:
        """Return the first sessions that a session has started."""
        rows = self.fetch(
            "SELECT session_id FROM sessions WHERE parent_session_id = ? ORDER BY created_at, session_id LIMIT ?",
            (session_id, most),
        )
        return [child for (child,) in rows]

    def lines_with(self, run_id: str, part: str) -> list[str]:
        """Return the events of a run that contain a text, in order."""
        rows = self.fetch(
            "SELECT line FROM events WHERE run_id = ? AND line LIKE ? ORDER BY seq", (run_id, f"%{part}%")
        )
        return [line for (lines,) in rows for line in lines.split("\n") if part in line]

    def position_of(self, run_id: str, seq: int) -> int:
        """Return the position of an event of a run; 0 if it is not stored."""
        rows = self.fetch(
            "SELECT position FROM events WHERE run_id = ? AND seq <= ? ORDER BY seq DESC LIMIT 1", (run_id, seq)
        )
        return int(rows[0][0]) if rows else 0

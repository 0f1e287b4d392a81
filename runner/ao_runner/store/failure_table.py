"""Failed runs that need a person, those of one agent with the same type of error together, and those set aside."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from ao_protocol.wire import JsonObject
from ao_runner.store.engine import Part
from ao_runner.store.run_filter import OF_NEWEST, ONLY

LATELY: Final = timedelta(days=7)
"""For how long a failure needs a person."""
MOST_GROUPS: Final = 100


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failed runs of one agent with the same type of error."""

    agent_name: str
    error_type: str
    runs: int
    newest: str
    """The id of the newest of these runs."""


class FailureTable(Part):
    """The failures: last runs of their sessions that nobody has repeated, among the newest runs."""

    def groups(self, since: str, parked: Collection[str] = (), *, are_aside: bool = False) -> list[FailureGroup]:
        """Return some groups of failures, the one with the newest run first.

        Args:
            since: The earliest time at which they ended.
            parked: Failed runs to leave out.
            are_aside: Whether to return those that were set aside instead of the others.
        """
        rows = self._db.fetch(
            f"SELECT {_AGENT}, {_ERROR}, count(*), max(runs.rowid) FROM {_FAILURES}"  # noqa: S608  # own words
            f" AND {_ASIDE[are_aside]} AND NOT (run_id {self._db.among_sql})"
            f" GROUP BY {_AGENT}, {_ERROR} ORDER BY max(runs.rowid) DESC LIMIT {MOST_GROUPS}",
            (since, self._db.listed([*parked])),
        )
        numbers = ", ".join(str(int(number)) for *_, number in rows) or "0"
        found = self._db.fetch(f"SELECT rowid, run_id FROM runs WHERE rowid IN ({numbers})")  # noqa: S608  # numbers
        ids = {number: str(run_id) for number, run_id in found}
        return [FailureGroup(agent, error, int(count), ids[number]) for agent, error, count, number in rows]

    def alike(self, run_id: str, since: str, *, are_aside: bool = False) -> list[str]:
        """Return the runs of the group of a run up to it, newest first: what somebody saw who saw it as the newest."""
        alike = f"SELECT {_AGENT}, {_ERROR}, runs.rowid FROM {_JOINED} WHERE run_id = ?"  # noqa: S608  # own words
        if not (known := self._db.fetch(alike, (run_id,))):
            return []
        rows = self._db.fetch(
            f"SELECT run_id FROM {_FAILURES} AND {_ASIDE[are_aside]} AND {_AGENT} = ? AND {_ERROR} = ?"  # noqa: S608
            " AND runs.rowid <= ? ORDER BY runs.rowid DESC",
            (since, *known[0]),
        )
        return [str(found) for (found,) in rows]

    def set_aside(self, run_ids: Collection[str], aside: JsonObject | None) -> None:
        """Set runs aside with `note` and `at`, as a step of a transaction; None takes them back."""
        text = None if aside is None else json.dumps(aside)
        condition = f"run_id {self._db.among_sql}"
        self._db.write(f"UPDATE runs SET aside = ? WHERE {condition}", (text, self._db.listed(run_ids)))  # noqa: S608


_AGENT: Final = "coalesce(sessions.agent_name, '')"
_ERROR: Final = "coalesce(error_type, '')"
_JOINED: Final = "runs JOIN sessions ON sessions.session_id = runs.session_id"
_FAILURES: Final = (
    f"{_JOINED} WHERE status = 'failed' AND coalesce(ended_at, started_at) >= ?"
    f" AND {OF_NEWEST} AND {ONLY['last']} AND {ONLY['unrepeated']}"
)
_ASIDE: Final = {True: "aside IS NOT NULL", False: "aside IS NULL"}

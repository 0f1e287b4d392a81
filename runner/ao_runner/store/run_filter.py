"""Which runs to search for, and the SQL condition that fits them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ao_runner.store.engine import Engine
from ao_runner.store.records import RunStatus
from ao_runner.store.run_table import UNREPEATED

SortKey = Literal["state", "agent", "profile", "cost", "took"]
NEWEST_RUNS: Final = 10_000
"""Number of newest runs that figures are about, so that an old store costs no more."""
ONLY: Final = {
    "last": "NOT EXISTS (SELECT 1 FROM runs AS o WHERE o.session_id = runs.session_id AND o.rowid > runs.rowid)",
    "unrepeated": UNREPEATED,
}
"""The SQL conditions of `RunFilter.only`."""
RUNS_WITH_RESULTS: Final = 5_000
"""Number of newest runs whose ends are searched."""
PARTS: Final = {
    "agent_name": "session_id IN (SELECT session_id FROM sessions WHERE lower(agent_name) LIKE ? ESCAPE '!')",
    "profile": "lower(profile) LIKE ? ESCAPE '!'",
}
"""The SQL conditions of `RunFilter.parts`."""
SORTED: Final[Mapping[SortKey, str]] = {
    "state": "status",
    "agent": "(SELECT lower(agent_name) FROM sessions WHERE sessions.session_id = runs.session_id)",
    "profile": "lower(profile)",
    "cost": "cost_usd",
    "took": "CASE WHEN has_begun = 1 THEN {seconds} END",
}
"""The SQL expressions of `RunFilter.order`."""
OF_NEWEST: Final = f"runs.rowid > (SELECT max(rowid) FROM runs) - {NEWEST_RUNS}"  # noqa: S608  # own words


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to search for. A run has to fit all that is set."""

    statuses: tuple[RunStatus, ...] = ()
    agent: str | None = None
    parts: Mapping[Literal["agent_name", "profile"], str] = field(default_factory=dict)
    """Parts of names, in any case of letters."""
    since: str | None = None
    """Only runs that were asked for at this time or later, as a timestamp."""
    until: str | None = None
    """Only runs that were asked for before this time, as a timestamp."""
    equal: Mapping[Literal["profile", "session_id", "parent_session_id", "run_id", "batch_id", "error_type"], str] = (
        field(default_factory=dict)
    )
    labels: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    """Part of the parameters, or of the end of one of the newest runs, in any case of letters."""
    before: int | None = None
    """Only runs with a smaller `RunState.number`."""
    limit: int = 50
    only: tuple[Literal["last", "unrepeated"], ...] = ()
    """Only the last run of each session; only runs that no other one repeats."""
    order: SortKey | None = None
    """What to sort the newest runs by; None for the order in which they were added, newest first."""
    is_rising: bool = False
    """Whether the smallest value, or the oldest run, comes first. Runs without a value come last in any case."""
    skip: int = 0
    """How many of the runs that fit are left out at the beginning."""


def condition_of(wanted: RunFilter, engine: Engine) -> tuple[str, list[object]]:
    """Return the SQL condition of a filter, and the values for its marks."""
    conditions: list[tuple[str, list[object]]] = [(f"{name} = ?", [value]) for name, value in wanted.equal.items()]
    if wanted.before is not None:
        conditions.append(("rowid < ?", [wanted.before]))
    if wanted.agent is not None:
        conditions.append(("session_id IN (SELECT session_id FROM sessions WHERE agent_name = ?)", [wanted.agent]))
    if wanted.since is not None:
        conditions.append(("coalesce(queued_at, started_at) >= ?", [wanted.since]))
    if wanted.until is not None:
        conditions.append(("coalesce(queued_at, started_at) < ?", [wanted.until]))
    for name, part in wanted.parts.items():
        conditions.append((PARTS[name], [part_of(part)]))
    if wanted.text is not None:
        conditions.append(contains(wanted.text, engine.tail_sql))
    # Quotes in a text are escaped, so that a pair is found as a whole only.
    pairs = [json.dumps({name: text})[1:-1] for name, text in wanted.labels.items()]
    conditions += [("replace(labels, ?, '') <> labels", [pair]) for pair in pairs]
    if wanted.statuses:
        conditions.append((f"status {engine.among_sql}", [engine.listed(wanted.statuses)]))
    condition = " AND ".join(["1 = 1", *(one for one, _ in conditions), *(ONLY[name] for name in wanted.only)])
    values = [value for _, some in conditions for value in some]
    return condition, values


def contains(text: str, end_of_events: str) -> tuple[str, list[object]]:
    """Return the SQL condition that a run contains a text, in any case of letters, and the values for its marks.

    It is looked for in parameters, in metadata, and in the last stored events of the newest runs that have ended.
    """
    escaped, plain = (_pattern(text, is_ascii=is_ascii) for is_ascii in (True, False))
    patterns = [*dict.fromkeys([escaped, plain])]  # executors write events with and without escapes
    ends = " OR ".join([f"lower({end_of_events}) LIKE ? ESCAPE '!'"] * len(patterns))
    newest = f"runs.rowid > (SELECT max(rowid) FROM runs) - {RUNS_WITH_RESULTS} AND ended_at IS NOT NULL"  # noqa: S608
    asked = "(lower(parameters) LIKE ? ESCAPE '!' OR lower(coalesce(metadata, '')) LIKE ? ESCAPE '!'"
    return f"{asked} OR {newest} AND ({ends}))", [escaped, escaped, *patterns]


def _pattern(text: str, *, is_ascii: bool) -> str:
    """Return the pattern of LIKE for JSON that contains a text, in lower case."""
    return part_of(json.dumps(text.lower(), ensure_ascii=is_ascii)[1:-1])


def part_of(text: str) -> str:
    """Return the pattern of LIKE for what contains a text, in lower case."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text.lower()}%"

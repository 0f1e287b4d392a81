"""The limits on running runs in a store."""

from dataclasses import dataclass
from typing import Final, Literal

from ao_runner.store.columns import Row
from ao_runner.store.engine import Part


@dataclass(frozen=True, slots=True)
class RunLimit:
    """The most runs of an agent or of a profile that may run at a time, on all hosts together.

    A `pause` is a limit of 0 on a profile until a time, because of a usage limit of its provider.
    """

    kind: Literal["agent", "profile", "pause"]
    name: str
    most: int
    until: str | None = None
    running: int = 0


class LimitTable(Part):
    """The limits: how many runs of an agent or of a profile may run at a time."""

    def all(self) -> list[RunLimit]:
        """Return the limits, with the number of runs that count."""
        return [RunLimit(*row) for row in self._db.fetch(_LIMITS.format(now=self._db.now_sql))]

    def put(self, limit: RunLimit) -> None:
        """Store a limit, or replace that of the same agent or profile. A changed one is told of again."""
        self._db.write(
            "INSERT INTO limits (kind, name, most, until) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (kind, name) DO UPDATE SET most = excluded.most, until = excluded.until, told = CASE WHEN"
            " limits.most = excluded.most AND coalesce(limits.until, '') = coalesce(excluded.until, '')"
            " THEN limits.told END",
            (limit.kind, limit.name, limit.most, limit.until),
        )

    def are_untold(self, now: str) -> bool:
        """Return whether a profile is paused and nobody was told of it."""
        return bool(self._db.fetch(f"SELECT 1 FROM limits WHERE {_UNTOLD} LIMIT 1", (now,)))  # noqa: S608  # own words

    def mark_untold(self, now: str) -> list[Row]:
        """Mark the pauses of profiles that nobody was told of, and return the name and the end of each."""
        return self._db.fetch(f"UPDATE limits SET told = 1 WHERE {_UNTOLD} RETURNING name, until", (now,))  # noqa: S608

    def remove(self, kind: str, name: str) -> bool:
        """Remove a limit, and return whether there was one."""
        return self._db.write("DELETE FROM limits WHERE kind = ? AND name = ?", (kind, name)) > 0


_UNTOLD: Final = "told IS NULL AND kind <> 'agent' AND most = 0 AND (until IS NULL OR until > ?)"
_LIMITS: Final = """
SELECT kind, name, most, until, (
    SELECT count(*) FROM runs JOIN sessions ON sessions.session_id = runs.session_id WHERE status = 'running'
    AND CASE kind WHEN 'agent' THEN agent_name ELSE runs.profile END = limits.name
) FROM limits WHERE until IS NULL OR until > {now} ORDER BY kind, name
"""

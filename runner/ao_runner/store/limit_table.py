"""The limits on running runs in a store."""

from typing import Final

from ao_runner.store.engine import Part
from ao_runner.store.records import RunLimit


class LimitTable(Part):
    """The limits: how many runs of an agent or of a profile may run at a time."""

    def all(self) -> list[RunLimit]:
        """Return the limits, with the number of runs that count."""
        return [RunLimit(*row) for row in self._db.fetch(_LIMITS.format(now=self._db.now_sql))]

    def put(self, limit: RunLimit) -> None:
        """Store a limit, or replace that of the same agent or profile."""
        self._db.write(
            "INSERT INTO limits (kind, name, most, until) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (kind, name) DO UPDATE SET most = excluded.most, until = excluded.until",
            (limit.kind, limit.name, limit.most, limit.until),
        )

    def remove(self, kind: str, name: str) -> bool:
        """Remove a limit, and return whether there was one."""
        return self._db.write("DELETE FROM limits WHERE kind = ? AND name = ?", (kind, name)) > 0


_LIMITS: Final = """
SELECT kind, name, most, until, (
    SELECT count(*) FROM runs JOIN sessions ON sessions.session_id = runs.session_id WHERE status = 'running'
    AND CASE kind WHEN 'agent' THEN agent_name ELSE runs.profile END = limits.name
) FROM limits WHERE until IS NULL OR until > {now} ORDER BY kind, name
"""

"""The deletion of sessions from a store, with all that belongs to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from ao_runner.store.deliveries import DeliveryTable
from ao_runner.store.engine import Part
from ao_runner.store.store_errors import SessionsOpen

SESSIONS_AT_ONCE: Final = 20
"""Maximum number of old sessions to delete in one transaction, so that a concurrent worker can write in between."""

_HAS_OPEN_RUN: Final = (
    "EXISTS (SELECT 1 FROM runs WHERE runs.session_id = sessions.session_id AND status IN ('queued', 'running'))"
)


@dataclass(frozen=True, slots=True)
class DeletableSession:
    """A summary of a session that may be deleted. The session may be damaged."""

    session_id: str
    agent_name: str
    runs: int
    last_activity: str
    """When its last run began or ended."""


@dataclass(eq=False)
class Deletions(Part):
    """The deletions, each in one transaction: what belongs to a session is deleted with it."""

    _deliveries: DeliveryTable

    def delete(self, session_ids: Sequence[str], *, dry_run: bool = False) -> list[DeletableSession]:
        """Delete sessions in one transaction and return a summary of each.

        Raises:
            SessionsOpen: One of them has an unfinished run; nothing was deleted.
            StoreUnwritable: The store cannot be written now; nothing was deleted.
        """
        return self._delete([*dict.fromkeys(session_ids)], "WHERE session_id = ?", (), dry_run=dry_run)

    def prune(self, older_than: datetime, *, dry_run: bool = False) -> list[DeletableSession]:
        """Delete the sessions without an open run whose last activity precedes a time; return a summary of each.

        Each session is deleted completely or not at all.

        Raises:
            StoreUnwritable: The store became unwritable; earlier deletions remain.
        """
        before = older_than.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        clause = f"WHERE NOT {_HAS_OPEN_RUN} AND {self._last_activity} < ?"
        found = self._db.fetch(f"SELECT session_id FROM sessions {clause} ORDER BY rowid", (before,))  # noqa: S608  # own
        remaining = iter([session_id for (session_id,) in found])
        pruned: list[DeletableSession] = []
        while some := list(islice(remaining, SESSIONS_AT_ONCE)):
            # Checked again in the transaction, since a run may have been added meanwhile.
            pruned += self._delete(some, f"{clause} AND session_id = ?", (before,), dry_run=dry_run)
        return pruned

    @property
    def _last_activity(self) -> str:
        of_a_run = f"{self._db.greatest}(started_at, coalesce(ended_at, ''))"
        newest = f"(SELECT max({of_a_run}) FROM runs WHERE runs.session_id = sessions.session_id)"  # noqa: S608  # own
        return f"{self._db.greatest}(created_at, coalesce({newest}, ''))"

    def _delete(
        self, session_ids: Sequence[str], clause: str, values: Sequence[str], *, dry_run: bool
    ) -> list[DeletableSession]:
        statement = (
            "SELECT session_id, agent_name,"  # noqa: S608  # own words
            " (SELECT count(*) FROM runs WHERE runs.session_id = sessions.session_id),"
            f" {self._last_activity}, {_HAS_OPEN_RUN} FROM sessions {clause}"
        )
        self._db.overwrite_what_is_deleted()
        with self._db.transaction():
            rows = [row for one in session_ids for row in self._db.fetch(statement, (*values, one))]
            if still_open := [row[0] for row in rows if row[-1]]:
                raise SessionsOpen(still_open)
            for row in [] if dry_run else rows:
                self._deliveries.forget(row[0])
                self._db.write(
                    "DELETE FROM inputs WHERE run_id IN (SELECT run_id FROM runs WHERE session_id = ?)", row[:1]
                )
                self._db.write(
                    "DELETE FROM events WHERE run_id IN (SELECT run_id FROM runs WHERE session_id = ?)", row[:1]
                )
                self._db.write("DELETE FROM runs WHERE session_id = ?", row[:1])
                self._db.write("DELETE FROM sessions WHERE session_id = ?", row[:1])
        return [DeletableSession(*row[:-1]) for row in rows]

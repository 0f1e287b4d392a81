"""The sessions of a store."""

from collections.abc import Collection, Sequence
from typing import Final

from ao_runner.store.columns import Row, Stored
from ao_runner.store.engine import Part, end_of_prefix
from ao_runner.store.records import LAST, Session
from ao_runner.store.store_errors import SessionUnknown

SESSION: Final = Stored("session", Session)


class SessionTable(Part):
    """The sessions: one row for each conversation."""

    def add(self, *sessions: Session) -> None:
        """Store new sessions."""
        self._db.insert("sessions", *(SESSION.values(one) | {"agent_name": one.agent_name} for one in sessions))

    def exists(self, session_id: str) -> bool:
        """Return whether a session has exactly this id."""
        return bool(self._db.fetch("SELECT 1 FROM sessions WHERE session_id = ?", (session_id,)))

    def set_parent(self, session_id: str, parent_session_id: str) -> None:
        """Store who has asked for the last run of a session."""
        self._db.write(
            "UPDATE sessions SET parent_session_id = ? WHERE session_id = ?", (parent_session_id, session_id)
        )

    def place(self, session_id: str, profile: str | None, project_dir: str | None) -> None:
        """Store the profile and the folder of a session's next runs; those that are None stay."""
        self._db.write(
            "UPDATE sessions SET profile = coalesce(?, profile), project_dir = coalesce(?, project_dir)"
            " WHERE session_id = ?",
            (profile, project_dir, session_id),
        )

    def bind(self, session_id: str, executor_session_id: str) -> None:
        """Store the executor's own id of a session. One with NUL is left out: PostgreSQL cannot store it."""
        if "\0" in executor_session_id:
            return
        self._db.write(
            "UPDATE sessions SET executor_session_id = ? WHERE session_id = ?", (executor_session_id, session_id)
        )

    def resolve(self, wanted: str) -> tuple[str, str | None]:
        """Return the session that an id refers to, and the run if it is the id of one.

        The id is that of a session or run, a unique prefix of one, or `last`: the session of the newest run.

        Raises:
            SessionUnknown: There is no match, or more than one.
        """
        if wanted == LAST:
            found = self._db.fetch("SELECT session_id, NULL FROM runs ORDER BY rowid DESC LIMIT 1")
        else:
            found = self._ids("{} = ?", wanted)
            if not found and wanted:
                found = self._ids("{} >= ? AND {} < ?", wanted, end_of_prefix(wanted))
        if len(found) != 1:
            raise SessionUnknown(wanted, [run_id or session_id for session_id, run_id in found])
        ((session_id, run_id),) = found
        return session_id, run_id

    def _ids(self, condition: str, *values: str) -> list[Row]:
        return self._db.fetch(
            f"SELECT session_id, NULL FROM sessions WHERE {condition.replace('{}', 'session_id')}"  # noqa: S608  # own
            f" UNION ALL SELECT session_id, run_id FROM runs WHERE {condition.replace('{}', 'run_id')} LIMIT 5",
            (*values, *values),
        )

    def find(self, wanted: str) -> Session:
        """Return the session that the id of a session or run refers to; see `resolve`.

        Raises:
            SessionUnknown: There is no match, or more than one.
            RowDamaged: The session cannot be read.
        """
        session_id, _ = self.resolve(wanted)
        if (found := self._db.record(SESSION, "sessions WHERE session_id = ?", (session_id,))) is None:
            raise SessionUnknown(wanted)
        return found

    def by_id(self, session_ids: Collection[str]) -> dict[str, Session]:
        """Return sessions by their exact ids, in one query. Unknown ones are absent; damaged rows go to `damage`."""
        source = f"sessions WHERE session_id {self._db.among_sql}"
        found = self._db.records(SESSION, source, (self._db.listed(session_ids),))
        return {session.session_id: session for session in found}

    def all(self) -> list[Session]:
        """Return every session, the one with the newest run first."""
        newest = "coalesce((SELECT max(rowid) FROM runs WHERE runs.session_id = sessions.session_id), 0)"
        return self._db.records(SESSION, f"sessions ORDER BY {newest} DESC, rowid DESC")

    def after(self, session_id: str, most: int) -> list[Session]:
        """Return the first sessions behind an id, in the order of their ids, in which none moves."""
        source = f"sessions WHERE session_id > ? ORDER BY session_id LIMIT {most:d}"
        return self._db.records(SESSION, source, (session_id,))

    def children_of(self, session_id: str, most: int) -> list[str]:
        """Return the first sessions that a session has started."""
        rows = self._db.fetch(
            "SELECT session_id FROM sessions WHERE parent_session_id = ? ORDER BY created_at, session_id LIMIT ?",
            (session_id, most),
        )
        return [child for (child,) in rows]

    def progress_of(self, session_ids: Sequence[str]) -> dict[str, tuple[object, ...]]:
        """Return for each session a value that changes whenever one of its runs is added, changes or has events.

        The last element is the number of runs that have their records.

        One query for all of them, for watchers of many sessions.
        """
        rows = self._db.fetch(
            f"SELECT session_id, count(*), sum({self._db.last_seq_sql}), sum(has_begun), count(ended_at),"  # noqa: S608
            f" sum(stop_wanted), count(record) FROM runs WHERE session_id {self._db.among_sql} GROUP BY session_id",
            (self._db.listed(session_ids),),
        )
        return {row[0]: tuple(row[1:]) for row in rows}

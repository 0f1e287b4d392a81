"""The store of sessions, runs, events and named schemas. It stores and finds data, and decides nothing.

Commands and coordinators use only the public methods of `Store` and of its bases, the queue and the engine.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final

from ao_protocol.rejected_answers import RejectedAnswer
from ao_runner.store.action_table import ActionTable
from ao_runner.store.agent_table import AgentTable
from ao_runner.store.brief_fields import brief_columns
from ao_runner.store.deliveries import DeliveryTable
from ao_runner.store.engine import ConstraintBroken, Row, json_object, reading
from ao_runner.store.input_table import InputTable
from ao_runner.store.records import (
    LAST,
    DeletableSession,
    NamedSchema,
    OfAnotherSession,
    Placement,
    QueuedRun,
    RowConflict,
    RowDamaged,
    Run,
    RunRecord,
    RunState,
    Session,
    SessionBusy,
    SessionsOpen,
    SessionUnknown,
)
from ao_runner.store.run_figures import RunFigures
from ao_runner.store.run_queue import RUN_COLUMNS, RunQueue, end_of_prefix, insertion, run_of
from ao_runner.store.worker_table import WorkerTable

_SESSION_COLUMNS: Final = (
    "session_id, created_at, executor_name, executor_path, project_dir, blueprint, executor_config,"
    " executor_session_id, is_simulated, profile, host, parent_session_id"
)
_SCHEMA_COLUMNS: Final = (
    "name, description, schema, created_at, deleted_at IS NOT NULL,"
    " (SELECT count(*) FROM runs WHERE runs.schema_name = schemas.name)"
)
MOST_OF_A_SESSION: Final = 1_000
"""Maximum number of runs of one session in a list of states."""
SESSIONS_AT_ONCE: Final = 20
"""Maximum number of old sessions to delete in one transaction, so that a concurrent worker can write in between."""

_HAS_OPEN_RUN: Final = (
    "EXISTS (SELECT 1 FROM runs WHERE runs.session_id = sessions.session_id AND status IN ('queued', 'running'))"
)


class Store(RunQueue, WorkerTable, AgentTable, DeliveryTable, RunFigures, ActionTable, InputTable):
    """Sessions, runs, events, named schemas, agents, deliveries, actions and requests in one place."""

    def add_session(self, session: Session) -> None:
        """Store a new session."""
        values = asdict(session) | {
            "blueprint": json.dumps(session.blueprint),
            "executor_config": json.dumps(session.executor_config),
            "is_simulated": int(session.is_simulated),
            "agent_name": session.agent_name,
        }
        self.write(insertion("sessions", values), tuple(values.values()))

    def session_exists(self, session_id: str) -> bool:
        """Return whether a session has exactly this id."""
        return bool(self.fetch("SELECT 1 FROM sessions WHERE session_id = ?", (session_id,)))

    def set_parent(self, session_id: str, parent_session_id: str) -> None:
        """Store who has asked for the last run of a session."""
        self.write("UPDATE sessions SET parent_session_id = ? WHERE session_id = ?", (parent_session_id, session_id))

    def place_session(self, session_id: str, profile: str | None, project_dir: str | None) -> None:
        """Store the profile and the folder of a session's next runs; those that are None stay."""
        self.write(
            "UPDATE sessions SET profile = coalesce(?, profile), project_dir = coalesce(?, project_dir)"
            " WHERE session_id = ?",
            (profile, project_dir, session_id),
        )

    def bind_session(self, session_id: str, executor_session_id: str) -> None:
        """Store the executor's own id of a session."""
        self.write(
            "UPDATE sessions SET executor_session_id = ? WHERE session_id = ?", (executor_session_id, session_id)
        )

    def begin_run(self, run: Run, owner: str, new_session: Session | None = None) -> None:
        """Store a new run that `owner` performs, together with the session that it begins, if any.

        Raises:
            SessionBusy: The session has an unfinished run.
            SessionUnknown: The session was deleted.
            RowConflict: The run exists.
        """
        values = self.run_values(run) | {"status": run.status, "owner": owner}
        try:
            with self.transaction():
                if new_session is not None:
                    self.add_session(new_session)
                self.write(insertion("runs", values), tuple(values.values()))
        except ConstraintBroken as error:
            if error.kind == "reference":
                raise SessionUnknown(run.session_id) from error
            if error.kind == "one_running_run":
                raise SessionBusy(run.session_id) from error
            raise RowConflict(f"run {run.run_id}") from error

    def add_events(self, run_id: str, first_seq: int, lines: Sequence[bytes]) -> None:
        """Store consecutive events in one row. All are stored or none.

        Raises:
            RowConflict: The first event exists.
        """
        try:
            self.insert_events(run_id, first_seq, lines)
        except ConstraintBroken as error:
            raise RowConflict(f"event {first_seq} of run {run_id}") from error

    def add_record(self, run_id: str, record: RunRecord) -> None:
        """Store the record of a run."""
        self.write("UPDATE runs SET record = ? WHERE run_id = ?", (json.dumps(asdict(record)), run_id))

    def resolve(self, wanted: str) -> tuple[str, str | None]:
        """Return the session that an id refers to, and the run if it is the id of one.

        The id is that of a session or run, a unique prefix of one, or `last`: the session of the newest run.

        Raises:
            SessionUnknown: There is no match, or more than one.
        """
        if wanted == LAST:
            found = self.fetch("SELECT session_id, NULL FROM runs ORDER BY rowid DESC LIMIT 1")
        else:
            found = self._ids("{} = ?", wanted)
            if not found and wanted:
                found = self._ids("{} >= ? AND {} < ?", wanted, end_of_prefix(wanted))
        if len(found) != 1:
            raise SessionUnknown(wanted, [run_id or session_id for session_id, run_id in found])
        ((session_id, run_id),) = found
        return session_id, run_id

    def _ids(self, condition: str, *values: str) -> list[Row]:
        return self.fetch(
            f"SELECT session_id, NULL FROM sessions WHERE {condition.replace('{}', 'session_id')}"  # noqa: S608  # own
            f" UNION ALL SELECT session_id, run_id FROM runs WHERE {condition.replace('{}', 'run_id')} LIMIT 5",
            (*values, *values),
        )

    def find_session(self, wanted: str) -> Session:
        """Return the session that the id of a session or run refers to; see `resolve`.

        Raises:
            SessionUnknown: There is no match, or more than one.
            RowDamaged: The session cannot be read.
        """
        session_id, _ = self.resolve(wanted)
        found = self.rows("session", (_SESSION_COLUMNS, "sessions", "WHERE session_id = ?"), (session_id,), _session_of)
        if not found:
            raise SessionUnknown(wanted)
        return found[0]

    def find_sessions(self, session_ids: Collection[str]) -> dict[str, Session]:
        """Return sessions by their exact ids, in one query. Unknown ones are absent; damaged rows go to `damage`."""
        statement = (_SESSION_COLUMNS, "sessions", f"WHERE session_id {self.among_sql}")
        found = self.rows("session", statement, (self.listed(session_ids),), _session_of, self.damage)
        return {session.session_id: session for session in found}

    def find_run_id(self, session_id: str, wanted: str) -> str:
        """Return the run of a session for an id: that of a run, a prefix of one, that of the session itself, or `last`.

        Raises:
            SessionUnknown: There is no match, or more than one.
            OfAnotherSession: The match belongs to another session.
        """
        prefix = "" if wanted == LAST else wanted
        rows = self.fetch(
            "SELECT run_id FROM runs WHERE session_id = ? AND run_id >= ? AND run_id < ? ORDER BY rowid DESC",
            (session_id, prefix, end_of_prefix(prefix)),
        )
        found = [run_id for (run_id,) in rows]
        chosen = found[:1] if wanted == LAST or wanted in found else found
        chosen = [wanted] if wanted in found else chosen
        if not chosen and wanted != LAST:
            owner, _ = self.resolve(wanted)
            if owner != session_id:
                raise OfAnotherSession(wanted, owner, session_id)
            return self.find_run_id(session_id, LAST)
        if len(chosen) != 1:
            raise SessionUnknown(wanted, chosen[:5])
        return str(chosen[0])

    def list_sessions(self) -> list[Session]:
        """Return every session, the one with the newest run first."""
        newest = "coalesce((SELECT max(rowid) FROM runs WHERE runs.session_id = sessions.session_id), 0)"
        clause = f"ORDER BY {newest} DESC, rowid DESC"
        return self.rows("session", (_SESSION_COLUMNS, "sessions", clause), (), _session_of, self.damage)

    def sessions_after(self, session_id: str, most: int) -> list[Session]:
        """Return the first sessions behind an id, in the order of their ids, in which none moves."""
        clause = f"WHERE session_id > ? ORDER BY session_id LIMIT {most:d}"
        return self.rows("session", (_SESSION_COLUMNS, "sessions", clause), (session_id,), _session_of, self.damage)

    def list_runs(self, *session_ids: str) -> list[Run]:
        """Return the runs of sessions in order, in one query. Large parameters are brief, see `brief_fields`."""
        columns = brief_columns(RUN_COLUMNS, self.beginning_sql)
        statement = (columns, "runs", f"WHERE session_id {self.among_sql} ORDER BY rowid")
        return self.rows("run", statement, (self.listed(session_ids),), run_of, self.damage)

    def states_of(self, *session_ids: str) -> list[RunState]:
        """Return the newest runs of sessions, oldest first, in one query. Damaged rows go to `damage`.

        Large parameters are brief, see `brief_fields`.
        """
        numbered = (
            "SELECT rowid, row_number() OVER (PARTITION BY session_id ORDER BY rowid DESC) AS back"  # noqa: S608  # own
            f" FROM runs WHERE session_id {self.among_sql}"
        )
        newest = f"rowid IN (SELECT rowid FROM ({numbered}) AS numbered WHERE back <= {MOST_OF_A_SESSION})"  # noqa: S608
        return self._states(self.damage, newest, self.listed(session_ids))

    def last_run(self, session_id: str, run_id: str | None = None) -> Run | None:
        """Return the last run of a session, or the one with an id, or None.

        Raises:
            RowDamaged: The run cannot be read.
        """
        rows = self.fetch(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? AND run_id = coalesce(?, run_id)"  # noqa: S608  # own
            " ORDER BY rowid DESC LIMIT 1",
            (session_id, run_id),
        )
        return run_of(rows[0]) if rows else None

    def find_queued(self, run_id: str) -> QueuedRun:
        """Return a run with the settings for it; of one that was not queued, with those of its session.

        Raises:
            SessionUnknown: There is no such run.
            RowDamaged: The run cannot be read.
        """
        columns = ", ".join(f"runs.{name.strip()}" for name in RUN_COLUMNS.split(","))
        rows = self.fetch(
            "SELECT coalesce(runs.profile, sessions.profile, executor_name), timeout_seconds, metadata, model_script,"  # noqa: S608
            f" requires, priority, {columns}"
            " FROM runs JOIN sessions ON sessions.session_id = runs.session_id WHERE run_id = ?",
            (run_id,),
        )
        if not rows:
            raise SessionUnknown(run_id)
        profile, seconds, metadata, script, requires, priority, *run = rows[0]
        with reading("run", rows[0], run_id):
            placement = Placement(tuple(json.loads(requires)), priority)
            known = json_object("metadata", metadata or "{}")
            return QueuedRun(run_of(run), profile, seconds, known, script, placement)

    def first_run(self, session_id: str) -> Run:
        """Return the run that began a session.

        Raises:
            RowDamaged: The run cannot be read, or is missing.
        """
        rows = self.fetch(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? ORDER BY rowid LIMIT 1",  # noqa: S608  # own names
            (session_id,),
        )
        if not rows:
            raise RowDamaged("session", session_id, "its first run is missing")
        return run_of(rows[0])

    def find_record(self, run_id: str) -> RunRecord | None:
        """Return the record of a run, or None if there is none yet.

        Raises:
            RowDamaged: The record cannot be read.
        """
        rows = self.fetch("SELECT record FROM runs WHERE run_id = ? AND record IS NOT NULL", (run_id,))
        if not rows:
            return None
        with reading("run", rows[0], run_id):
            values: dict[str, Any] = json_object("record", rows[0][0])
            lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
            rejected = tuple(RejectedAnswer(**answer) for answer in values.get("rejected_answers", ()))
            return RunRecord(**values | lists | {"rejected_answers": rejected})

    def rejected_in(self, run_id: str) -> str | None:
        """Return the run's id if rejected answers are kept in its record, else None.

        Raises:
            RowDamaged: the record cannot be read.
        """
        record = self.find_record(run_id)
        return run_id if record is not None and record.rejected_answers else None

    def last_line(self, run_id: str) -> str | None:
        """Return the last event of a run.

        Raises:
            RowDamaged: The event cannot be read.
        """
        rows = self.fetch("SELECT line FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1", (run_id,))
        if not rows:
            return None
        with reading("events of run", rows[0], run_id):
            return str(rows[0][0]).rpartition("\n")[2]

    def last_lines(self, run_ids: Collection[str]) -> dict[str, str]:
        """Return the last event of each run, heartbeats excepted, in one query. Damaged ones go to `damage`.

        Of an event that is longer than `TAIL_CHARACTERS`, only the end is returned.
        """
        statement = (f"run_id, {self.tail_sql}", "runs", f"WHERE run_id {self.among_sql}")
        rows = self.rows("events of run", statement, (self.listed(run_ids),), _id_and_text, self.damage)
        return {run_id: text.rpartition("\n")[2] for run_id, text in rows}

    def are_events_pruned(self, run_id: str) -> bool:
        """Return whether the events of a run were stored once, and are gone."""
        return self.last_seq(run_id) > 0 and self.last_line(run_id) is None

    def find_schema(self, name: str) -> NamedSchema | None:
        """Return the schema with a name.

        Raises:
            RowDamaged: The schema cannot be read.
        """
        rows = self.fetch(f"SELECT {_SCHEMA_COLUMNS} FROM schemas WHERE name = ?", (name,))  # noqa: S608  # own names
        return _named_schema(rows[0]) if rows else None

    def list_schemas(self) -> list[NamedSchema]:
        """Return all named schemas, by name."""
        return self.rows("schema", (_SCHEMA_COLUMNS, "schemas", "ORDER BY name"), (), _named_schema, self.damage)

    def put_schema(self, named: NamedSchema) -> None:
        """Store a schema under its name and replace an existing one."""
        self.write(
            "INSERT INTO schemas (name, description, schema, created_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET description = excluded.description, schema = excluded.schema,"
            " created_at = excluded.created_at, deleted_at = NULL",
            (named.name, named.description, json.dumps(named.schema, ensure_ascii=False), named.created_at),
        )

    def remove_schema(self, name: str) -> None:
        """Delete a name and its schema."""
        self.write("DELETE FROM schemas WHERE name = ?", (name,))

    def delete_sessions(self, session_ids: Sequence[str], *, dry_run: bool = False) -> list[DeletableSession]:
        """Delete sessions in one transaction and return a summary of each.

        Raises:
            SessionsOpen: One of them has an unfinished run; nothing was deleted.
            StoreUnwritable: The store cannot be written now; nothing was deleted.
        """
        return self._delete([*dict.fromkeys(session_ids)], "WHERE session_id = ?", (), dry_run=dry_run)

    def prune_sessions(self, older_than: datetime, *, dry_run: bool = False) -> list[DeletableSession]:
        """Delete the sessions without an open run whose last activity precedes a time; return a summary of each.

        Each session is deleted completely or not at all.

        Raises:
            StoreUnwritable: The store became unwritable; earlier deletions remain.
        """
        before = older_than.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        clause = f"WHERE NOT {_HAS_OPEN_RUN} AND {self._last_activity} < ?"
        found = self.fetch(f"SELECT session_id FROM sessions {clause} ORDER BY rowid", (before,))  # noqa: S608  # own
        remaining = iter([session_id for (session_id,) in found])
        pruned: list[DeletableSession] = []
        while some := list(islice(remaining, SESSIONS_AT_ONCE)):
            # Checked again in the transaction, since a run may have been added meanwhile.
            pruned += self._delete(some, f"{clause} AND session_id = ?", (before,), dry_run=dry_run)
        return pruned

    @property
    def _last_activity(self) -> str:
        of_a_run = f"{self.greatest}(started_at, coalesce(ended_at, ''))"
        newest = f"(SELECT max({of_a_run}) FROM runs WHERE runs.session_id = sessions.session_id)"  # noqa: S608  # own
        return f"{self.greatest}(created_at, coalesce({newest}, ''))"

    def _delete(
        self, session_ids: Sequence[str], clause: str, values: Sequence[str], *, dry_run: bool
    ) -> list[DeletableSession]:
        statement = (
            "SELECT session_id, agent_name,"  # noqa: S608  # own words
            " (SELECT count(*) FROM runs WHERE runs.session_id = sessions.session_id),"
            f" {self._last_activity}, {_HAS_OPEN_RUN} FROM sessions {clause}"
        )
        with self.transaction():
            rows = [row for one in session_ids for row in self.fetch(statement, (*values, one))]
            if still_open := [row[0] for row in rows if row[-1]]:
                raise SessionsOpen(still_open)
            for row in [] if dry_run else rows:
                self.forget_deliveries(row[0])
                self.write("DELETE FROM inputs WHERE run_id IN (SELECT run_id FROM runs WHERE session_id = ?)", row[:1])
                self.write("DELETE FROM events WHERE run_id IN (SELECT run_id FROM runs WHERE session_id = ?)", row[:1])
                self.write("DELETE FROM runs WHERE session_id = ?", row[:1])
                self.write("DELETE FROM sessions WHERE session_id = ?", row[:1])
        return [DeletableSession(*row[:-1]) for row in rows]


def _session_of(row: Row) -> Session:
    with reading("session", row):
        return Session(
            session_id=row[0],
            created_at=row[1],
            executor_name=row[2],
            executor_path=row[3],
            project_dir=row[4],
            blueprint=json_object("blueprint", row[5]),
            executor_config=json_object("executor_config", row[6]),
            executor_session_id=row[7],
            is_simulated=bool(row[8]),
            profile=row[9],
            host=row[10],
            parent_session_id=row[11],
        )


def _id_and_text(row: Row) -> tuple[str, str]:
    with reading("events of run", row):
        return row[0], row[1] or ""


def _named_schema(row: Row) -> NamedSchema:
    name, description, schema, created_at, is_deleted, used_by_runs = row
    with reading("schema", row):
        document = json_object("schema", schema)
    return NamedSchema(name, description, document, created_at, used_by_runs, is_deleted=bool(is_deleted))

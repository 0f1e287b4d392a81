"""The local store: one SQLite file with several concurrent writers. It stores and finds data, and decides nothing.

Commands and coordinators use only the public methods of `Store` and of its bases, the queue and the file.
"""

import json
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, Literal

from ao_protocol.rejected_answers import RejectedAnswer
from ao_runner.store.records import (
    LAST,
    DeletableSession,
    NamedSchema,
    OfAnotherSession,
    RowConflict,
    RowDamaged,
    Run,
    RunRecord,
    RunStatus,
    Session,
    SessionBusy,
    SessionsOpen,
    SessionUnknown,
    StoredEvent,
)
from ao_runner.store.run_queue import INSERT_EVENTS, RUN_COLUMNS, RunQueue, events_row, run_of
from ao_runner.store.store_file import is_corrupt, json_object, reading

_SESSION_COLUMNS: Final = (
    "session_id, created_at, executor_name, executor_path, project_dir, blueprint, executor_config,"
    " executor_session_id, is_simulated, profile"
)
_SCHEMA_COLUMNS: Final = (
    "name, description, schema, created_at, deleted_at IS NOT NULL,"
    " (SELECT count(*) FROM runs WHERE runs.schema_name = schemas.name)"
)
SESSIONS_AT_ONCE: Final = 20
"""Maximum number of old sessions to delete in one transaction, so that a concurrent worker can write in between."""

_HAS_OPEN_RUN: Final = (
    "EXISTS (SELECT 1 FROM runs WHERE runs.session_id = sessions.session_id AND status IN ('queued', 'running'))"
)
_LAST_ACTIVITY: Final = (
    "max(created_at, coalesce((SELECT max(max(started_at, coalesce(ended_at, ''))) FROM runs"
    " WHERE runs.session_id = sessions.session_id), ''))"
)
_DELETABLE_COLUMNS: Final = (
    "session_id, iif(json_valid(blueprint), json_extract(blueprint, '$.name'), ''),"  # noqa: S608  # own words
    " (SELECT count(*) FROM runs WHERE runs.session_id = sessions.session_id),"
    f" {_LAST_ACTIVITY}, {_HAS_OPEN_RUN}"
)


class Store(RunQueue):
    """Sessions, runs, events and named schemas in one folder."""

    def add_session(self, session: Session) -> None:
        """Store a new session."""
        values = asdict(session) | {
            "blueprint": json.dumps(session.blueprint),
            "executor_config": json.dumps(session.executor_config),
        }
        columns = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        self._write(f"INSERT INTO sessions ({columns}) VALUES ({marks})", values)  # noqa: S608  # own names

    def bind_session(self, session_id: str, executor_session_id: str) -> None:
        """Store the executor's own id of a session."""
        self._write(
            "UPDATE sessions SET executor_session_id = ? WHERE session_id = ?", (executor_session_id, session_id)
        )

    def begin_run(self, run: Run, owner: str, new_session: Session | None = None) -> None:
        """Store a new run that `owner` performs, together with the session that it begins, if any.

        Raises:
            SessionBusy: The session has an unfinished run.
        """
        if new_session is None:
            self._add_run(run, owner)
            return
        with self.transaction():
            self.add_session(new_session)
            self._add_run(run, owner)

    def _add_run(self, run: Run, owner: str) -> None:
        parameters = json.dumps(run.parameters)
        contract = None if run.contract is None else json.dumps(run.contract)
        try:
            self._write(
                "INSERT INTO runs (run_id, session_id, mode, parameters, started_at, status, contract, owner)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (run.run_id, run.session_id, run.mode, parameters, run.started_at, run.status, contract, owner),
            )
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
                raise SessionUnknown(run.session_id) from error  # it was deleted concurrently
            if error.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise SessionBusy(run.session_id) from error
            raise RowConflict(f"run {run.run_id}") from error

    def add_events(self, run_id: str, first_seq: int, lines: Sequence[bytes]) -> None:
        """Store consecutive events in one row. All are stored or none."""
        try:
            self._write(INSERT_EVENTS, events_row(run_id, first_seq, lines))
        except sqlite3.IntegrityError as error:
            raise RowConflict(f"event {first_seq} of run {run_id}") from error

    def end_run(self, run_id: str, status: RunStatus, ended_at: str, error_type: str | None) -> None:
        """Store the end of a run."""
        self._write(
            "UPDATE runs SET status = ?, ended_at = ?, error_type = ? WHERE run_id = ?",
            (status, ended_at, error_type, run_id),
        )

    def add_record(self, run_id: str, record: RunRecord) -> None:
        """Store the record of a run."""
        self._write("UPDATE runs SET record = ? WHERE run_id = ?", (json.dumps(asdict(record)), run_id))

    def resolve(self, wanted: str) -> tuple[str, str | None]:
        """Return the session that an id refers to, and the run if it is the id of one.

        The id is that of a session or run, a unique prefix of one, or `last`: the session of the newest run.

        Raises:
            SessionUnknown: There is no match, or more than one.
        """
        if wanted == LAST:
            newest = "SELECT session_id, NULL FROM runs ORDER BY rowid DESC LIMIT 1"
            found = self.connection.execute(newest).fetchall()
        else:
            found = self._ids("=", wanted) or self._ids("GLOB", f"{_literal(wanted)}*" if wanted else "")
        if len(found) != 1:
            raise SessionUnknown(wanted, [run_id or session_id for session_id, run_id in found])
        ((session_id, run_id),) = found
        return session_id, run_id

    def _ids(self, comparison: Literal["=", "GLOB"], wanted: str) -> list[tuple[str, str | None]]:
        return self.connection.execute(
            f"SELECT session_id, NULL FROM sessions WHERE session_id {comparison} :wanted"  # noqa: S608  # own words
            f" UNION ALL SELECT session_id, run_id FROM runs WHERE run_id {comparison} :wanted LIMIT 5",
            {"wanted": wanted},
        ).fetchall()

    def find_session(self, wanted: str) -> Session:
        """Return the session that the id of a session or run refers to; see `resolve`.

        Raises:
            SessionUnknown: There is no match, or more than one.
            RowDamaged: The session cannot be read.
        """
        session_id, _ = self.resolve(wanted)
        found = self._rows(
            "session", (_SESSION_COLUMNS, "sessions", "WHERE session_id = ?"), (session_id,), _session_of
        )
        if not found:
            raise SessionUnknown(wanted)
        return found[0]

    def find_run_id(self, session_id: str, wanted: str) -> str:
        """Return the run of a session for an id: that of a run, a prefix of one, that of the session itself, or `last`.

        Raises:
            SessionUnknown: There is no match, or more than one.
            OfAnotherSession: The match belongs to another session.
        """
        pattern = "*" if wanted == LAST else f"{_literal(wanted)}*"
        found = [
            run_id
            for (run_id,) in self.connection.execute(
                "SELECT run_id FROM runs WHERE session_id = ? AND run_id GLOB ? ORDER BY rowid DESC",
                (session_id, pattern),
            )
        ]
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
        newest = "(SELECT max(rowid) FROM runs WHERE runs.session_id = sessions.session_id)"
        clause = f"ORDER BY {newest} DESC, rowid DESC"
        return self._rows("session", (_SESSION_COLUMNS, "sessions", clause), (), _session_of, self.damage)

    def list_runs(self, session_id: str) -> list[Run]:
        """Return the runs of a session in order."""
        statement = (RUN_COLUMNS, "runs", "WHERE session_id = ? ORDER BY rowid")
        return self._rows("run", statement, (session_id,), run_of, self.damage)

    def last_run(self, session_id: str, run_id: str | None = None) -> Run | None:
        """Return the last run of a session, or the one with an id, or None.

        Raises:
            RowDamaged: The run cannot be read.
        """
        row = self.connection.execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? AND run_id = coalesce(?, run_id)"  # noqa: S608  # own
            " ORDER BY rowid DESC LIMIT 1",
            (session_id, run_id),
        ).fetchone()
        return None if row is None else run_of(row)

    def first_run(self, session_id: str) -> Run:
        """Return the run that began a session.

        Raises:
            RowDamaged: The run cannot be read, or is missing.
        """
        row = self.connection.execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? ORDER BY rowid LIMIT 1",  # noqa: S608  # own names
            (session_id,),
        ).fetchone()
        if row is None:
            raise RowDamaged("session", session_id, "its first run is missing")
        return run_of(row)

    def list_events(self, session_id: str, after: int = 0, run_id: str | None = None) -> Iterator[StoredEvent]:
        """Yield the events of a session, or of one of its runs, after a position, in order.

        Only one row is in memory at a time, and nothing is locked in between. Damaged rows go to `damage`.
        """
        rows = self.connection.execute(
            "SELECT position FROM events WHERE position > ? AND run_id IN"
            " (SELECT run_id FROM runs WHERE session_id = ? AND run_id = coalesce(?, run_id)) ORDER BY position",
            (after, session_id, run_id),
        )
        for position in array("q", (position for (position,) in rows)):
            try:
                row = self.connection.execute(
                    "SELECT run_id, seq, line FROM events WHERE position = ?", (position,)
                ).fetchone()
                with reading("events", row, position):
                    of_run, first_seq, lines = row
                    split = enumerate(lines.split("\n"), first_seq)
            except RowDamaged as damaged:
                self.damage.add(damaged)
                continue
            except sqlite3.DatabaseError as error:
                if not is_corrupt(error):
                    raise
                self.damage.add(RowDamaged("events", str(position), str(error)))
                continue
            for seq, line in split:
                yield StoredEvent(position, of_run, seq, line)

    def find_record(self, run_id: str) -> RunRecord | None:
        """Return the record of a run, or None if there is none yet.

        Raises:
            RowDamaged: The record cannot be read.
        """
        row = self.connection.execute("SELECT record FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None or row[0] is None:
            return None
        with reading("run", row, run_id):
            values: dict[str, Any] = json_object("record", row[0])
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
        row = self.connection.execute(
            "SELECT line FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1", (run_id,)
        ).fetchone()
        if row is None:
            return None
        with reading("events of run", row, run_id):
            return str(row[0]).rpartition("\n")[2]

    def find_schema(self, name: str) -> NamedSchema | None:
        """Return the schema with a name.

        Raises:
            RowDamaged: The schema cannot be read.
        """
        row = self.connection.execute(f"SELECT {_SCHEMA_COLUMNS} FROM schemas WHERE name = ?", (name,)).fetchone()  # noqa: S608
        return None if row is None else _named_schema(row)

    def list_schemas(self) -> list[NamedSchema]:
        """Return all named schemas, by name."""
        return self._rows("schema", (_SCHEMA_COLUMNS, "schemas", "ORDER BY name"), (), _named_schema, self.damage)

    def put_schema(self, named: NamedSchema) -> None:
        """Store a schema under its name and replace an existing one."""
        self._write(
            "INSERT INTO schemas (name, description, schema, created_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET description = excluded.description, schema = excluded.schema,"
            " created_at = excluded.created_at, deleted_at = NULL",
            (named.name, named.description, json.dumps(named.schema, ensure_ascii=False), named.created_at),
        )

    def remove_schema(self, name: str) -> None:
        """Delete a name and its schema."""
        self._write("DELETE FROM schemas WHERE name = ?", (name,))

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
        clause = f"WHERE NOT {_HAS_OPEN_RUN} AND {_LAST_ACTIVITY} < ?"
        statement = f"SELECT session_id FROM sessions {clause} ORDER BY rowid"  # noqa: S608  # own words
        remaining = iter([session_id for (session_id,) in self.connection.execute(statement, (before,)).fetchall()])
        pruned: list[DeletableSession] = []
        while some := list(islice(remaining, SESSIONS_AT_ONCE)):
            # Checked again in the transaction, since a run may have been added meanwhile.
            pruned += self._delete(some, f"{clause} AND session_id = ?", (before,), dry_run=dry_run)
        return pruned

    def _delete(
        self, session_ids: Sequence[str], clause: str, values: Sequence[str], *, dry_run: bool
    ) -> list[DeletableSession]:
        self.connection.execute("PRAGMA secure_delete = ON")  # prompts and answers do not stay in free pages
        statement = f"SELECT {_DELETABLE_COLUMNS} FROM sessions {clause}"  # noqa: S608  # own words
        with self.transaction():
            rows = [row for one in session_ids for row in self.connection.execute(statement, (*values, one)).fetchall()]
            if still_open := [row[0] for row in rows if row[-1]]:
                raise SessionsOpen(still_open)
            runs = "(SELECT run_id FROM runs WHERE session_id = ?)"
            for table in (
                f"events WHERE run_id IN {runs}",
                "runs WHERE session_id = ?",
                "sessions WHERE session_id = ?",
            ):
                deletion = f"DELETE FROM {table}"  # noqa: S608  # own words
                self.connection.executemany(deletion, [] if dry_run else [(row[0],) for row in rows])
        return [DeletableSession(*row[:-1]) for row in rows]


def _session_of(row: Sequence[Any]) -> Session:
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
        )


def _literal(text: str) -> str:
    """Return a GLOB pattern that matches exactly a text."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def _named_schema(row: Sequence[Any]) -> NamedSchema:
    name, description, schema, created_at, is_deleted, used_by_runs = row
    with reading("schema", row):
        document = json_object("schema", schema)
    return NamedSchema(name, description, document, created_at, used_by_runs, is_deleted=bool(is_deleted))

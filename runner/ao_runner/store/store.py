"""The local store: one SQLite file that several processes write at once. It keeps and finds; it judges nothing."""

import json
import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from ao_protocol.rejected_answers import RejectedAnswer
from ao_runner.errors import RunnerError
from ao_runner.store.records import Run, RunRecord, RunStatus, Session, StoredEvent
from ao_runner.store.rows import (
    INSERT_EVENTS,
    RUN_COLUMNS,
    Damage,
    RowDamaged,
    events_row,
    is_corrupt,
    json_object,
    read_rows,
    reading,
    run_of,
)
from ao_runner.store.run_queue import RunQueue
from ao_runner.store.schema_table import SchemaStore
from ao_runner.store.store_errors import unwritable
from ao_runner.store.store_file import FILE_NAME, explain, is_writable, open_store_file, transaction

LAST: Final = "last"
"""Stands for the session that ran most recently."""

_SESSION_COLUMNS: Final = (
    "session_id, created_at, executor_name, executor_path, project_dir, blueprint, executor_config,"
    " executor_session_id, is_simulated, profile"
)


@dataclass(eq=False)
class SessionUnknown(RunnerError):
    """No session, or more than one, goes by that name."""

    wanted: str
    candidates: Sequence[str] = ()

    def __str__(self) -> str:
        if self.candidates:
            return f"{self.wanted!r} is ambiguous: {', '.join(self.candidates)}; give more of the id"
        return f"there is no session or run {self.wanted!r}; `ao sessions` and `ao runs` list them"


@dataclass(eq=False)
class OfAnotherSession(RunnerError):
    """An id is known, but it is not one of the session that was named with it."""

    wanted: str
    owner: str
    session_id: str

    def __str__(self) -> str:
        return f"{self.wanted!r} is of session {self.owner}, not of {self.session_id}; name one of them only"


@dataclass(eq=False)
class SessionBusy(RunnerError):
    """Another run of the session goes on: one conversation has one run at a time."""

    session_id: str

    def __str__(self) -> str:
        return f"session {self.session_id} has a run that has not ended; follow it with: ao events {self.session_id} -f"


class Store:
    """Sessions, runs and events below one folder. A `with` block owns the connection; transactions are on it.

    Whatever a method has written when it returns survives a crash of this process and of the machine. What a list
    leaves out because it is damaged stands in `damage`. Leaving the block with an error of SQLite's raises
    `StoreDamaged` or `StoreUnwritable` instead.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / FILE_NAME
        self.connection = open_store_file(home)
        self.is_writable = is_writable(self.path)
        self.damage = Damage()
        self.schemas = SchemaStore(self.connection, self.damage)
        self.queue = RunQueue(self.connection, damage=self.damage)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, sqlite3.Error):
            self.connection.close()
            return
        told = explain(self.path, error)
        self.connection.close()
        raise told from error

    def add_session(self, session: Session) -> None:
        """Keep a new session."""
        values = asdict(session) | {
            "blueprint": json.dumps(session.blueprint),
            "executor_config": json.dumps(session.executor_config),
        }
        columns = ", ".join(values)
        marks = ", ".join(f":{name}" for name in values)
        self._write(f"INSERT INTO sessions ({columns}) VALUES ({marks})", values)  # noqa: S608  # own names

    def bind_session(self, session_id: str, executor_session_id: str) -> None:
        """Keep the executor's own name for a session."""
        self._write(
            "UPDATE sessions SET executor_session_id = ? WHERE session_id = ?", (executor_session_id, session_id)
        )

    def begin_run(self, run: Run, owner: str, new_session: Session | None = None) -> None:
        """Keep a new run, which `owner` performs, and with it the session that it begins.

        Raises:
            SessionBusy: the session has a run that is not over.
        """
        if new_session is None:
            self._add_run(run, owner)
            return
        with transaction(self.connection):
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
                raise SessionUnknown(run.session_id) from error  # it has been deleted meanwhile
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise  # an id that is there already
            raise SessionBusy(run.session_id) from error

    def add_events(self, run_id: str, first_seq: int, lines: Sequence[bytes]) -> None:
        """Keep events that follow each other, as one row of lines. All are kept or none."""
        self._write(INSERT_EVENTS, events_row(run_id, first_seq, lines))

    def end_run(self, run_id: str, status: RunStatus, ended_at: str, error_type: str | None) -> None:
        """Say how a run ended."""
        self._write(
            "UPDATE runs SET status = ?, ended_at = ?, error_type = ? WHERE run_id = ?",
            (status, ended_at, error_type, run_id),
        )

    def add_record(self, run_id: str, record: RunRecord) -> None:
        """Keep how a run went."""
        self._write("UPDATE runs SET record = ? WHERE run_id = ?", (json.dumps(asdict(record)), run_id))

    def resolve(self, wanted: str) -> tuple[str, str | None]:
        """Return the session that an id means, and the run where it is the id of one.

        An id is that of a session or a run, the beginning of only one of them, or `last`: the newest run's session.

        Raises:
            SessionUnknown: there is none, or more than one.
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
        """Return the session that an id means, also that of a run; see `resolve`.

        Raises:
            SessionUnknown: there is none, or more than one.
            RowDamaged: it cannot be read.
        """
        session_id, _ = self.resolve(wanted)
        damage = Damage()
        found = self._sessions(damage, "WHERE session_id = ?", session_id)
        for damaged in damage.values():
            raise damaged
        if not found:
            raise SessionUnknown(wanted)
        return found[0]

    def find_run_id(self, session_id: str, wanted: str) -> str:
        """Return the run of a session that an id means: a run's, the beginning of one, the session's own, or `last`.

        Raises:
            SessionUnknown: there is none, or more than one.
            OfAnotherSession: there is one elsewhere.
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
        """Return every session, first the one with the newest run."""
        newest = "(SELECT max(rowid) FROM runs WHERE runs.session_id = sessions.session_id)"
        return self._sessions(self.damage, f"ORDER BY {newest} DESC, rowid DESC")

    def list_runs(self, session_id: str) -> list[Run]:
        """Return the runs of a session in their order."""
        statement = (RUN_COLUMNS, "runs", "WHERE session_id = ? ORDER BY rowid")
        return read_rows(self.connection, self.damage, "run", statement, (session_id,), run_of)

    def last_run(self, session_id: str, run_id: str | None = None) -> Run | None:
        """Return the last run of a session, or the one with an id; None where there is none.

        Raises:
            RowDamaged: it cannot be read.
        """
        row = self.connection.execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? AND run_id = coalesce(?, run_id)"  # noqa: S608  # own
            " ORDER BY rowid DESC LIMIT 1",
            (session_id, run_id),
        ).fetchone()
        return None if row is None else run_of(row)

    def first_run(self, session_id: str) -> Run:
        """Return the run that began a session; there is one.

        Raises:
            RowDamaged: it cannot be read, or is gone.
        """
        row = self.connection.execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? ORDER BY rowid LIMIT 1",  # noqa: S608  # own names
            (session_id,),
        ).fetchone()
        if row is None:
            raise RowDamaged("session", session_id, "its first run is missing")
        return run_of(row)

    def list_events(self, session_id: str, after: int = 0, run_id: str | None = None) -> Iterator[StoredEvent]:
        """Give the events of a session, or of one of its runs, behind a position, in their order.

        Only a row of them is in memory at a time, and nothing is locked in between. Damaged ones go to `damage`.
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
        """Return how a run went; None while it is not known.

        Raises:
            RowDamaged: it cannot be read.
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
            RowDamaged: it cannot be read.
        """
        row = self.connection.execute(
            "SELECT line FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1", (run_id,)
        ).fetchone()
        if row is None:
            return None
        with reading("events of run", row, run_id):
            return str(row[0]).rpartition("\n")[2]

    def _write(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> None:
        try:
            self.connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise unwritable(self.path, error) from error

    def _sessions(self, damage: Damage, clause: str, *values: str) -> list[Session]:
        statement = (_SESSION_COLUMNS, "sessions", clause)
        return read_rows(self.connection, damage, "session", statement, values, _session_of)


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
    """Return a pattern of GLOB that stands for a text itself."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)

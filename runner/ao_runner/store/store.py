"""The local store: one SQLite file that several processes write at once. It keeps and finds; it judges nothing."""

import json
import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from ao_runner.errors import RunnerError
from ao_runner.named_schemas.store import SchemaStore
from ao_runner.store.records import Run, RunRecord, RunStatus, Session, StoredEvent
from ao_runner.store.rows import INSERT_EVENTS, RUN_COLUMNS, events_row, read_object, run_of
from ao_runner.store.run_queue import RunQueue
from ao_runner.store.store_errors import unwritable
from ao_runner.store.store_file import FILE_NAME, open_store_file, transaction

LAST: Final = "last"
"""Stands for the session that ran most recently."""

_SELECT_SESSION: Final = (
    "SELECT session_id, created_at, executor_name, executor_path, project_dir, blueprint, executor_config,"
    " executor_session_id, is_simulated, profile FROM sessions AS s"
)


@dataclass(eq=False)
class SessionUnknown(RunnerError):
    """No session, or more than one, goes by that name."""

    wanted: str
    candidates: Sequence[str] = ()

    def __str__(self) -> str:
        if self.candidates:
            return f"{self.wanted!r} is ambiguous: {', '.join(self.candidates)}; give more of the id"
        return f"there is no session {self.wanted!r}; `ao sessions` lists the sessions"


@dataclass(eq=False)
class SessionBusy(RunnerError):
    """Another run of the session goes on: one conversation has one run at a time."""

    session_id: str

    def __str__(self) -> str:
        return f"session {self.session_id} has a run that has not ended; follow it with: ao events {self.session_id} -f"


class Store:
    """Sessions, runs and events below one folder. A `with` block owns the connection; transactions are on it.

    Whatever a method has written when it returns survives a crash of this process and of the machine.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / FILE_NAME
        self.connection = open_store_file(home)
        self.schemas = SchemaStore(self.connection)
        self.queue = RunQueue(self.connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def add_session(self, session: Session) -> None:
        """Keep a new session."""
        values = asdict(session) | {
            "blueprint": json.dumps(session.blueprint),
            "executor_config": json.dumps(session.executor_config),
        }
        del values["damages"]
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
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise  # an id that is there already, or a session that is not
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

    def find_session(self, wanted: str) -> Session:
        """Return the session with an id, with the only id that begins so, or the last one.

        Raises:
            SessionUnknown: there is none, or more than one.
        """
        if wanted == LAST:
            found = self._sessions(
                "ORDER BY (SELECT max(rowid) FROM runs WHERE runs.session_id = s.session_id) DESC LIMIT 1"
            )
        else:
            if exact := self._sessions("WHERE session_id = ?", wanted):
                return exact[0]
            escaped = wanted.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            found = self._sessions("WHERE session_id LIKE ? ESCAPE '\\' LIMIT 5", f"{escaped}%")
        if len(found) != 1:
            raise SessionUnknown(wanted, [session.session_id for session in found])
        return found[0]

    def list_sessions(self) -> list[Session]:
        """Return every session, the newest first."""
        return self._sessions("ORDER BY rowid DESC")

    def count_sessions(self) -> int:
        """Return how many sessions there are."""
        return int(self.connection.execute("SELECT count(*) FROM sessions").fetchone()[0])

    def list_runs(self, session_id: str) -> list[Run]:
        """Return the runs of a session in their order."""
        rows = self.connection.execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? ORDER BY rowid",  # noqa: S608  # own names
            (session_id,),
        )
        return [run_of(row) for row in rows]

    def first_run(self, session_id: str) -> Run:
        """Return the run that began a session; there is one."""
        row = self.connection.execute(
            f"SELECT {RUN_COLUMNS} FROM runs WHERE session_id = ? ORDER BY rowid LIMIT 1",  # noqa: S608  # own names
            (session_id,),
        ).fetchone()
        return run_of(row)

    def list_events(self, session_id: str, after: int = 0, run_id: str | None = None) -> Iterator[StoredEvent]:
        """Give the events of a session, or of one of its runs, behind a position, in their order.

        Only a row of them is in memory at a time, and nothing is locked in between.
        """
        rows = self.connection.execute(
            "SELECT position FROM events WHERE position > ? AND run_id IN"
            " (SELECT run_id FROM runs WHERE session_id = ? AND run_id = coalesce(?, run_id)) ORDER BY position",
            (after, session_id, run_id),
        )
        for position in array("q", (position for (position,) in rows)):
            of_run, first_seq, lines = self.connection.execute(
                "SELECT run_id, seq, line FROM events WHERE position = ?", (position,)
            ).fetchone()
            for seq, line in enumerate(lines.split("\n"), first_seq):
                yield StoredEvent(position, of_run, seq, line)

    def find_record(self, run_id: str) -> RunRecord | None:
        """Return how a run went; None while it is not known."""
        row = self.connection.execute("SELECT record FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None or row[0] is None:
            return None
        values: dict[str, Any] = json.loads(row[0])
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return RunRecord(**values | lists)

    def last_line(self, run_id: str) -> str | None:
        """Return the last event of a run."""
        row = self.connection.execute(
            "SELECT line FROM events WHERE run_id = ? ORDER BY seq DESC LIMIT 1", (run_id,)
        ).fetchone()
        return None if row is None else str(row[0]).rpartition("\n")[2]

    def _write(self, statement: str, values: Sequence[Any] | Mapping[str, Any]) -> None:
        try:
            self.connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            raise unwritable(self.path, error) from error

    def _sessions(self, clause: str, *values: str) -> list[Session]:
        rows = self.connection.execute(f"{_SELECT_SESSION} {clause}", values)
        return list(map(_session, rows))


def _session(row: Sequence[Any]) -> Session:
    damages: list[str] = []
    return Session(
        session_id=row[0],
        created_at=row[1],
        executor_name=row[2],
        executor_path=row[3],
        project_dir=row[4],
        blueprint=read_object(row[5], "blueprint", damages),
        executor_config=read_object(row[6], "executor_config", damages),
        executor_session_id=row[7],
        is_simulated=bool(row[8]),
        profile=row[9],
        damages=tuple(damages),
    )

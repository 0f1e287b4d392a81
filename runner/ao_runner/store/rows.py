"""How runs and events stand in the tables of the local store, and how rows are read of which one may be damaged."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.store.records import Run

RUN_COLUMNS: Final = "run_id, session_id, mode, parameters, started_at, status, ended_at, error_type, contract"
RUN_WIDTH: Final = RUN_COLUMNS.count(",") + 1
INSERT_EVENTS: Final = "INSERT INTO events (run_id, seq, last_seq, event_type, line) VALUES (?, ?, ?, '', ?)"

Record = TypeVar("Record")


@dataclass(eq=False)
class RowDamaged(RunnerError):
    """A row of the store cannot be read. `row_id` is the id of the run or session, or the row's number."""

    kind: str
    row_id: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the store's row of {self.kind} {self.row_id} is damaged: {self.reason}. Other rows can be read; restore"
            " the store from a backup, or correct or delete this row with sqlite3"
        )


class Damage(dict[str, RowDamaged]):
    """The damaged rows that lists have left out, by their sentences."""

    def add(self, damaged: RowDamaged) -> None:
        """Note a row, once."""
        self[str(damaged)] = damaged

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Forget what is added inside the block."""
        before = dict(self)
        try:
            yield
        finally:
            self.clear()
            self.update(before)


def is_corrupt(error: sqlite3.Error) -> bool:
    """Tell whether a page of the file, and not the statement, is why."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


@contextmanager
def reading(kind: str, row: Sequence[Any], row_id: object = None) -> Iterator[None]:
    """Turn what is wrong with a row inside the block, and bytes that are no text, into `RowDamaged`.

    The row's first value is its id, unless one is given.
    """
    found = str(row[0] if row_id is None else row_id)
    for value in row:
        if isinstance(value, bytes):
            raise RowDamaged(kind, found, f"a text column holds bytes that are not UTF-8: {value[:20]!r}")
    try:
        yield
    except (ValueError, TypeError, RecursionError) as error:
        raise RowDamaged(kind, found, str(error)) from error


def json_object(column: str, text: Any) -> JsonObject:  # noqa: ANN401  # a damaged row holds anything
    """Return the object that stands in a column.

    Raises:
        ValueError: there is none.
    """
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"column {column} holds no JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"column {column} holds a JSON {type(document).__name__}, expected an object")  # noqa: TRY004
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def read_rows(
    connection: sqlite3.Connection,
    damage: Damage,
    kind: str,
    statement: tuple[str, str, str],
    values: Sequence[object],
    convert: Callable[[Sequence[Any]], Record],
) -> list[Record]:
    """Return the rows of a statement, given as columns, table and clause; damaged ones go to `damage`."""
    columns, table, clause = statement
    try:
        rows = connection.execute(f"SELECT {columns} FROM {table} {clause}", values).fetchall()  # noqa: S608  # own
    except sqlite3.DatabaseError as error:
        if not is_corrupt(error):
            raise
        rows = _each_row(connection, damage, kind, statement, values)
    records = []
    for row in rows:
        try:
            records.append(convert(row))
        except RowDamaged as damaged:
            damage.add(damaged)
    return records


def _each_row(
    connection: sqlite3.Connection, damage: Damage, kind: str, statement: tuple[str, str, str], values: Sequence[object]
) -> list[Sequence[Any]]:
    """Return the rows that do not stand on a damaged page."""
    columns, table, clause = statement
    rows = []
    numbers = connection.execute(f"SELECT {table}.rowid FROM {table} {clause}", values).fetchall()  # noqa: S608
    for (number,) in numbers:
        try:
            rows += connection.execute(f"SELECT {columns} FROM {table} WHERE rowid = ?", (number,)).fetchall()  # noqa: S608
        except sqlite3.DatabaseError as error:
            if not is_corrupt(error):
                raise
            damage.add(RowDamaged(kind, f"number {number}", str(error)))
    return rows


def run_of(row: Sequence[Any]) -> Run:
    """Return the run that stands in a row of `RUN_COLUMNS`.

    Raises:
        RowDamaged: there is none.
    """
    run_id, session_id, mode, parameters, started_at, status, ended_at, error_type, contract = row
    with reading("run", row):
        return Run(
            run_id=run_id,
            session_id=session_id,
            mode=mode,
            parameters=json_object("parameters", parameters),
            started_at=started_at,
            status=status,
            ended_at=ended_at,
            error_type=error_type,
            contract=None if contract is None else json_object("contract", contract),
        )


def events_row(run_id: str, first_seq: int, lines: Sequence[bytes]) -> tuple[str, int, int, str]:
    """Return the values of `INSERT_EVENTS` for events that follow each other: one row holds them all."""
    return run_id, first_seq, first_seq + len(lines) - 1, b"\n".join(lines).decode()

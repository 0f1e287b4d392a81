"""How runs, events and named schemas stand in the tables of the store; rows are read of which one may be damaged."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.store.records import Run
from ao_runner.store.store_file import transaction

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


_COLUMNS: Final = (
    "name, description, schema, created_at, deleted_at IS NOT NULL,"
    " (SELECT count(*) FROM runs WHERE runs.schema_name = schemas.name)"
)


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema that runs can ask for by its name."""

    name: str
    description: str
    schema: JsonObject
    created_at: str
    used_by_runs: int = 0
    """How many runs of this store there were, whatever became of them, whose contract names it."""
    is_deleted: bool = False
    """Nobody can ask for it any more; it is kept because results of old runs name it."""


class SchemaStore:
    """The named schemas of one store, also those deleted ones that are kept for their names."""

    def __init__(self, connection: sqlite3.Connection, damage: Damage) -> None:
        self._connection = connection
        self._damage = damage

    def changing(self) -> AbstractContextManager[None]:
        """Return a block in which what was found stays true until it is left."""
        return transaction(self._connection)

    def find(self, name: str) -> NamedSchema | None:
        """Return what is kept under a name.

        Raises:
            RowDamaged: it cannot be read.
        """
        row = self._connection.execute(f"SELECT {_COLUMNS} FROM schemas WHERE name = ?", (name,)).fetchone()  # noqa: S608
        return None if row is None else _named_schema(row)

    def list_all(self) -> list[NamedSchema]:
        """Return all that is kept, by name."""
        statement = (_COLUMNS, "schemas", "ORDER BY name")
        return read_rows(self._connection, self._damage, "schema", statement, (), _named_schema)

    def put(self, named: NamedSchema) -> None:
        """Keep a schema under its name, in place of what was there."""
        self._connection.execute(
            "INSERT INTO schemas (name, description, schema, created_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET description = excluded.description, schema = excluded.schema,"
            " created_at = excluded.created_at, deleted_at = NULL",
            (named.name, named.description, json.dumps(named.schema, ensure_ascii=False), named.created_at),
        )

    def mark_deleted(self, name: str, deleted_at: str) -> None:
        """Keep a schema for its name only."""
        self._connection.execute("UPDATE schemas SET deleted_at = ? WHERE name = ?", (deleted_at, name))

    def remove(self, name: str) -> None:
        """Forget a name and its schema."""
        self._connection.execute("DELETE FROM schemas WHERE name = ?", (name,))


def _named_schema(row: Sequence[Any]) -> NamedSchema:
    name, description, schema, created_at, is_deleted, used_by_runs = row
    with reading("schema", row):
        document = json_object("schema", schema)
    return NamedSchema(name, description, document, created_at, used_by_runs, is_deleted=bool(is_deleted))

"""Named schemas in the local store. It keeps and finds; which name may be given to which schema is judged elsewhere."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final

from ao_protocol.wire import JsonObject
from ao_runner.store.rows import Damage, json_object, read_rows, reading
from ao_runner.store.store_file import transaction

_COLUMNS: Final = (
    "name, description, schema, created_at, (SELECT count(*) FROM runs WHERE runs.schema_name = schemas.name)"
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


class SchemaStore:
    """The named schemas of one store."""

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
            " created_at = excluded.created_at",
            (named.name, named.description, json.dumps(named.schema, ensure_ascii=False), named.created_at),
        )

    def remove(self, name: str) -> None:
        """Forget a name and its schema."""
        self._connection.execute("DELETE FROM schemas WHERE name = ?", (name,))


def _named_schema(row: Sequence[Any]) -> NamedSchema:
    name, description, schema, created_at, used_by_runs = row
    with reading("schema", row):
        document = json_object("schema", schema)
    return NamedSchema(name, description, document, created_at, used_by_runs)

"""The named schemas of a store."""

import json
from typing import Final

from ao_runner.store.engine import Part, Row, json_object, reading
from ao_runner.store.records import NamedSchema

_COLUMNS: Final = (
    "name, description, schema, created_at, deleted_at IS NOT NULL,"
    " (SELECT count(*) FROM runs WHERE runs.schema_name = schemas.name)"
)


class SchemaTable(Part):
    """The schemas that runs can refer to by name."""

    def find(self, name: str) -> NamedSchema | None:
        """Return the schema with a name.

        Raises:
            RowDamaged: The schema cannot be read.
        """
        rows = self._db.fetch(f"SELECT {_COLUMNS} FROM schemas WHERE name = ?", (name,))  # noqa: S608  # own names
        return _named_schema(rows[0]) if rows else None

    def all(self) -> list[NamedSchema]:
        """Return all named schemas, by name."""
        return self._db.rows("schema", (_COLUMNS, "schemas", "ORDER BY name"), (), _named_schema, self._db.damage)

    def put(self, named: NamedSchema) -> None:
        """Store a schema under its name and replace an existing one."""
        self._db.write(
            "INSERT INTO schemas (name, description, schema, created_at) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET description = excluded.description, schema = excluded.schema,"
            " created_at = excluded.created_at, deleted_at = NULL",
            (named.name, named.description, json.dumps(named.schema, ensure_ascii=False), named.created_at),
        )

    def remove(self, name: str) -> None:
        """Delete a name and its schema."""
        self._db.write("DELETE FROM schemas WHERE name = ?", (name,))


def _named_schema(row: Row) -> NamedSchema:
    name, description, schema, created_at, is_deleted, used_by_runs = row
    with reading("schema", row):
        document = json_object("schema", schema)
    return NamedSchema(name, description, document, created_at, used_by_runs, is_deleted=bool(is_deleted))

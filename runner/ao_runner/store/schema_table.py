"""The named schemas of a store."""

import json
from dataclasses import dataclass, field
from typing import Final

from ao_protocol.wire import JsonObject
from ao_runner.store.columns import FLAG, OBJECT, Stored
from ao_runner.store.engine import Part


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema that runs can refer to by name."""

    name: str
    description: str
    schema: JsonObject = field(metadata=OBJECT)
    created_at: str
    used_by_runs: int = 0
    """The number of runs in this store, with any status, whose contract names the schema."""
    is_deleted: bool = field(default=False, metadata=FLAG)
    """No new run can use it; it is kept because results of old runs name it."""


_SCHEMA: Final = Stored("schema", NamedSchema)
_EXPRESSIONS: Final = {
    "is_deleted": "deleted_at IS NOT NULL",
    "used_by_runs": "(SELECT count(*) FROM runs WHERE runs.schema_name = schemas.name)",
}


class SchemaTable(Part):
    """The schemas that runs can refer to by name."""

    def find(self, name: str) -> NamedSchema | None:
        """Return the schema with a name.

        Raises:
            RowDamaged: The schema cannot be read.
        """
        return self._db.record(_SCHEMA, "schemas WHERE name = ?", (name,), _EXPRESSIONS)

    def all(self) -> list[NamedSchema]:
        """Return all named schemas, by name."""
        return self._db.records(_SCHEMA, "schemas ORDER BY name", (), _EXPRESSIONS)

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

"""The registry of named schemas: it assigns names to schemas and keeps the assignment stable.

The `schema_name` of a result identifies its schema. So a name that any run used refers to one schema for as long as
that run is stored: it can be neither reassigned nor deleted.
"""

import dataclasses
import difflib
import itertools
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final

from ao_protocol.contracts.problems import canonical_json
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.named_schemas.vetting import vet
from ao_runner.store.records import timestamp
from ao_runner.store.schema_table import NamedSchema
from ao_runner.store.store import Store

MAX_NAME_CHARACTERS: Final = 100

_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME_CHARACTERS - 1}}}")


class Outcome(StrEnum):
    """The result of `SchemaRegistry.create`."""

    ADDED = "added"
    UNCHANGED = "unchanged"
    DESCRIBED = "described"
    """The same schema; only its description is new."""


class BadSchemaName(RunnerError):
    """A name with characters that are not allowed in every place of a name."""


class SchemaNotFound(RunnerError):
    """No schema has that name, or it was deleted."""


class NameTaken(RunnerError):
    """The name refers to another schema."""


class SchemaInUse(RunnerError):
    """Results refer to the schema, so it cannot be deleted."""


class SchemaRegistry:
    """The named schemas of a store.

    Each method is atomic for all processes that use the store: if two assign a name to different schemas concurrently,
    one is refused.
    """

    def __init__(self, store: Store, now: Callable[[], str] = timestamp) -> None:
        self._store = store
        self._now = now

    def create(self, name: str, schema: JsonObject, description: str | None = None) -> Outcome:
        """Assign a name to a schema. Repeating this only updates the description, if one is given.

        Args:
            name: At most 100 letters, digits, `.`, `_` and `-`; the first is a letter or a digit.
            schema: A schema that `ao_protocol.contracts.check_schema` accepts.
            description: Its purpose, in a line; None keeps the existing one.

        Raises:
            BadSchemaName: The name is too long or contains other characters.
            UnacceptableSchema: The schema is invalid; the error lists every problem with its place.
            NameTaken: The name refers to another schema.
        """
        if not _NAME.fullmatch(name):
            raise BadSchemaName(
                f"{name[: MAX_NAME_CHARACTERS + 1]!r} cannot be the name of a schema: choose 1 to {MAX_NAME_CHARACTERS}"
                " letters, digits, '.', '_' or '-', the first of them a letter or a digit"
            )
        vet(f"schema {name!r}", schema)
        with self._store.transaction():
            kept = self._store.schemas.find(name)
            if kept is None:
                self._store.schemas.put(NamedSchema(name, description or "", schema, self._now()))
                return Outcome.ADDED
            if canonical_json(kept.schema) != canonical_json(schema):
                raise self._name_taken(name, kept.used_by_runs)
            if description in {None, kept.description}:
                return Outcome.UNCHANGED
            self._store.schemas.put(dataclasses.replace(kept, description=description))
            return Outcome.DESCRIBED

    def list(self) -> Sequence[NamedSchema]:
        """Return the schemas that runs can refer to, by name."""
        return self._store.schemas.all()

    def get(self, name: str) -> NamedSchema:
        """Return the schema with a name.

        Raises:
            SchemaNotFound: There is none; the error lists similar names.
        """
        # Invalid names are never stored, and some cannot even be queried.
        kept = self._store.schemas.find(name) if _NAME.fullmatch(name) else None
        if kept is None:
            close = difflib.get_close_matches(name, [there.name for there in self.list()])
            meant = f"did you mean {' or '.join(map(repr, close))}? " if close else ""
            raise SchemaNotFound(f"there is no schema {name!r}; {meant}`ao schema list` lists the schemas")
        return kept

    def delete(self, name: str) -> None:
        """Delete a schema that no run used; its name becomes free again.

        Raises:
            SchemaNotFound: There is none; the error lists similar names.
            SchemaInUse: Runs used it.
        """
        with self._store.transaction():
            kept = self.get(name)
            if kept.used_by_runs:
                raise SchemaInUse(
                    f"{_runs(kept.used_by_runs)} used schema {name!r}, and results refer to it; delete the sessions of"
                    " those runs first (`ao sessions delete`)"
                )
            self._store.schemas.remove(name)

    def _name_taken(self, name: str, used_by_runs: int) -> NameTaken:
        advice = f"no run has used it, so `ao schema delete {name}` makes room for it"
        if used_by_runs:
            advice = f"{_runs(used_by_runs)} used it, so it cannot be replaced"
        free = f"use a new name, such as {self._free_name(name)!r}"
        return NameTaken(f"schema {name!r} already exists with a different definition; {advice}: {free}")

    def _free_name(self, name: str) -> str:
        """Return a similar name that is free."""
        numbered = re.fullmatch("(.+)-([0-9]{1,6})", name)
        stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 1)
        names = (f"{stem[: MAX_NAME_CHARACTERS - 10]}-{following}" for following in itertools.count(number + 1))
        return next(free for free in names if self._store.schemas.find(free) is None)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"

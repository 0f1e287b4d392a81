"""The registry of named schemas: which name stands for which schema, and that it goes on to stand for it.

A result says by `schema_name` what it fits. So a name that any run used stands for one schema for ever: it cannot be
given to another one, and deleting it takes it out of use and keeps the name.
"""

import dataclasses
import difflib
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from ao_protocol.contracts import InvalidSchema, Problem, check_schema
from ao_protocol.contracts.problems import canonical_json
from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.store.records import timestamp
from ao_runner.store.rows import NamedSchema
from ao_runner.store.store import Store

MAX_NAME_CHARACTERS: Final = 100

_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME_CHARACTERS - 1}}}")


class Outcome(StrEnum):
    """What `SchemaRegistry.create` came to."""

    ADDED = "added"
    UNCHANGED = "unchanged"
    DESCRIBED = "described"
    """The same schema; only its description is new."""
    REPLACED = "replaced"
    RESTORED = "restored"
    """The same schema had been deleted, and its name can be used again."""


class Refusal(StrEnum):
    """Why a name cannot be given to a schema: it stands, or stood, for another one."""

    NOT_USED_YET = "not_used_yet"
    USED = "used"
    DELETED = "deleted"


@dataclass(eq=False)
class BadSchemaName(RunnerError):
    """A name that cannot be written everywhere a name has to be written."""

    name: str

    def __str__(self) -> str:
        return (
            f"{self.name[: MAX_NAME_CHARACTERS + 1]!r} cannot be the name of a schema: choose 1 to"
            f" {MAX_NAME_CHARACTERS} letters, digits, '.', '_' or '-', the first of them a letter or a digit"
        )


@dataclass(eq=False)
class UnacceptableSchema(RunnerError):
    """A schema that cannot be an output contract. `what` says which one: a file, a name."""

    what: str
    problems: Sequence[Problem]

    def __str__(self) -> str:
        lines = (f"  {problem}" for problem in self.problems)
        return "\n".join([f"{self.what} cannot be used as an output schema:", *lines])


@dataclass(eq=False)
class SchemaNotFound(RunnerError):
    """Nobody gave that name to a schema, or it was deleted."""

    name: str
    close: Sequence[str] = ()

    def __str__(self) -> str:
        meant = f"did you mean {' or '.join(map(repr, self.close))}? " if self.close else ""
        return f"there is no schema {self.name!r}; {meant}`ao schema list` lists the schemas"


@dataclass(eq=False)
class NameTaken(RunnerError):
    """The name stands for another schema."""

    name: str
    refusal: Refusal
    used_by_runs: int
    free_name: str

    def __str__(self) -> str:
        otherwise = f"use a new name, such as {self.free_name!r}"
        match self.refusal:
            case Refusal.NOT_USED_YET:
                return (
                    f"schema {self.name!r} already exists with a different definition; no run has used it, so --replace"
                    f" replaces it, or {otherwise}"
                )
            case Refusal.USED:
                return (
                    f"schema {self.name!r} already exists with a different definition; {_runs(self.used_by_runs)} used"
                    f" it, so it cannot be replaced: {otherwise}"
                )
            case Refusal.DELETED:
                return (
                    f"schema {self.name!r} was deleted after {_runs(self.used_by_runs)} had used it; results refer"
                    f" to it, so the name stays reserved for that schema: {otherwise}"
                )
            case unreachable:
                assert_never(unreachable)


@dataclass(eq=False)
class SchemaInUse(RunnerError):
    """A schema that runs used is not deleted by the way."""

    name: str
    used_by_runs: int

    def __str__(self) -> str:
        return (
            f"{_runs(self.used_by_runs)} used schema {self.name!r}; --force deletes it anyway; its name stays reserved"
            " for this schema, because results refer to it"
        )


def judge_name(kept: NamedSchema | None, schema: JsonObject, *, replace: bool) -> Outcome | Refusal:
    """Say what becomes of giving a name to a schema, where `kept` is what stands under that name."""
    if kept is None:
        return Outcome.ADDED
    if canonical_json(kept.schema) == canonical_json(schema):
        return Outcome.RESTORED if kept.is_deleted else Outcome.UNCHANGED
    if kept.is_deleted:
        return Refusal.DELETED
    if kept.used_by_runs:
        return Refusal.USED
    return Outcome.REPLACED if replace else Refusal.NOT_USED_YET


class SchemaRegistry:
    """The named schemas of a store.

    Each method is one step for all processes that use the store: of two that give a name to different schemas at
    once, one is refused.
    """

    def __init__(self, store: Store, now: Callable[[], str] = timestamp) -> None:
        self._schemas = store.schemas
        self._now = now

    def create(
        self, name: str, schema: JsonObject, description: str | None = None, *, replace: bool = False
    ) -> Outcome:
        """Give a name to a schema. The same once more changes nothing but the description, if one is given.

        Args:
            name: at most 100 letters, digits, `.`, `_` and `-`; the first is a letter or a digit.
            schema: what `ao_protocol.contracts.check_schema` accepts.
            description: what it is for, in a line; None leaves the one that there is.
            replace: whether it may take the place of another schema that no run used yet.

        Raises:
            BadSchemaName: the name has other characters in it.
            UnacceptableSchema: with every problem and its place.
            NameTaken: the name stands for another schema.
        """
        if not _NAME.fullmatch(name):
            raise BadSchemaName(name)
        vet(f"schema {name!r}", schema)
        with self._schemas.changing():
            kept = self._schemas.find(name)
            verdict = judge_name(kept, schema, replace=replace)
            if isinstance(verdict, Refusal):
                runs = 0 if kept is None else kept.used_by_runs
                raise NameTaken(name, verdict, runs, self._free_name(name))
            if kept is None:
                kept = NamedSchema(name, "", schema, self._now())
            elif verdict is Outcome.REPLACED:
                kept = dataclasses.replace(kept, schema=schema, created_at=self._now())
            if verdict is Outcome.UNCHANGED and description not in {None, kept.description}:
                verdict = Outcome.DESCRIBED
            if verdict is not Outcome.UNCHANGED:
                described = kept.description if description is None else description
                self._schemas.put(dataclasses.replace(kept, description=described))
        return verdict

    def list(self) -> Sequence[NamedSchema]:
        """Return those that runs can ask for, by name."""
        return [kept for kept in self._schemas.list_all() if not kept.is_deleted]

    def get(self, name: str) -> NamedSchema:
        """Return the schema of a name.

        Raises:
            SchemaNotFound: naming those that are called alike.
        """
        # No other name can be there, and some cannot even be looked for.
        kept = self._schemas.find(name) if _NAME.fullmatch(name) else None
        if kept is None or kept.is_deleted:
            names = [there.name for there in self.list()]
            raise SchemaNotFound(name, difflib.get_close_matches(name, names))
        return kept

    def delete(self, name: str, *, force: bool = False) -> NamedSchema:
        """Take a schema out of use, and return it as it was. Where runs used it, its name is kept for it.

        Raises:
            SchemaNotFound: naming those that are called alike.
            SchemaInUse: runs used it, and nobody said `force`.
        """
        with self._schemas.changing():
            kept = self.get(name)
            if not kept.used_by_runs:
                self._schemas.remove(name)
            elif force:
                self._schemas.mark_deleted(name, self._now())
            else:
                raise SchemaInUse(name, kept.used_by_runs)
        return kept

    def _free_name(self, name: str) -> str:
        """Return a name like this one that stands for nothing."""
        numbered = re.fullmatch("(.+)-([0-9]{1,6})", name)
        stem, number = (numbered[1], int(numbered[2])) if numbered else (name, 1)
        names = (f"{stem[: MAX_NAME_CHARACTERS - 10]}-{following}" for following in itertools.count(number + 1))
        return next(free for free in names if self._schemas.find(free) is None)


def vet(what: str, schema: object) -> None:
    """Accept a schema as one that answers can be held to.

    Raises:
        UnacceptableSchema: with every problem that was found and its place.
    """
    try:
        check_schema(schema)
    except InvalidSchema as error:
        raise UnacceptableSchema(what, error.problems) from error


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"

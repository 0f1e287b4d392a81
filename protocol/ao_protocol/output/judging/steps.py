"""What an explanation is made of: a site, where one schema meets one value, and the steps that lead on from it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ao_protocol.json_path import below
from ao_protocol.output.judging.engine import Engine
from ao_protocol.output.problems import Problem


@dataclass(frozen=True, slots=True)
class Site:
    """One part of a vetted schema, at `pointer`, and the value at `path` that it judges."""

    engine: Engine
    pointer: str
    schema: Any
    path: str
    value: Any

    def accepts(self) -> bool:
        """Tell whether the value is valid here."""
        return self.engine.accepts(self.pointer, self.value)

    def problem(self, message: str) -> Problem:
        """Return a problem at this place."""
        return Problem(self.path, message)

    def part(self, *steps: str | int) -> "Site":
        """Return the same value before a part of this schema."""
        return self._inside(steps, self.path, self.value)

    def member(self, key: str | int, *steps: str | int) -> "Site":
        """Return a member of the value before a part of this schema."""
        return self._inside(steps, below(self.path, key), self.value[key])

    def refused_items(self, first: int, last: int, *steps: str | int) -> "Iterator[Site]":
        """Yield the items from `first` to before `last` that a part of this schema refuses."""
        pointer = self.part(*steps).pointer
        for index in range(first, last):
            if not self.engine.accepts(pointer, self.value[index]):
                yield self.member(index, *steps)

    def name(self, key: str, *steps: str | int) -> "Site":
        """Return a key of the value before a part of this schema; its place is the object's."""
        return self._inside(steps, self.path, key)

    def at(self, pointer: str, schema: object) -> "Site":
        """Return the same value before another schema of the same document."""
        return Site(self.engine, pointer, schema, self.path, self.value)

    def _inside(self, steps: tuple[str | int, ...], path: str, value: object) -> "Site":
        schema, pointer = self.schema, self.pointer
        for step in steps:
            schema = schema[step]
            pointer = pointer_below(pointer, step)
        return Site(self.engine, pointer, schema, path, value)


Step: TypeAlias = Problem | Site
"""Either a problem, or a site whose value is invalid and is to be explained next."""

Steps: TypeAlias = Iterator[Step]


def pointer_below(pointer: str, step: str | int) -> str:
    """Return the JSON pointer (RFC 6901) one step further down."""
    return f"{pointer}/{str(step).replace('~', '~0').replace('/', '~1')}"

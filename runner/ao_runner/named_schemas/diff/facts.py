"""What is known of a value that certain schemas accept: its type, its bounds, which schemas its members satisfy."""

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Final
from urllib.parse import unquote

from ao_protocol.json_path import ROOT, below
from ao_protocol.output.judging import Engine, pointer_below, schema_at
from ao_protocol.output.judging.engine import matches
from ao_protocol.output.schema_vetting import vetted_document

MAX_PARTS: Final = 40
"""Schemas that are looked at together; what others say remains unknown."""

ALL_TYPES: Final = frozenset({"array", "boolean", "fraction", "integer", "null", "object", "string"})
"""The types that exclude each other: `number` is `integer` and `fraction`, which is every other number."""
_ONE_OF_A_FEW: Final = {"boolean": (False, True), "null": (None,)}


class Document:
    """A schema that was vetted, and the verdicts of all its parts."""

    def __init__(self, schema: object) -> None:
        self.schema = vetted_document(schema)
        self.engine = Engine(self.schema)
        self._parts: dict[str, Part] = {}

    def part(self, pointer: str = "") -> "Part":
        """Return the schema at a pointer, or the one to which it refers."""
        part = self._parts.get(pointer)
        if part is None:
            part = self._parts[pointer] = self._followed(pointer)
        return part

    def _followed(self, pointer: str) -> "Part":
        schema = schema_at(self.schema, pointer)
        while isinstance(schema, dict) and "$ref" in schema:
            pointer = unquote(schema["$ref"].removeprefix("#"))
            schema = schema_at(self.schema, pointer)
        return Part(self, pointer, schema)

    def place_of(self, pointer: str) -> str:
        """Return a pointer as a place: `$.properties.severity`."""
        place, inside = ROOT, self.schema
        for token in pointer.split("/")[1:]:
            step = token.replace("~1", "/").replace("~0", "~")
            key: str | int = int(step) if isinstance(inside, list) else step
            place, inside = below(place, key), inside[key]  # type: ignore[index]  # the pointer was followed before
        return place


@dataclass(frozen=True, slots=True)
class Part:
    """One schema of a document, after following references. Two are equal where they are the same one."""

    document: Document
    pointer: str
    schema: Any = field(compare=False)

    @property
    def rules(self) -> dict[str, Any]:
        """Return its keywords; those of `false` say that nothing is accepted, in their way."""
        if isinstance(self.schema, dict):
            return self.schema
        return {} if self.schema else {"enum": []}

    @property
    def place(self) -> str:
        """Return where it stands."""
        return self.document.place_of(self.pointer)

    def below(self, *steps: str | int) -> "Part":
        """Return a schema inside it."""
        pointer = self.pointer
        for step in steps:
            pointer = pointer_below(pointer, step)
        return self.document.part(pointer)

    def accepts(self, value: object) -> bool:
        """Tell whether it accepts a value."""
        return self.document.engine.accepts(self.pointer, value)


def types_of(rule: Any) -> frozenset[str]:  # noqa: ANN401  # a name or a list of names
    """Return what the keyword `type` allows."""
    names = {rule} if isinstance(rule, str) else set(rule)
    return frozenset(names - {"number"} | ({"integer", "fraction"} if "number" in names else set()))


def exact(number: float) -> Fraction:
    """Return a number of a schema as it is written: 0.1 is a tenth."""
    return Fraction(repr(number)) if isinstance(number, float) else Fraction(number)


class Facts:
    """What follows for a value that all of some schemas accept. `allOf` is opened; alternatives are left alone."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = tuple(dict.fromkeys(_opened(parts)))

    @cached_property
    def types(self) -> frozenset[str]:
        """Which types it can have."""
        types = ALL_TYPES
        for part in self.parts:
            types &= types_of(part.rules["type"]) if "type" in part.rules else ALL_TYPES
        return types

    @cached_property
    def values(self) -> tuple[object, ...] | None:
        """Which values it can be, where they can be counted."""
        if not self.types:
            return ()
        listed = [part.rules["enum"] for part in self.parts if "enum" in part.rules]
        listed += [[part.rules["const"]] for part in self.parts if "const" in part.rules]
        if not listed and self.types <= _ONE_OF_A_FEW.keys():
            listed = [[value for name in sorted(self.types) for value in _ONE_OF_A_FEW[name]]]
        if not listed:
            return None
        return tuple(value for value in min(listed, key=len) if all(part.accepts(value) for part in self.parts))

    @cached_property
    def is_never(self) -> bool:
        """Whether there is no such value, as far as can be seen from it and from the members that it must have."""
        if self.values == ():
            return True
        return self.types == {"object"} and any(Facts(self.member(name)).values == () for name in self.required)

    @cached_property
    def lowest(self) -> tuple[Fraction | float, bool]:
        """The bound below it, and whether it is above that bound itself."""
        bounds = [(exact(number), False) for number in self.all_of("minimum")]
        bounds += [(exact(number), True) for number in self.all_of("exclusiveMinimum")]
        number, is_open = max(bounds, default=(-math.inf, False))
        if isinstance(number, Fraction) and self._is_whole:
            return Fraction(math.floor(number) + 1 if is_open else math.ceil(number)), False
        return number, is_open

    @cached_property
    def highest(self) -> tuple[Fraction | float, bool]:
        """The bound above it, and whether it is below that bound itself."""
        bounds = [(exact(number), False) for number in self.all_of("maximum")]
        bounds += [(exact(number), True) for number in self.all_of("exclusiveMaximum")]
        number, is_open = min(bounds, default=(math.inf, False), key=lambda bound: (bound[0], not bound[1]))
        if isinstance(number, Fraction) and self._is_whole:
            return Fraction(math.ceil(number) - 1 if is_open else math.floor(number)), False
        return number, is_open

    @property
    def _is_whole(self) -> bool:
        return "fraction" not in self.types

    def steps(self) -> Iterator[Fraction]:
        """Yield the numbers of which it is a multiple, if it is a number."""
        yield from (exact(number) for number in self.all_of("multipleOf"))
        if self._is_whole:
            yield Fraction(1)

    def all_of(self, keyword: str) -> list[Any]:
        """Return what the schemas say under a keyword."""
        return [part.rules[keyword] for part in self.parts if keyword in part.rules]

    def below_all(self, keyword: str) -> list[Part]:
        """Return the schemas that stand under a keyword that holds one."""
        return [part.below(keyword) for part in self.parts if keyword in part.rules]

    def at_least(self, keyword: str) -> float:
        """Return the largest of the lower bounds under a keyword such as `minLength`."""
        return max(self.all_of(keyword), default=0)

    def at_most(self, keyword: str) -> float:
        """Return the smallest of the upper bounds under a keyword such as `maxLength`."""
        return min(self.all_of(keyword), default=math.inf)

    @cached_property
    def required(self) -> set[str]:
        """The names of the members that are there."""
        return {name for names in self.all_of("required") for name in names}

    @cached_property
    def names(self) -> set[str]:
        """The names of members of which a schema speaks by name."""
        return {name for members in self.all_of("properties") for name in members}

    def closed_names(self) -> Iterator[Collection[str]]:
        """Yield the names that members can have at all, from each schema that refuses all others."""
        for part in self.parts:
            if part.rules.get("additionalProperties") is False and not part.rules.get("patternProperties"):
                yield part.rules.get("properties", {})

    def member(self, name: str) -> list[Part]:
        """Return what a member of this name satisfies where it is there."""
        found: list[Part] = []
        for part in self.parts:
            spoken = [part.below("properties", name)] if name in part.rules.get("properties", {}) else []
            patterns = (pattern for pattern in part.rules.get("patternProperties", {}) if matches(pattern, name))
            spoken += [part.below("patternProperties", pattern) for pattern in patterns]
            if not spoken and "additionalProperties" in part.rules:
                spoken = [part.below("additionalProperties")]
            found += spoken
        return found

    @cached_property
    def positions(self) -> int:
        """Up to which position a schema speaks of single items."""
        return max((len(items) for items in self.all_of("items") if isinstance(items, list)), default=0)

    def item(self, index: int) -> list[Part]:
        """Return what the item at a position satisfies; that at `positions` stands for all that follow."""
        found: list[Part] = []
        for part in self.parts:
            items = part.rules.get("items")
            if isinstance(items, list) and index < len(items):
                found.append(part.below("items", index))
            elif isinstance(items, list):
                found += [part.below("additionalItems")] if "additionalItems" in part.rules else []
            elif items is not None:
                found.append(part.below("items"))
        return found


def _opened(parts: Iterable[Part]) -> Iterator[Part]:
    pending = deque(parts)
    for _ in range(MAX_PARTS):
        if not pending:
            return
        part = pending.popleft()
        yield part
        pending += (part.below("allOf", index) for index in range(len(part.rules.get("allOf", []))))

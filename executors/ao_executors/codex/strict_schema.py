"""Say which JSON Schemas the provider's strict structured output takes, and write them in its dialect.

The dialect demands that an object names every property as required and has no others. What only narrows an answer, such
as `minLength`, is left out: the answer is validated by the whole schema. A schema that needs more is not handed over,
because a model that must fill an optional property invents a value.

What the provider refuses is from its guide to structured outputs and from public reports: a node without `type`, `$ref`
or `anyOf` (can1357/oh-my-pi#211), keywords beside `$ref` (openai/openai-python#1637), an array without `items`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

_SAID: Final = frozenset({"description", "title"})
_NARROWING: Final = frozenset(
    {"exclusiveMaximum", "exclusiveMinimum", "maxItems", "maximum", "minItems", "minimum", "multipleOf"}
)
_LEFT_OUT: Final = frozenset(
    {"$comment", "$id", "$schema", "contains", "default", "discriminator", "examples", "format", "maxLength"}
    | {"maxProperties", "minLength", "minProperties", "pattern", "readOnly", "uniqueItems", "writeOnly"}
)
_BRANCHES: Final = frozenset({"anyOf", "oneOf"})
_OF_OBJECTS: Final = frozenset({"additionalProperties", "properties", "required"})
_KNOWN: Final = (
    _SAID | _NARROWING | _LEFT_OUT | _BRANCHES | _OF_OBJECTS
    | {"$defs", "$ref", "const", "definitions", "enum", "items", "type"}
)  # fmt: skip
_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_MAX_LEVELS: Final = 10
_MAX_PROPERTIES: Final = 5_000
_MAX_VALUES: Final = 1_000
_MAX_CHARACTERS: Final = 120_000
"""Of all names and values; those of one `enum` with more than 250 values have a limit of their own."""
_MANY_VALUES: Final = 250
_MAX_CHARACTERS_OF_MANY: Final = 15_000


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema in the strict dialect; None if the dialect cannot express it.

    Args:
        schema: A schema of an object, whose references are pointers into itself, as `native_schema` returns it.
    """
    try:
        strict = _Dialect(schema).document()
    except _NotStrict:
        return None
    return strict if _is_within_limits(strict) else None


class _NotStrict(Exception):
    """A part of the schema cannot be expressed."""


class _Dialect:
    """A schema on its way into the dialect. Definitions that are used become `$defs` of the root."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._names: dict[str, str] = {}
        self._definitions: dict[str, Any] = {}

    def document(self) -> dict[str, Any]:
        strict = self._node(self._schema)
        if strict.get("type") != "object":  # the root is an object, neither a reference nor a choice
            raise _NotStrict
        return strict | ({"$defs": self._definitions} if self._definitions else {})

    def _node(self, schema: object) -> dict[str, Any]:
        if not isinstance(schema, Mapping) or schema.keys() - _KNOWN:
            raise _NotStrict
        said = {keyword: schema[keyword] for keyword in _SAID & schema.keys()}
        if "$ref" in schema:
            return self._reference(schema["$ref"], said)
        if branches := _BRANCHES & schema.keys():
            return said | self._choice(schema, branches)
        kinds = _types_of(schema)
        strict = said | {"type": kinds[0] if len(kinds) == 1 else kinds}
        strict |= {keyword: schema[keyword] for keyword in ("enum", "const") if keyword in schema}
        strict |= {keyword: schema[keyword] for keyword in _NARROWING & schema.keys()}
        if "object" in kinds:
            strict |= self._object(schema)
        if "array" in kinds:
            strict["items"] = self._node(schema.get("items"))
        return strict

    def _reference(self, reference: str, said: dict[str, Any]) -> dict[str, Any]:
        """Return a reference without keywords beside it. A definition without references takes the description."""
        if reference == "#":
            return {"$ref": "#"}
        pointer = unquote(reference.removeprefix("#"))
        target = _at(self._schema, pointer)
        if said and "$ref" not in json.dumps(target):
            return self._node(target) | said
        name = self._names.get(pointer)
        if name is None:
            name = self._names[pointer] = self._free_name(pointer)
            self._definitions[name] = None  # keeps the order, and ends a definition that refers to itself
            self._definitions[name] = self._node(target)
        return {"$ref": f"#/$defs/{name}"}

    def _free_name(self, pointer: str) -> str:
        wanted = re.sub(r"[^A-Za-z0-9_.-]", "_", pointer.rpartition("/")[2]) or "definition"
        taken = self._names.values()
        return next(name for n in range(len(taken) + 1) if (name := f"{wanted}_{n}" if n else wanted) not in taken)

    def _choice(self, schema: Mapping[str, Any], branches: frozenset[str]) -> dict[str, Any]:
        """Return `anyOf`, whose branches say everything. A `type` beside it only narrows the answer."""
        if len(branches) > 1 or schema.keys() & (_OF_OBJECTS | {"const", "enum", "items"}):
            raise _NotStrict
        (keyword,) = branches
        return {"anyOf": [self._node(branch) for branch in schema[keyword]]}

    def _object(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        properties: Mapping[str, Any] = schema.get("properties", {})
        is_closed = schema.get("additionalProperties", not properties) is False
        if not is_closed or set(schema.get("required", ())) != set(properties):
            raise _NotStrict
        return {
            "properties": {name: self._node(member) for name, member in properties.items()},
            "required": list(properties),
            "additionalProperties": False,
        }


def _types_of(schema: Mapping[str, Any]) -> list[str]:
    """Return the types of a node, by its `type`, or by the values that it lists."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if any(isinstance(value, dict | list) for value in values):
        raise _NotStrict
    kinds = schema.get("type") or list(dict.fromkeys(_TYPES[type(value)] for value in values))
    if not kinds and "properties" not in schema:  # anything would do
        raise _NotStrict
    return [kinds] if isinstance(kinds, str) else list(kinds or ["object"])


def _at(document: Any, pointer: str) -> Any:  # noqa: ANN401  # any JSON
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def _is_within_limits(strict: Mapping[str, Any]) -> bool:
    nodes = list(_nodes(strict))
    enums = [[*node.get("enum", ()), *([node["const"]] if "const" in node else ())] for node in nodes]
    names = [name for node in nodes for name in (*node.get("properties", ()), *node.get("$defs", ()))]
    characters = [sum(len(str(value)) for value in values) for values in enums]
    return (
        _levels(strict, strict.get("$defs", {}), {}) <= _MAX_LEVELS
        and sum(len(node.get("properties", ())) for node in nodes) <= _MAX_PROPERTIES
        and sum(map(len, enums)) <= _MAX_VALUES
        and sum(characters) + sum(map(len, names)) <= _MAX_CHARACTERS
        and all(
            size <= _MAX_CHARACTERS_OF_MANY
            for values, size in zip(enums, characters, strict=True)
            if len(values) > _MANY_VALUES
        )
    )


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for below in _below(node):
        yield from _nodes(below)
    for definition in node.get("$defs", {}).values():
        yield from _nodes(definition)


def _below(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from node.get("properties", {}).values()
    yield from node.get("anyOf", ())
    if "items" in node:
        yield node["items"]


def _levels(node: Mapping[str, Any], definitions: Mapping[str, Any], known: dict[str, int]) -> int:
    """Return how many objects and arrays are one in the other at most; what a definition repeats does not count."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        if name not in known and name in definitions:
            known[name] = 0  # until it is known: the definition may refer to itself
            known[name] = _levels(definitions[name], definitions, known)
        return known.get(name, 0)
    below = max((_levels(member, definitions, known) for member in _below(node)), default=0)
    return below + ("properties" in node or "items" in node)

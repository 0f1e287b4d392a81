"""Whether a schema is an acceptable JSON Schema Draft-7: valid, of one piece, and with an end (AOX-163)."""

import re
from collections.abc import Iterator
from typing import Any

from json_schema import problems_of, resolve
from paths import below, problem_at

SELF = {"$ref": "#"}
COUNT = {"type": "integer", "minimum": 0}
NAMES = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
BRANCHES = {"type": "array", "minItems": 1, "items": SELF}
MEMBERS = {"type": "object", "additionalProperties": SELF}
TYPE_NAME = {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]}
META_SCHEMA = {
    "type": ["object", "boolean"],
    "properties": {
        "$id": {"type": "string"},
        "$schema": {"type": "string"},
        "$ref": {"type": "string"},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "$comment": {"type": "string"},
        "examples": {"type": "array"},
        "type": {"anyOf": [TYPE_NAME, {"type": "array", "items": TYPE_NAME, "minItems": 1, "uniqueItems": True}]},
        "enum": {"type": "array", "minItems": 1},
        "required": NAMES,
        "properties": MEMBERS,
        "patternProperties": MEMBERS,
        "definitions": MEMBERS,
        "additionalProperties": SELF,
        "propertyNames": SELF,
        "dependencies": {"type": "object", "additionalProperties": {"anyOf": [SELF, NAMES]}},
        "items": {"anyOf": [SELF, BRANCHES]},
        "additionalItems": SELF,
        "contains": SELF,
        "uniqueItems": {"type": "boolean"},
        "pattern": {"type": "string"},
        "format": {"type": "string"},
        "multipleOf": {"type": "number", "exclusiveMinimum": 0},
        "allOf": BRANCHES,
        "anyOf": BRANCHES,
        "oneOf": BRANCHES,
        "not": SELF,
        "if": SELF,
        "then": SELF,
        "else": SELF,
        **{bound: {"type": "number"} for bound in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")},
        **{f"{end}{what}": COUNT for end in ("min", "max") for what in ("Length", "Items", "Properties")},
    },
}
IN_PLACE = {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies"}
SINGLE = {"additionalProperties", "propertyNames", "items", "additionalItems", "contains", *IN_PLACE}
MEMBERED = {"properties", "patternProperties", "definitions", "dependencies"}


def faults_of(schema: Any, path: str = "$") -> list[str]:
    """Return why a schema is not acceptable, as `path: message`; nothing where it is."""
    problems = problems_of(META_SCHEMA, schema, path)
    return problems or [*_outside(schema, path), *_unreadable_patterns(schema, path)] or list(_endless(schema, path))


def _parts(schema: Any, path: str) -> Iterator[tuple[str, Any, str]]:
    if isinstance(schema, dict):
        for keyword, rule in schema.items():
            place = below(path, keyword)
            if keyword in MEMBERED:
                yield from ((keyword, part, below(place, key)) for key, part in rule.items())
            elif keyword in SINGLE and isinstance(rule, list):
                yield from ((keyword, part, below(place, index)) for index, part in enumerate(rule))
            elif keyword in SINGLE:
                yield keyword, rule, place


def _all_schemas(schema: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    if isinstance(schema, dict):
        yield schema, path
        for _, part, place in _parts(schema, path):
            yield from _all_schemas(part, place)


def _outside(root: Any, path: str) -> Iterator[str]:
    for schema, place in _all_schemas(root, path):
        if "$ref" in schema:
            try:
                resolve(root, schema["$ref"])
            except (LookupError, ValueError, TypeError):
                yield problem_at(below(place, "$ref"), f"{schema['$ref']!r} points at nothing in this schema")


def _unreadable_patterns(root: Any, path: str) -> Iterator[str]:
    for schema, place in _all_schemas(root, path):
        for pattern in [schema.get("pattern", ""), *schema.get("patternProperties", {})]:
            try:
                re.compile(pattern)
            except re.error as error:
                yield problem_at(place, f"{pattern!r} is no regular expression: {error}")


def _endless(root: Any, path: str) -> Iterator[str]:
    harmless: set[int] = set()
    for schema, place in _all_schemas(root, path):
        if _comes_back(root, schema, (), harmless):
            yield problem_at(place, "refers to itself without end")


def _comes_back(root: Any, schema: Any, on_the_way: tuple[int, ...], harmless: set[int]) -> bool:
    if not isinstance(schema, dict) or id(schema) in harmless:
        return False
    if id(schema) in on_the_way:
        return True
    further = (*on_the_way, id(schema))
    if "$ref" in schema:
        parts = [resolve(root, schema["$ref"])]
    else:
        parts = [part for keyword, part, _ in _parts(schema, "$") if keyword in IN_PLACE]
    if any(_comes_back(root, part, further, harmless) for part in parts):
        return True
    harmless.add(id(schema))
    return False

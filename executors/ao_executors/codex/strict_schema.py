"""Say which JSON Schemas the provider's strict structured output takes, and write them in its dialect.

The dialect demands that an object names every property as required and has no others. What only narrows an answer, such
as `minLength`, is left out: the answer is validated by the whole schema. A schema that needs more is not handed over,
because a model that must fill an optional property invents a value.
"""

from collections.abc import Mapping
from typing import Any, Final

_KEPT: Final = frozenset(
    {"$ref", "const", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maximum", "minItems"}
    | {"minimum", "multipleOf", "title", "type"}
)
_LEFT_OUT: Final = frozenset(
    {"$comment", "$id", "$schema", "contains", "default", "examples", "format", "maxLength", "maxProperties"}
    | {"minLength", "minProperties", "pattern", "readOnly", "uniqueItems", "writeOnly"}
)
_BRANCHES: Final = frozenset({"anyOf", "oneOf"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_KNOWN: Final = (
    _KEPT | _LEFT_OUT | _BRANCHES | _DEFINITIONS | {"additionalProperties", "items", "properties", "required"}
)


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema in the strict dialect; None if the dialect cannot express it."""
    try:
        return _strict(schema)
    except _NotStrict:
        return None


class _NotStrict(Exception):
    """A part of the schema cannot be expressed."""


def _strict(schema: object) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or schema.keys() - _KNOWN or {"anyOf", "oneOf"} <= schema.keys():
        raise _NotStrict
    strict = {keyword: value for keyword, value in schema.items() if keyword in _KEPT}
    for keyword in _BRANCHES & schema.keys():
        strict["anyOf"] = [_strict(branch) for branch in schema[keyword]]
    for keyword in _DEFINITIONS & schema.keys():
        strict[keyword] = {name: _strict(definition) for name, definition in schema[keyword].items()}
    if "items" in schema:
        strict["items"] = _strict(schema["items"])
    kinds = schema.get("type", ())
    if "object" in ([kinds] if isinstance(kinds, str) else kinds) or "properties" in schema:
        return strict | _object(schema)
    if not strict.keys() & {"$ref", "anyOf", "const", "enum", "type"}:  # anything would do
        raise _NotStrict
    return strict


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    is_open = schema.get("additionalProperties") is not False
    if set(schema.get("required", ())) != set(properties) or (is_open and not properties):
        raise _NotStrict
    return {
        "type": schema.get("type", "object"),
        "properties": {name: _strict(member) for name, member in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }

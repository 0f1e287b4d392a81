"""Recognise the schema where the answer should be: a permissive schema even matches itself."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pydantic import JsonValue

_ANNOTATIONS: Final = frozenset(
    {
        "$comment",
        "$id",
        "$schema",
        "default",
        "deprecated",
        "description",
        "example",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
_MAPS_OF_SCHEMAS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


def is_echo(value: "JsonValue", schema: Mapping[str, Any]) -> bool:
    """Tell whether a value repeats the schema, annotations aside, alone or as a member, or is poured into it."""
    if not isinstance(value, dict) or len(schema.keys() - _ANNOTATIONS) == 0:
        return False
    if _repeats(value, dict(schema)) or _is_poured_into_schema(value, schema):
        return True
    return len(schema.keys() - _ANNOTATIONS) > 1 and any(_repeats(member, dict(schema)) for member in value.values())


def _repeats(value: "JsonValue", schema: "JsonValue") -> bool:
    """Compare without recursion. In a map of schemas the keys are names, not keywords."""
    pairs: list[tuple[JsonValue, JsonValue, bool]] = [(value, schema, True)]
    while pairs:
        one, other, are_keywords = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            ignored = _ANNOTATIONS if are_keywords else frozenset()
            keys = one.keys() - ignored
            if keys != other.keys() - ignored:
                return False
            pairs.extend((one[key], other[key], not (are_keywords and key in _MAPS_OF_SCHEMAS)) for key in keys)
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pairs.extend((left, right, True) for left, right in zip(one, other, strict=True))
        elif one != other or isinstance(one, bool) is not isinstance(other, bool):
            return False
    return True


def _is_poured_into_schema(value: "dict[str, JsonValue]", schema: Mapping[str, Any]) -> bool:
    """Tell whether the value has the shape of a schema where the schema asks for none."""
    wanted = schema.get("properties")
    if not isinstance(wanted, dict) or not wanted or "properties" in wanted:
        return False
    return value.get("type") == "object" and isinstance(value.get("properties"), dict)

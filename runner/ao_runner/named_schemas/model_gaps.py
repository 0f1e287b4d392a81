"""What a schema demands and a model written of it does not: answers are held to the schema, not to the model."""

from collections.abc import Iterator
from typing import Any, Final

from ao_protocol.json_path import below
from ao_protocol.wire import JsonObject
from ao_runner.named_schemas.model_source import can_be_matched
from ao_runner.named_schemas.tree import walk

_NEVER: Final = ("not", "if", "contains", "dependencies", "propertyNames", "uniqueItems")
_NOT_BESIDE_PROPERTIES: Final = ("patternProperties", "minProperties", "maxProperties")


def gaps_in_model(schema: JsonObject) -> Iterator[str]:
    """Yield what is not in the model of a schema, or not exactly, each with its place."""
    for place, inside in walk(schema):
        for keyword in [*_NEVER, *_NOT_BESIDE_PROPERTIES * bool(inside.get("properties"))]:
            if inside.get(keyword):
                yield f"{below(place, keyword)} is not in the model"
        if "pattern" in inside and not can_be_matched(inside["pattern"], is_python=True):
            yield f"{below(place, 'pattern')} is not in the model, since Python cannot match it"
        yield from _inexact(place, inside)


def _inexact(place: str, schema: dict[str, Any]) -> Iterator[str]:
    for keyword in ("enum", "const"):
        values = schema.get(keyword) if keyword == "enum" else [schema.get(keyword)]
        if any(isinstance(value, dict | list | float) for value in values or []):
            yield f"{below(place, keyword)} is not exactly in the model: it holds other than texts and whole numbers"
    if isinstance(schema.get("items"), list) and schema.get("additionalItems") is not False:
        yield f"{below(place, 'items')} is not in this order in the model; beside 'additionalItems': false it would be"
    together = schema.get("allOf", [])
    if len(together) > 1 and not all(map(_is_class, together)):
        yield f"{below(place, 'allOf')} is not exactly in the model: it holds other than objects"


def _is_class(schema: Any) -> bool:  # noqa: ANN401  # an object or a boolean
    """Tell whether a schema is one of those that models inherit from each other: objects, and what is referred to."""
    return isinstance(schema, dict) and ("$ref" in schema or schema.get("type") == "object" or "properties" in schema)

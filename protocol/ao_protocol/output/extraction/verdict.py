"""Ask whether a value keeps the schema, and whether it is the schema. Whether that is sound is not asked here."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jsonschema_rs

if TYPE_CHECKING:
    from pydantic import JsonValue


def validity_under(schema: Mapping[str, Any] | None) -> "Callable[[JsonValue], bool]":
    """Return the predicate for a schema; without one every value is valid, under a broken one none is."""
    if schema is None:
        return lambda _: True
    try:
        validator = jsonschema_rs.validator_for(dict(schema), offline=True)
    except ValueError:
        return lambda _: False

    def ok(value: "JsonValue") -> bool:
        try:
            return validator.is_valid(value)
        except ValueError:
            return False
    return ok

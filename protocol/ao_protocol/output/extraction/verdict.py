"""The schema's verdict as a predicate. Whether the schema itself is sound is not asked here."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ao_protocol.output.schema_vetting import InvalidSchema
from ao_protocol.output.validation import validator_for

if TYPE_CHECKING:
    from pydantic import JsonValue


def validity_under(schema: Mapping[str, Any] | None) -> "Callable[[JsonValue], bool]":
    """Return the predicate for a schema; without one every value is valid, under a broken one none is."""
    if schema is None:
        return lambda _: True
    try:
        return validator_for(schema).is_valid
    except InvalidSchema:
        return lambda _: False

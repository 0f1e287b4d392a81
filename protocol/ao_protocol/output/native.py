"""A schema as providers take it for their own structured output: an object at the root, no dialect named (SPEC 9.6)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ao_protocol.output.schema_vetting import vetted_document

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_NATIVE_BYTES: Final = 100_000
"""A provider's client takes the schema as one argument of a program, of which Linux allows 131,072 bytes."""

WRAPPER: Final = "value"
_BELOW: Final = f"/properties/{WRAPPER}"
_NOT_AT_THE_ROOT: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf"})


@dataclass(frozen=True, slots=True)
class NativeOutput:
    """Data that came beside the text: a provider's structured output, or an executor's own."""

    value: "JsonValue"


@dataclass(frozen=True, slots=True)
class NativeSchema:
    """The schema to hand to a provider; where it had to be wrapped, the answer stands in the member `value`."""

    document: dict[str, Any]
    is_wrapped: bool

    def unwrap(self, value: "JsonValue") -> "JsonValue":
        """Return the answer that a provider's value holds; one that is not wrapped as agreed is left as it is."""
        if self.is_wrapped and isinstance(value, dict) and value.keys() == {WRAPPER}:
            return value[WRAPPER]
        return value


def native_schema(schema: Mapping[str, Any]) -> NativeSchema:
    """Return a schema as a provider takes it.

    Measured on the Claude CLI 2.1.330: `$schema` 2020-12 makes it exit, and the tool that carries the answer takes
    objects only; the Messages API takes no `allOf`, `anyOf` or `oneOf` at the root of a tool's schema. So `$schema` and
    `$id` go, references become pointers, and a schema that is not plainly one of an object becomes a member of one.

    Raises:
        InvalidSchema: the schema is not acceptable.
    """
    if schema.get("type") == "object" and _NOT_AT_THE_ROOT.isdisjoint(schema):
        return NativeSchema(vetted_document(schema), is_wrapped=False)
    inner = vetted_document(schema, _BELOW)
    document = {
        "type": "object",
        "required": [WRAPPER],
        "additionalProperties": False,
        "properties": {WRAPPER: inner},
    }
    return NativeSchema(document, is_wrapped=True)


def fits_natively(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema is short enough to be handed to a provider."""
    return len(json.dumps(native_schema(schema).document).encode()) <= MAX_NATIVE_BYTES

"""Makes what comes from outside, such as a tool's input, into JSON that every receiver reads the same way (SPEC 3, 5).

An integer outside +-(2^53-1) becomes its decimal text, and what would be nested deeper than a line may be, its JSON
text. What the protocol itself counts is left alone: a figure of usage that does not fit is a fault to be told.
"""

import json
from collections.abc import Mapping
from typing import Final

from ao_protocol.framing import MAX_DEPTH, MAX_SAFE_INTEGER

_PAYLOADS: Final = frozenset({"tool_input", "tool_output", "result_data", "schema"})
_FIRST_LEVEL: Final = 2
"""That of a container in a field of an event, which is a container itself."""


def interoperable_fields(event_type: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of an event with its payloads made interoperable; all of a vendor's event is payload."""
    is_payload = fields.keys() if event_type.startswith("_") else _PAYLOADS
    changed = {
        name: _interoperable(value, _FIRST_LEVEL) if name in is_payload else value for name, value in fields.items()
    }
    error = changed.get("error")
    if isinstance(error, Mapping) and "details" in error:
        changed["error"] = {**error, "details": _interoperable(error["details"], _FIRST_LEVEL + 1)}
    return changed


def _interoperable(value: object, level: int) -> object:
    """Return a value as it can stand where a container would be the `level`th of its line, counted from 1."""
    if isinstance(value, int):
        return value if isinstance(value, bool) or abs(value) <= MAX_SAFE_INTEGER else str(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if level > MAX_DEPTH:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return {name: _interoperable(member, level + 1) for name, member in value.items()}
    return [_interoperable(item, level + 1) for item in value]

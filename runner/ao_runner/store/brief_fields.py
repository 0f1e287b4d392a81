"""How a list shows a field that is too large for it: by its size and its begin. The thing itself has it whole."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue

from ao_protocol.wire import JsonObject

MAX_LISTED_BYTES: Final = 32 * 1024
"""A list has up to 1,000 items."""
BEGIN_CHARACTERS: Final = 2000
OMITTED: Final = "_ao/omitted_bytes"
"""The size of the field as JSON."""
BEGINS: Final = "begins"
"""The begin of the field as JSON."""


def brief(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an item of a list, each at most `MAX_LISTED_BYTES` long. Lists have no attachments."""
    return {name: _brief(value) for name, value in fields.items() if name != "attachments"}


def brief_columns(beginning_sql: str) -> dict[str, str]:
    """Return SQL expressions for columns of a run that no list reads whole: brief parameters, and no attachments."""
    begin = beginning_sql.format(column="parameters", characters=BEGIN_CHARACTERS)
    marker = f"""'{{"{OMITTED}": ' || length(parameters) || ', "{BEGINS}": ' || {begin} || '}}'"""
    parameters = f"CASE WHEN length(parameters) > {MAX_LISTED_BYTES} THEN {marker} ELSE parameters END"
    return {"parameters": parameters, "attachments": "NULL"}


def without_data(attachments: Sequence[JsonObject]) -> list[JsonValue]:
    """Return attachments with the number of their `bytes` instead of their `data`."""
    shown = [{name: value for name, value in one.items() if name != "data"} for one in attachments]
    datas = [str(one.get("data", "")) for one in attachments]
    sizes: list[JsonObject] = [{"bytes": len(data) // 4 * 3 - data[-2:].count("=")} if data else {} for data in datas]
    return [one | size for one, size in zip(shown, sizes, strict=True)]


def begin_of(value: JsonValue) -> JsonValue:
    """Return the begin of a field that is omitted, and any other value as it is."""
    return value[BEGINS] if isinstance(value, dict) and OMITTED in value and BEGINS in value else value


def _brief(value: object) -> object:
    text = json.dumps(value) if isinstance(value, dict | list | tuple | str) else ""  # others are short
    return value if len(text) <= MAX_LISTED_BYTES else {OMITTED: len(text), BEGINS: text[:BEGIN_CHARACTERS]}

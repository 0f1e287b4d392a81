"""Cutting an event that would be too long: `truncated` and `original_bytes` say so (AOX-029)."""

import json
from collections.abc import Callable
from typing import Any

Encode = Callable[[dict[str, Any]], bytes]

TEXT_FIELDS = {
    "message": "content",
    "message_delta": "content",
    "tool_started": "tool_input",
    "tool_finished": "tool_output",
    "log": "message",
    "result": "result_text",
}
LISTS_OF_ERRORS = ("validation_errors", "problems", "violations", "missing", "errors")


def shrunk(event_type: str, fields: dict[str, Any], encode: Encode, max_bytes: int) -> bytes:
    """Return the line of an event with as much of its text as there is room for."""
    field = TEXT_FIELDS.get(event_type)
    if field is None:
        return _with_fewer_errors(fields, encode, max_bytes)
    whole = _text_of(fields[field])

    def cut_to(length: int) -> bytes:
        text = whole[:length]
        content = [{**fields[field][0], "text": text}] if field == "content" else text
        marks = {"truncated": True, "original_bytes": len(whole.encode(errors="replace"))}
        return encode({**fields, field: content, **marks})

    most, too_many = 0, min(len(whole), max_bytes)
    while most + 1 < too_many:
        middle = (most + too_many) // 2
        most, too_many = (middle, too_many) if len(cut_to(middle)) <= max_bytes else (most, middle)
    return cut_to(most)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(block["text"] for block in value)
    return json.dumps(value, ensure_ascii=False)


def _with_fewer_errors(fields: dict[str, Any], encode: Encode, max_bytes: int) -> bytes:
    shortened = fields
    while len(line := encode(shortened)) > max_bytes:
        before, shortened = shortened, _halved(shortened)
        if shortened == before:
            break
    return line


def _halved(value: Any, name: str = "") -> Any:
    match value:
        case dict():
            return {key: _halved(one, key) for key, one in value.items() if key != "schema"}
        case list() if name in LISTS_OF_ERRORS and len(value) > 1:
            return value[: len(value) // 2]
        case list():
            return [_halved(one) for one in value]
        case str() if len(value) > 200:
            return value[: len(value) // 2]
    return value

"""Makes an event fit the line limit by cutting the one text in it that may be cut (SPEC 3).

A cut event says so: `truncated` and `original_bytes`. Data under a contract is never cut.
"""

import json
from collections.abc import Mapping
from typing import Final

from ao_protocol.framing import encode_line

_MARKS_BYTES: Final = len(b',"truncated":true,"original_bytes":9007199254740991')
_CUTTABLE: Final = {
    "message": "content",
    "message_delta": "content",
    "tool_started": "tool_input",
    "tool_finished": "tool_output",
    "log": "message",
    "result": "result_text",
}


class EventTooLarge(ValueError):
    """An event does not fit the line limit, and nothing in it may be cut."""

    def __init__(self, event_type: object, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(event_type, size_bytes, limit_bytes)
        self.event_type = event_type
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return (
            f"the {self.event_type} event has {self.size_bytes} bytes and {self.limit_bytes} are allowed; "
            f"raise limits.max_event_bytes to at least {self.size_bytes}"
        )


def shrink(envelope: Mapping[str, object], fields: Mapping[str, object], limit_bytes: int) -> bytes:
    """Return a line of at most `limit_bytes` for an event whose line is longer.

    Raises:
        EventTooLarge: where cutting would falsify the event, or is not enough.
    """
    event_type = envelope["event_type"]
    name = _CUTTABLE.get(str(event_type))
    size = len(encode_line({**envelope, **fields}))
    if name is None or fields.get(name) is None:
        raise EventTooLarge(event_type, size, limit_bytes)
    whole = _text_of(fields[name])
    bare = {**envelope, **fields, name: _like(fields[name], "")}
    room = limit_bytes - len(encode_line(bare)) - _MARKS_BYTES
    marks = {"truncated": True, "original_bytes": len(whole.encode(errors="replace"))}
    line = encode_line({**bare, name: _like(fields[name], _cut(whole, room)), **marks})
    if len(line) > limit_bytes:
        raise EventTooLarge(event_type, size, limit_bytes)
    return line


def _text_of(value: object) -> str:
    if isinstance(value, list) and all(isinstance(block, dict) and "text" in block for block in value):
        return "".join(block["text"] for block in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _like(value: object, text: str) -> object:
    is_content = isinstance(value, list) and all(isinstance(block, dict) and "text" in block for block in value)
    return [{"type": "text", "text": text}] if is_content else text


def _cut(text: str, room_bytes: int) -> str:
    """Return the longest beginning of `text` whose JSON form has at most `room_bytes`."""
    low, high = 0, min(len(text), max(room_bytes, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if len(encode_line({"": text[:middle]})) - len(b'{"":""}\n') <= room_bytes:
            low = middle
        else:
            high = middle - 1
    return text[:low]

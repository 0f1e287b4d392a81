"""Makes an event fit for the wire if it is not: its payloads by RFC 7493, its line by the limit (SPEC 3, 5).

Internal, and imported only if an event needs it. In a payload, such as a tool's input, an integer outside +-(2^53-1)
becomes its decimal text, and what is nested deeper than a line may be becomes its JSON text. The protocol's own numbers
are left alone: a usage figure that does not fit is a fault. A line that is too long is cut where texts may be cut, and
says so with `truncated` and `original_bytes` (AOX-028, AOX-029). Data under a contract is never cut.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from ao_executors.core.failures import EventTooLarge
from ao_protocol.framing import MAX_DEPTH, MAX_SAFE_INTEGER, encode_line

_PAYLOADS: Final = frozenset({"tool_input", "tool_output", "result_data", "schema"})
_FIRST_LEVEL: Final = 2
"""That of a container in a field of an event, which is a container itself."""
_CUTTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "message": ("content",),
    "message_delta": ("content",),
    "tool_started": ("tool_input",),
    "tool_finished": ("tool_output", "tool_input", "error"),
    "log": ("message",),
    "result": ("result_text",),
}
"""The fields that hold text, or what can be shown as text. The largest of them is cut first."""


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


def shrink(envelope: Mapping[str, object], fields: Mapping[str, object], limit_bytes: int) -> bytes:
    """Return a line of at most `limit_bytes` for an event whose line is longer.

    Raises:
        EventTooLarge: where cutting would falsify the event, or is not enough.
    """
    match envelope["event_type"]:
        case "failure":
            candidates = _shorter_failures(envelope, fields, limit_bytes)
        case "output_validation":
            candidates = _fewer_errors(envelope, fields, limit_bytes)
        case event_type:
            candidates = _shorter_texts(envelope, fields, limit_bytes, _CUTTABLE.get(str(event_type), ()))
    for document in candidates:
        line = encode_line(document)
        if len(line) <= limit_bytes:
            return line
    raise EventTooLarge(envelope["event_type"], len(encode_line({**envelope, **fields})), limit_bytes)


def _shorter_texts(
    envelope: Mapping[str, object], fields: Mapping[str, object], limit_bytes: int, names: tuple[str, ...]
) -> Iterator[dict[str, object]]:
    texts = {name: _text_of(fields[name]) for name in names if fields.get(name) is not None}
    sizes = {name: len(text.encode(errors="replace")) for name, text in texts.items()}
    document = {**envelope, **fields, "truncated": True, "original_bytes": sum(sizes.values())}
    original_bytes = 0
    for name in sorted(texts, key=lambda name: -sizes[name]):
        room = limit_bytes - len(encode_line({**document, name: _like(fields[name], "")}))
        document[name] = _like(fields[name], _cut(texts[name], room))
        original_bytes += sizes[name]
        yield {**document, "original_bytes": original_bytes}


def _shorter_failures(
    envelope: Mapping[str, object], fields: Mapping[str, object], limit_bytes: int
) -> Iterator[dict[str, object]]:
    """Leave out the details, then validation errors from the end, then the end of the message: a failure must fit."""
    given = fields["error"]
    error = dict(given) if isinstance(given, Mapping) else {}
    error["details"] = {"truncated": True, "original_bytes": len(encode_line({"": given}))}
    yield {**envelope, **fields, "error": error}
    if error.get("validation_errors"):
        bare = {**envelope, **fields, "error": {**error, "validation_errors": [], "message": ""}}
        room = (limit_bytes - len(encode_line(bare))) // 2
        error["validation_errors"] = _first_that_fit(error["validation_errors"], room)
        yield {**envelope, **fields, "error": error}
    room = limit_bytes - len(encode_line({**envelope, **fields, "error": {**error, "message": ""}}))
    yield {**envelope, **fields, "error": {**error, "message": _cut(str(error.get("message")), room)}}


def _fewer_errors(
    envelope: Mapping[str, object], fields: Mapping[str, object], limit_bytes: int
) -> Iterator[dict[str, object]]:
    room = limit_bytes - len(encode_line({**envelope, **fields, "errors": []}))
    yield {**envelope, **fields, "errors": _first_that_fit(fields["errors"], room)}


def _first_that_fit(texts: object, room_bytes: int) -> list[str]:
    """Return the first texts, the last of them cut, whose JSON forms take at most `room_bytes` with their commas."""
    kept: list[str] = []
    for text in texts if isinstance(texts, list) else []:
        room_bytes -= len('"",')
        short = _cut(text, room_bytes)
        if not short:
            break
        kept.append(short)
        room_bytes -= _json_bytes(short)
    return kept


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
        if _json_bytes(text[:middle]) <= room_bytes:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _json_bytes(text: str) -> int:
    return len(encode_line({"": text})) - len(b'{"":""}\n')

"""Make a valid line of an event that is none: one that is too long, or whose payload is not I-JSON. Internal.

In a payload, such as a tool's input, an integer outside +-(2^53-1), NaN and an infinity become their text, and a value
that is nested too deep becomes its JSON text. The protocol's own numbers stay: a usage figure out of range is an error.
In a line that is too long, texts that may be cut are cut, with `truncated` and `original_bytes` (AOX-028, AOX-029).
Data under an output contract is never cut.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import partial
from math import isfinite
from typing import Any, Final, TypeAlias

from ao_protocol.framing import MAX_DEPTH, MAX_SAFE_INTEGER, NotIJson, encode_line

_Fields: TypeAlias = Mapping[str, object]

_PAYLOADS: Final = frozenset({"tool_input", "tool_output", "result_data", "schema"})
_FIRST_LEVEL: Final = 2
"""The level of a container in a field of an event; the event itself is level 1."""
_CUTTABLE: Final[Mapping[object, tuple[str, ...]]] = {
    "message": ("content",),
    "message_delta": ("content",),
    "tool_started": ("tool_input",),
    "tool_finished": ("tool_output", "tool_input", "error"),
    "log": ("message",),
    "result": ("result_text",),
}
"""The fields that hold text, or a value that can be written as text. The largest of them is cut first."""


def interoperable_fields(event_type: str, fields: _Fields, refusal: ValueError) -> dict[str, object]:
    """Return the fields of an event with its payloads as I-JSON. In a vendor event every field is payload, but NaN."""
    if event_type.startswith("_") and not isinstance(refusal, NotIJson):
        raise refusal
    is_payload = fields.keys() if event_type.startswith("_") else _PAYLOADS
    changed = {
        name: _interoperable(value, _FIRST_LEVEL) if name in is_payload else value for name, value in fields.items()
    }
    error = changed.get("error")
    if isinstance(error, Mapping) and "details" in error:
        changed["error"] = {**error, "details": _interoperable(error["details"], _FIRST_LEVEL + 1)}
    return changed


def _interoperable(value: object, level: int) -> object:
    """Return a value as I-JSON. `level` is the nesting level in the line, from 1, that it has if it is a container."""
    if isinstance(value, int | float):
        is_safe = isfinite(value) if isinstance(value, float) else abs(value) <= MAX_SAFE_INTEGER
        return value if is_safe else str(value)
    if not isinstance(value, Mapping | list | tuple):
        return value
    if level > MAX_DEPTH:
        try:
            return json.dumps(value, ensure_ascii=False)
        except RecursionError:
            return "… (nested too deep to be shown)"
    if isinstance(value, Mapping):
        return {name: _interoperable(member, level + 1) for name, member in value.items()}
    return [_interoperable(item, level + 1) for item in value]


def shortened_line(document: _Fields, limit_bytes: int) -> bytes | None:
    """Return a line of at most `limit_bytes` for an event; None if cutting would falsify it, or is not enough."""
    match document["event_type"]:
        case "failure":
            candidates = _shorter_failures(document, limit_bytes)
        case "output_validation":
            room = limit_bytes - _size({**document, "errors": []})
            candidates = iter([{**document, "errors": _first_that_fit(document["errors"], room)}])
        case event_type:
            candidates = _shorter_texts(document, limit_bytes, _CUTTABLE.get(event_type, ()))
    lines = map(encode_line, candidates)
    return next((line for line in lines if len(line) <= limit_bytes), None)


def _shorter_texts(document: _Fields, limit_bytes: int, names: tuple[str, ...]) -> Iterator[_Fields]:
    texts = {name: _text_of(document[name]) for name in names if document.get(name) is not None}
    sizes = {name: len(text.encode(errors="replace")) for name, text in texts.items()}
    shorter = {**document, "truncated": True, "original_bytes": sum(sizes.values())}
    original_bytes = 0
    for name in sorted(texts, key=lambda name: -sizes[name]):
        like_given = partial(_content_of, _kind_of(document[name])) if _is_content(document[name]) else str
        room = limit_bytes - _size({**shorter, name: like_given("")})
        shorter[name] = like_given(_cut(texts[name], room))
        original_bytes += sizes[name]
        yield {**shorter, "original_bytes": original_bytes}


def _shorter_failures(document: _Fields, limit_bytes: int) -> Iterator[_Fields]:
    """Yield ever shorter failures: without details, then fewer validation errors, then a shorter message."""
    given = document["error"]
    error = dict(given) if isinstance(given, Mapping) else {}
    error["details"] = {"truncated": True, "original_bytes": _size({"": given})}
    yield {**document, "error": error}
    if error.get("validation_errors"):
        room = (limit_bytes - _size({**document, "error": {**error, "validation_errors": [], "message": ""}})) // 2
        error["validation_errors"] = _first_that_fit(error["validation_errors"], room)
        yield {**document, "error": error}
    room = limit_bytes - _size({**document, "error": {**error, "message": ""}})
    yield {**document, "error": {**error, "message": _cut(str(error.get("message")), room)}}


def _first_that_fit(texts: object, room_bytes: int) -> list[str]:
    """Return the first texts whose JSON forms, with commas, fit into `room_bytes`. The last one may be cut."""
    kept: list[str] = []
    for text in texts if isinstance(texts, list) else []:
        room_bytes -= len('"",')
        short = _cut(text, room_bytes)
        if not short:
            break
        kept.append(short)
        room_bytes -= _json_bytes(short)
    return kept


def _is_content(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(block, dict) and "text" in block for block in value)


def _kind_of(content: Any) -> str:  # noqa: ANN401  # the blocks of a message, or what looks like them
    """Return the type of the blocks that are kept: text if there is any, so that no reasoning becomes text."""
    kinds = [block.get("type", "text") for block in content]
    return kinds[0] if kinds and "text" not in kinds else "text"


def _content_of(kind: str, text: str) -> list[dict[str, str]]:
    return [{"type": kind, "text": text}]


def _text_of(value: object) -> str:
    if isinstance(value, list) and _is_content(value):
        kind = _kind_of(value)
        return "".join(block["text"] for block in value if block.get("type", "text") == kind)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str, room_bytes: int) -> str:
    """Return the longest prefix of `text` whose JSON form has at most `room_bytes`."""
    lengths = range(min(len(text), max(room_bytes, 0)) + 1)
    fitting = bisect_right(lengths, room_bytes, key=lambda length: _json_bytes(text[:length]))
    return text[: max(0, fitting - 1)]


def _json_bytes(text: str) -> int:
    return _size({"": text}) - len(b'{"":""}\n')


def _size(document: _Fields) -> int:
    return len(encode_line(document))

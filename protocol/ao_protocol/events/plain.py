"""Events that are plainly valid, told apart from all others at a tenth of the price.

Whoever only passes events on need not build them. Nothing here says what is wrong with an event: where the answer is
None, `parse_event` decides.
"""

import math
import re
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, TypeAlias

from pydantic_core import from_json

from ao_protocol.events.bodies import VENDOR_TYPE
from ao_protocol.events.envelope import UTC_TIME
from ao_protocol.ijson import MAX_DEPTH, MAX_SAFE_INTEGER

_Document: TypeAlias = dict[str, Any]

_envelope: Final = itemgetter("event_type", "seq", "timestamp", "run_id", "session_id")
# Events that follow each other fast have the same time.
is_time: Final = lru_cache(maxsize=64)(re.compile(UTC_TIME).fullmatch)
_is_vendors: Final = re.compile(VENDOR_TYPE).fullmatch
_CUT_SHORT: Final = frozenset({"truncated", "original_bytes"})
_BACKSLASH: Final = 0x5C
_NEVER: Final = 1 << 60
"""A number of strings that no line has."""


def plain_event(line: bytes) -> _Document | None:
    """Return the document of a line that is an event for certain; None where only `parse_event` can tell.

    A document that is returned has strings for `event_type`, `run_id` and `session_id`, an integer for `seq`, and
    what its type of event demands. Its numbers may be less exact than those of `parse_event`.
    """
    try:
        document = from_json(line, allow_inf_nan=False, cache_strings="keys")
        event_type, seq, time, run_id, session_id = _envelope(document)
        if (
            type(seq) is not int
            or not 0 < seq <= MAX_SAFE_INTEGER
            or type(run_id) is not str
            or type(session_id) is not str
            or not is_time(time)
        ):
            return None
        strings = _COUNTS.get(event_type, _vendors)(document)
    except (ValueError, LookupError, TypeError):
        return None
    # A key that stood twice left no trace in the document, but its quotes in the line.
    return document if strings and _quotes(line) == 2 * strings else None


def _quotes(line: bytes) -> int:
    if _BACKSLASH in line:
        line = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    return line.count(b'"')


# Each returns how many strings the document has, its keys included, or 0 where its fields are not plainly valid; it may
# also raise where something is missing or of another type.


def _message(document: _Document) -> int:
    message_id, role, content = _message_fields(document)
    if type(message_id) is not str or not message_id or role not in _ROLES or type(content) is not list:
        return 0
    for block in content:
        if type(block) is not dict or len(block) != 2 or block["type"] != "text" or type(block["text"]) is not str:
            return 0
    return 14 + 4 * len(content) if len(document) == 8 else _strings_of_more(document)


def _log(document: _Document) -> int:
    if type(document["message"]) is not str or document["level"] not in _LEVELS:
        return 0
    return 13 if len(document) == 7 else _strings_of_more(document)


def _heartbeat(document: _Document) -> int:
    if document["phase"] not in _PHASES or not _is_count(document["last_progress_seq"]):
        return 0
    return _strings(document, MAX_DEPTH)


def _tool_started(document: _Document) -> int:
    return _strings_of_more(document) if _names_a_call(document) else 0


def _tool_finished(document: _Document) -> int:
    if document["status"] not in _STATUSES or type(document.get("error", "")) is not str:
        return 0
    return _strings_of_more(document) if _names_a_call(document) else 0


def _usage(document: _Document) -> int:
    cost = document.get("cost_usd", 0)
    if not _is_count(cost) and (type(cost) is not float or cost < 0):
        return 0
    return _strings(document, MAX_DEPTH) if all(_is_count(document.get(name, 0)) for name in _TOKENS) else 0


def _vendors(document: _Document) -> int:
    return _strings(document, MAX_DEPTH) if _is_vendors(document["event_type"]) else 0


_message_fields: Final = itemgetter("message_id", "role", "content")
_ROLES: Final = ("assistant", "user", "system")
_LEVELS: Final = ("debug", "info", "warning", "error")
_PHASES: Final = ("model", "tool", "retry_wait", "idle")
_STATUSES: Final = ("completed", "failed", "denied", "cancelled")
_TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_COUNTS: Final[dict[str, Callable[[_Document], int]]] = {
    "message_delta": _message,
    "message": _message,
    "tool_started": _tool_started,
    "tool_finished": _tool_finished,
    "log": _log,
    "heartbeat": _heartbeat,
    "usage": _usage,
}


def _names_a_call(document: _Document) -> bool:
    call, name = document.get("tool_call_id"), document.get("tool_name")
    return type(call) is str and type(name) is str and call != "" and name != ""


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _strings_of_more(document: _Document) -> int:
    return _strings(document, MAX_DEPTH) if _CUT_SHORT.isdisjoint(document) else 0


def _strings(value: Any, levels: int) -> int:  # noqa: ANN401  # any JSON, looked at by its type
    """Return how many strings a value holds, or more than a line can have where it is not plainly I-JSON."""
    kind = type(value)
    if kind is str:
        return 1
    if kind is int:
        return 0 if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else _NEVER
    if kind is float:
        return 0 if math.isfinite(value) else _NEVER
    if kind is not dict and kind is not list:
        return 0
    if levels == 0:
        return _NEVER
    strings, items = (len(value), value.values()) if kind is dict else (0, value)
    for item in items:
        strings += 1 if type(item) is str else _strings(item, levels - 1)
    return strings

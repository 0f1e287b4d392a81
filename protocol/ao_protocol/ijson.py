"""One line to one JSON object, under the rules of I-JSON (RFC 7493, SPEC 3).

Duplicate keys, integers outside +-(2^53-1), NaN, infinities and more than 64 levels are refused.
"""

import json
import re
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Final, NoReturn, cast

if TYPE_CHECKING:
    from pydantic import JsonValue  # this module is on the way to an executor's first event: no heavy import

MAX_DEPTH: Final = 64
MAX_SAFE_INTEGER: Final = 2**53 - 1

_BRACKET_OR_STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_LONG_NUMBER: Final = b":" + b"0" * len(str(MAX_SAFE_INTEGER))
_AS_LONG_NUMBERS: Final = bytes.maketrans(b"123456789,[-", b"000000000:::")
"""What stands before a number, and every digit, as they stand in `_LONG_NUMBER`."""
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class NotIJson(ValueError):
    """A line is not one JSON object that every receiver would read the same way."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


def decode_object(line: bytes) -> "dict[str, JsonValue]":
    """Return the JSON object that stands on a line. A byte-order mark before it is tolerated.

    `1.0` stays a float here; where the protocol wants an integer, `ao_protocol.wire.Integer` takes it for 1 (AOX-033).
    An escaped lone surrogate, half of a character that somebody cut in two, is read as U+FFFD.

    Args:
        line: UTF-8, with or without the whitespace around the object.

    Returns:
        The object, each key of it once.

    Raises:
        NotIJson: saying what was found, and where.
    """
    try:
        text = line.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise NotIJson(f"byte {error.start} is not UTF-8") from error
    _refuse_depth(text)
    document = _load(text)
    if not isinstance(document, dict):
        raise NotIJson(f"expected a JSON object, found {_kind(document)}")
    return _without_lone_surrogates(document) if _SURROGATE_ESCAPE.search(text) else document


def refuse_what_is_not_read(written: bytes) -> None:
    """Look at a compact line that an encoder has made: would a receiver refuse it for its integers or its depth?

    It takes 200 ns for a usual event: the line is read only where a number seems to be as long as an unsafe integer.

    Raises:
        NotIJson: saying what was found.
    """
    if written.count(b"[") + written.count(b"{") > MAX_DEPTH:
        _refuse_depth(written.decode())
    if _LONG_NUMBER in written.translate(_AS_LONG_NUMBERS):
        json.loads(written, parse_int=_safe_integer)


def _load(text: str) -> "JsonValue":
    written = text.strip(" \t\r\n")
    try:
        loaded, end = _decode(written)
    except json.JSONDecodeError as error:
        raise NotIJson(f"not JSON: {error.msg} at character {error.pos}") from error
    if end < len(written):
        raise NotIJson(f"not JSON: Extra data at character {end}")
    return cast("JsonValue", loaded)


def _without_lone_surrogates(document: "dict[str, JsonValue]") -> "dict[str, JsonValue]":
    text = json.dumps(document, ensure_ascii=False)
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if whole == text:
        return document
    return cast("dict[str, JsonValue]", _load(whole))  # the text of an object, with other characters in it


def _refuse_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKET_OR_STRING.finditer(text):
        mark = match[0]
        if mark in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise NotIJson(f"nested deeper than {MAX_DEPTH} levels at character {match.start()}")
        elif mark in "]}":
            depth -= 1


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise NotIJson(f"duplicate key {_first_twice(pairs)!r}")
    return document


def _first_twice(pairs: list[tuple[str, object]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    raise AssertionError("no key stands twice")


def _safe_integer(digits: str) -> int:
    if len(digits) > 17 or abs(number := int(digits)) > MAX_SAFE_INTEGER:
        raise NotIJson(f"integer {digits[:40]} is outside +-{MAX_SAFE_INTEGER}")
    return number


def _finite_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise NotIJson(f"number {digits[:40]} is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise NotIJson(f"{name} is not JSON")


def _kind(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "null")


_decode: Final = json.JSONDecoder(
    object_pairs_hook=_object_without_duplicates,
    parse_int=_safe_integer,
    parse_float=_finite_float,
    parse_constant=_no_constant,
).raw_decode
"""Made once: to make one takes as long as to decode a usual event."""

"""JSON as I-JSON reads it (SPEC 3): every fault has a reason, and a lone surrogate becomes U+FFFD."""

import json
import re
from typing import Any

MAX_LEVELS = 64
MAX_INTEGER = 2**53 - 1
MAX_INTEGER_CHARACTERS = 17
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NotIJson(ValueError):
    """A line is not acceptable; `reason` is one of the table in SPEC 3."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decode_object(line: bytes) -> dict[str, Any]:
    """Return the object that a line holds, or raise `NotIJson`."""
    try:
        text = line.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError:
        raise NotIJson("not_utf8") from None
    value = decode_value(text)
    if not isinstance(value, dict):
        raise NotIJson("not_an_object")
    return value


def decode_value(text: str) -> Any:
    """Return the value that a text is, or raise `NotIJson`."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object_of,
            parse_int=_integer_of,
            parse_float=_float_of,
            parse_constant=_refuse_constant,
        )
    except RecursionError:
        raise NotIJson("too_deep") from None
    except json.JSONDecodeError:
        raise NotIJson("not_json") from None
    if levels_of(value) > MAX_LEVELS:
        raise NotIJson("too_deep")
    return without_surrogates(value) if "\\u" in text else value


def levels_of(value: Any) -> int:
    """Return how many levels of lists and objects a value has."""
    levels, here = 0, [value]
    while here := [one for one in here if isinstance(one, dict | list)]:
        levels += 1
        if levels > MAX_LEVELS:
            break
        here = [below for one in here for below in (one.values() if isinstance(one, dict) else one)]
    return levels


def within_levels(value: Any, left: int = MAX_LEVELS) -> Any:
    """Return a value with the JSON text of what is nested deeper than a line may be."""
    if left == 0 and isinstance(value, dict | list):
        return json.dumps(value)
    match value:
        case list():
            return [within_levels(one, left - 1) for one in value]
        case dict():
            return {key: within_levels(one, left - 1) for key, one in value.items()}
    return value


def without_surrogates(value: Any) -> Any:
    """Return a value with U+FFFD in the place of each lone surrogate."""
    match value:
        case str():
            return LONE_SURROGATE.sub("\ufffd", value)
        case list():
            return [without_surrogates(one) for one in value]
        case dict():
            return {without_surrogates(key): without_surrogates(one) for key, one in value.items()}
    return value


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) < len(pairs):
        raise NotIJson("duplicate_key")
    return read


def _integer_of(digits: str) -> int:
    if len(digits) > MAX_INTEGER_CHARACTERS or abs(int(digits)) > MAX_INTEGER:
        raise NotIJson("integer_out_of_range")
    return int(digits)


def _float_of(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise NotIJson("number_too_large")
    return number


def _refuse_constant(name: str) -> Any:
    raise NotIJson("not_json")

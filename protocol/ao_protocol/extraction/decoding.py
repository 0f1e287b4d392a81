"""Build the value of a text whose grammar and depth are known to be right, under strict hooks.

Grammar alone lets things through that two receivers read differently: doubled keys, numbers that overflow.
"""

import json
import re
from dataclasses import dataclass
from math import isinf
from typing import Final

from ao_protocol.extraction.extraction_result import MAX_INTEGER_DIGITS, JsonValue, Reason
from ao_protocol.extraction.grammar import SCALAR, skim_container


@dataclass(eq=False)
class Inadmissible(Exception):
    """A well-formed text has no value that everybody would read the same way."""

    reason: Reason
    detail: str = ""


def decode_whole(text: str) -> JsonValue:
    """Return the value of a text that is one JSON value and nothing else but blanks.

    Raises:
        Inadmissible: `INVALID_JSON` where the grammar breaks, or any reason of `decode_span`.
    """
    start = len(text) - len(text.lstrip(" \t\r\n"))
    if text.startswith(("{", "["), start):
        skim = skim_container(text, start)
        if skim.too_deep:
            raise Inadmissible(Reason.TOO_DEEP, f"at character {skim.end}")
        if skim.still_open or text[skim.end :].strip(" \t\r\n"):
            raise Inadmissible(Reason.INVALID_JSON, f"at character {skim.end}")
    elif _ONE_SCALAR.fullmatch(text) is None:
        raise Inadmissible(Reason.INVALID_JSON)
    return decode_span(text)


def decode_span(span: str) -> JsonValue:
    """Return the value of a span that is well-formed and no deeper than the cap.

    Raises:
        Inadmissible: `DUPLICATE_KEYS` with different values, `NUMBER_OUT_OF_RANGE`, or `TOO_DEEP` where the
            caller's own stack leaves no room.
    """
    decoder = _CAREFUL if len(span) < _WORTH_A_LOOK or _may_overflow(span) else _QUICK
    value: JsonValue
    try:
        value = decoder.decode(span)
    except RecursionError:
        raise Inadmissible(Reason.TOO_DEEP, "the stack is used up") from None
    return value


ANNOTATIONS: Final = frozenset(
    {"$comment", "$id", "$schema", "default", "deprecated", "description", "example", "examples", "readOnly"}
    | {"title", "writeOnly"}
)
_MAPS_OF_SCHEMAS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})
_ONE_SCALAR: Final = re.compile(rf"[ \t\n\r]*+{SCALAR}[ \t\n\r]*+")
_WORTH_A_LOOK: Final = 4096
_NUMBER_SHAPE: Final = bytes.maketrans(b"123456789E", b"000000000e")
_SUSPICIOUS: Final = (b"0" * 200, b"0e000", b"0e+000")


def _may_overflow(span: str) -> bool:
    """Tell whether a number may need a look: a hook for each of a million numbers costs more than this."""
    shape = span.encode("utf-8", "surrogatepass").translate(_NUMBER_SHAPE)
    return any(suspect in shape for suspect in _SUSPICIOUS)


def _document(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    document = dict(pairs)
    if len(document) != len(pairs):
        for key, value in pairs:
            if not is_same_json(document[key], value):
                raise Inadmissible(Reason.DUPLICATE_KEYS, repr(key[:80]))
    return document


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise Inadmissible(Reason.NUMBER_OUT_OF_RANGE, f"an integer of {len(digits)} digits")
    return int(digits)


def _double(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise Inadmissible(Reason.NUMBER_OUT_OF_RANGE, digits[:40])
    return number


_QUICK: Final = json.JSONDecoder(object_pairs_hook=_document)
_CAREFUL: Final = json.JSONDecoder(object_pairs_hook=_document, parse_int=_integer, parse_float=_double)


def is_same_json(left: JsonValue, right: JsonValue, *, as_schemas: bool = False) -> bool:
    """Compare without recursion. 1 and 1.0 are one number in JSON; true and 1 are not one value.

    With `as_schemas`, annotations are no difference; in a map of schemas the keys are names, not keywords.
    """
    pairs = [(left, right, as_schemas)]
    while pairs:
        one, other, are_keywords = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            keys = one.keys() - ANNOTATIONS if are_keywords else one.keys()
            if keys != (other.keys() - ANNOTATIONS if are_keywords else other.keys()):
                return False
            names = _MAPS_OF_SCHEMAS if are_keywords else frozenset()
            pairs.extend((one[key], other[key], as_schemas and key not in names) for key in keys)
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            pairs.extend((item, as_item, as_schemas) for item, as_item in zip(one, other, strict=True))
        elif isinstance(one, bool) or isinstance(other, bool):
            if one is not other:
                return False
        elif one != other:
            return False
    return True

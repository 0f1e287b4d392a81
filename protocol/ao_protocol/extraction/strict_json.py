"""Strict JSON (RFC 8259): the end of a value or the place where it breaks, its decoded value, and reasons for refusal.

Patterns match long runs of members at once: a run of siblings that are nested at most two levels deep is one match in
C. Every repetition is possessive or in an atomic group, so nothing is tried twice. `skim_container` is a pushdown
automaton with an explicit stack: it cannot overflow, and it never returns to a place before one that it has reported,
so the whole search is linear.

The grammar alone accepts texts that two receivers read differently: duplicate keys, and numbers that overflow. The
decoder refuses them.
"""

import gc
import json
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import isinf
from typing import TYPE_CHECKING, Final, TypeAlias

from ao_protocol.json_path import ROOT, below
from ao_protocol.json_words import shown

if TYPE_CHECKING:
    import pydantic

    JsonValue: TypeAlias = pydantic.JsonValue
else:
    JsonValue = object  # pydantic takes 60 ms to import

MAX_DEPTH: Final = 200
"""The maximum number of levels. The C decoder recurses once a level, so the limit is checked before it is called.

No value is deeper. Values with up to two levels fewer are always accepted: the innermost levels are counted together.
"""
MAX_INTEGER_DIGITS: Final = 1000
"""The maximum number of digits of an integer.

CPython refuses integers above 4,300 digits with a plain ValueError, or takes quadratic time for them.
"""


class Reason(StrEnum):
    """Why no value was found. It decides what the model receives, and whether another attempt can help."""

    NO_CANDIDATE = "no_candidate"
    """No part of the text begins like a JSON value."""
    TRUNCATED = "truncated"
    """The text ends inside a value. Another attempt ends at the same output limit."""
    INVALID_JSON = "invalid_json"
    """A part of the text begins like a JSON value and violates the grammar."""
    TOO_DEEP = "too_deep"
    TOO_LARGE = "too_large"
    TOO_MANY_VALUES = "too_many_values"
    SEVERAL_VALUES = "several_values"
    """The text is a sequence of different values, and without a schema no value is preferred."""
    DUPLICATE_KEYS = "duplicate_keys"
    """An object has a key with two different values, and neither is preferred."""
    NUMBER_OUT_OF_RANGE = "number_out_of_range"
    """A number overflows a double, or an integer has more than `MAX_INTEGER_DIGITS` digits."""
    SCHEMA_ECHO = "schema_echo"
    """The model repeated the schema instead of an answer."""
    NOT_ONLY_JSON = "not_only_json"
    """There is other text beside the value, and only JSON is accepted."""
    NOT_AN_ANSWER = "not_an_answer"
    """JSON is only in places without an answer: thinking, examples, tool calls, parts of a broken value."""


_SENTENCES: Final = {
    Reason.NO_CANDIDATE: "The answer holds no JSON value",
    Reason.TRUNCATED: "The answer breaks off inside a JSON value",
    Reason.INVALID_JSON: "The answer holds no well-formed JSON value",
    Reason.TOO_DEEP: "The JSON in the answer is nested too deep",
    Reason.TOO_LARGE: "The answer is too large to be read",
    Reason.TOO_MANY_VALUES: "The answer holds too many JSON values to choose from",
    Reason.SEVERAL_VALUES: "The answer is a sequence of different JSON values where one is wanted",
    Reason.DUPLICATE_KEYS: "An object in the answer gives one key two different values",
    Reason.NUMBER_OUT_OF_RANGE: "A number in the answer is out of range",
    Reason.SCHEMA_ECHO: "The answer repeats the schema instead of an answer that matches it",
    Reason.NOT_ONLY_JSON: "The answer holds other text than JSON, and only JSON is wanted",
    Reason.NOT_AN_ANSWER: "JSON stands only in places that do not give the answer",
}


@dataclass(eq=False)
class NoJsonFound(Exception):
    """A text, or a part of it, has no acceptable JSON value. `reason` is why; `detail` adds a place or a count.

    `near` is the text around the place, which `str` leaves out.
    """

    reason: Reason
    detail: str = ""
    near: str = ""

    def __str__(self) -> str:
        return f"{_SENTENCES[self.reason]}: {self.detail}" if self.detail else _SENTENCES[self.reason]


# Groups are atomic, `(?>(?:…)*)`, and never possessive: before Python 3.11.5, a possessive group whose last repetition
# fails continues where that failed (python/cpython#106052).
_BLANKS: Final = r"[ \t\n\r]*+"
_STRING_BODY: Final = r'"[^"\\\x00-\x1f]*+(?>(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*)'
_STRING: Final = _STRING_BODY + '"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*+)(?>(?:\.[0-9]++)?)(?>(?:[eE][-+]?[0-9]++)?)"
SCALAR: Final = rf"(?:{_STRING}|{_NUMBER}|true|false|null)"

OPENING: Final = re.compile(rf"[\[{{]{_BLANKS}")
BEGINS_CONTAINER: Final = re.compile(rf'\{{{_BLANKS}["}}]|\[{_BLANKS}["\[\]{{\-0-9tfn]')
"""The beginning of a strict container. Any other text needs no closer look."""
_OPENINGS: Final = re.compile(rf"(?>(?:\[{_BLANKS}(?=[\[{{]))*)[\[{{]{_BLANKS}")
"""The opening bracket of a container, after those of the arrays whose first item it is."""
_KEY: Final = re.compile(rf"{_STRING}{_BLANKS}:{_BLANKS}")
_SEPARATOR: Final = re.compile(rf"{_BLANKS}(,?){_BLANKS}")
_WHOLE_STRING: Final = re.compile(_STRING)
_BROKEN_STRING: Final = re.compile(_STRING_BODY)
_BLANK_CHARACTERS: Final = " \t\r\n"
_CLOSER: Final = {"{": "}", "[": "]"}
_FLAT_LEVELS: Final = 2


@dataclass(frozen=True, slots=True)
class Skim:
    """The extent of a container.

    `end` is the position after the closing bracket or, if the container breaks, the position of the first character
    that does not fit. `still_open` has the brackets that are open at `end`; it is empty if the container is complete.
    """

    end: int
    still_open: str = ""
    too_deep: bool = False


def skim_container(text: str, start: int) -> Skim:
    """Return the extent of the container whose bracket is at `start`, at most `MAX_DEPTH` levels deep."""
    open_brackets: list[str] = []
    position: int = start
    begins: int | None = start
    while begins is not None:
        inside = end_of(_OPENINGS, text, begins)
        open_brackets.extend("".join(text[begins:inside].split()))
        if len(open_brackets) > MAX_DEPTH - _FLAT_LEVELS:
            return Skim(inside, "".join(open_brackets), too_deep=True)
        is_empty = text.startswith(_CLOSER[open_brackets[-1]], inside)
        position, closed = (inside + 1, True) if is_empty else _take_members(text, inside, open_brackets[-1])
        fits = True
        while closed:
            open_brackets.pop()
            if not open_brackets:
                return Skim(position)
            separator = _matched(_SEPARATOR, text, position)
            position = separator.end()
            if separator[1]:
                position, closed = _take_members(text, position, open_brackets[-1])
            else:
                closed = fits = text.startswith(_CLOSER[open_brackets[-1]], position)
                position += closed
        begins = _next_container(text, position, open_brackets[-1]) if fits else None
    return Skim(_first_misfit(text, position, open_brackets[-1]), "".join(open_brackets))


def _take_members(text: str, position: int, bracket: str) -> tuple[int, bool]:
    """Return the position after the flat members and their closing bracket, and whether that bracket follows."""
    run = _matched(_members(bracket), text, position)
    return (run.end(), False) if run["last"] is None else (run.end() + 1, True)


def _next_container(text: str, position: int, bracket: str) -> int | None:
    """Return the start of the next member's value, if it is a container; otherwise None."""
    if bracket == "{":
        key = _KEY.match(text, position)
        if key is None:
            return None
        position = key.end()
    return position if text.startswith(("{", "["), position) else None


def _first_misfit(text: str, position: int, bracket: str) -> int:
    """Return the position after the part that fits. A complete string fits, whatever follows it."""
    key = _KEY.match(text, position) if bracket == "{" else None
    if key is not None:
        position = key.end()
    if not text.startswith('"', position):
        return position
    string = _WHOLE_STRING.match(text, position)
    return string.end() if string is not None else end_of(_BROKEN_STRING, text, position)


@cache
def _members(bracket: str) -> re.Pattern[str]:
    """Return the pattern for members with their commas, as long as they are flat, after `[` or `{`.

    Its group `last` matches if the closing bracket follows. Compiling takes 20 ms, so it happens at the first use.
    """
    flat = SCALAR
    for _ in range(_FLAT_LEVELS):
        item = rf"{flat}{_BLANKS}"
        pair = rf"{_STRING}{_BLANKS}:{_BLANKS}{item}"
        array = rf"\[{_BLANKS}(?>(?:{item}(?>(?:,{_BLANKS}{item})*))?)\]"
        document = rf"\{{{_BLANKS}(?>(?:{pair}(?>(?:,{_BLANKS}{pair})*))?)\}}"
        flat = rf"(?:{SCALAR}|{array}|{document})"
    member = flat if bracket == "[" else rf"{_STRING}{_BLANKS}:{_BLANKS}{flat}"
    return re.compile(rf"(?>(?:{member}{_BLANKS}(?:,{_BLANKS}|(?P<last>(?=\{_CLOSER[bracket]}))))*)")


def end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return the end of the match of a pattern that must match at `position`."""
    return _matched(pattern, text, position).end()


def _matched(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    match = pattern.match(text, position)
    if match is None:
        raise AssertionError(f"{pattern.pattern!r} is only asked where it must match")
    return match


def decode_whole(text: str) -> JsonValue:
    """Return the value of a text that is one JSON value, with blanks around it at most.

    Raises:
        NoJsonFound: `INVALID_JSON` if the text violates the grammar, or a reason of `decode_first`.
    """
    value, end = decode_first(text, len(text) - len(text.lstrip(_BLANK_CHARACTERS)))
    if text[end:].strip(_BLANK_CHARACTERS):
        raise NoJsonFound(Reason.INVALID_JSON)
    return value


def decode_first(text: str, start: int) -> tuple[JsonValue, int]:
    """Return the value that begins at a place, and its end. Python's decoder is enough.

    Raises:
        NoJsonFound: `INVALID_JSON` if no value begins there, `TOO_DEEP`, or a reason of `decode_span`.
    """
    value: JsonValue
    try:
        value, end = _decoder_for(text[start:]).raw_decode(text, start)
    except (ValueError, RecursionError):
        raise NoJsonFound(Reason.INVALID_JSON) from None
    if _may_be_deep(value):
        raise NoJsonFound(Reason.TOO_DEEP)
    return value, end


def decode_span(span: str) -> JsonValue:
    """Return the value of a span that is well-formed and not deeper than the limit.

    Raises:
        NoJsonFound: `DUPLICATE_KEYS` with different values, `NUMBER_OUT_OF_RANGE`, or `TOO_DEEP` if the caller's stack
            has no room.
    """
    value: JsonValue
    try:
        value = _decoder_for(span).decode(span)
    except RecursionError:
        raise NoJsonFound(Reason.TOO_DEEP, "the stack is used up") from None
    return value


def _may_be_deep(value: JsonValue) -> bool:
    """Return whether a value may be nested beyond the limit.

    The collector's functions walk a level at a time in C (0.15 times `json.loads`, measured): containers are tracked,
    except objects without any, and scalars are not.
    """
    level: list[object] = [value]
    for _ in range(MAX_DEPTH - _FLAT_LEVELS):
        level = list(filter(gc.is_tracked, gc.get_referents(*level)))
        if not level:
            return False
    return True


def _decoder_for(text: str) -> json.JSONDecoder:
    """Return a decoder that checks integers only if one may be too long: a hook for each of a million costs more."""
    # So many digits have two of these characters.
    if _TWO_DIGITS.search(text[:: MAX_INTEGER_DIGITS // 2]) is None:
        return _QUICK
    shape = text.encode("utf-8", "surrogatepass").translate(_DIGITS_AS_ZEROS)
    return _CAREFUL if b"0" * MAX_INTEGER_DIGITS in shape else _QUICK


_TWO_DIGITS: Final = re.compile(r"[0-9]{2}")
_DIGITS_AS_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")


def _document(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    document = dict(pairs)
    if len(document) != len(pairs):
        for key, value in pairs:
            if not is_same_json(document[key], value):
                raise NoJsonFound(Reason.DUPLICATE_KEYS, shown(key))
    return document


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise NoJsonFound(Reason.NUMBER_OUT_OF_RANGE, digits[:40])
    return int(digits)


def _double(digits: str) -> float:
    number = float(digits)
    if isinf(number):
        raise NoJsonFound(Reason.NUMBER_OUT_OF_RANGE, digits[:40])
    return number


def path_of_duplicate(span: str) -> str:
    """Return the path of the first key that an object of a well-formed span has twice, with different values."""
    pending: list[tuple[str, object]] = [(ROOT, json.loads(span, object_pairs_hook=tuple, parse_int=str))]
    while pending:
        path, found = pending.pop()
        members: list[tuple[str | int, object]] = list(enumerate(found) if isinstance(found, list) else ())
        if isinstance(found, tuple):  # the pairs of an object
            members, first = list(found), dict(reversed(found))
            twice = next((key for key, value in found if repr(first[key]) != repr(value)), None)
            if twice is not None:
                return below(path, twice)
        pending += [(below(path, step), member) for step, member in reversed(members)]
    return ROOT


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_QUICK: Final = json.JSONDecoder(object_pairs_hook=_document, parse_float=_double, parse_constant=_no_constant)
_CAREFUL: Final = json.JSONDecoder(
    object_pairs_hook=_document, parse_float=_double, parse_int=_integer, parse_constant=_no_constant
)

ANNOTATIONS: Final = frozenset(
    {"$comment", "$id", "$schema", "default", "deprecated", "description", "example", "examples", "readOnly"}
    | {"title", "writeOnly"}
)
_MAPS_OF_SCHEMAS: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


def is_same_json(left: JsonValue, right: JsonValue, *, as_schemas: bool = False) -> bool:
    """Return whether two values are the same JSON, without recursion. 1 equals 1.0; true and 1 differ.

    With `as_schemas`, annotations are ignored; in a map of schemas the keys are names, not keywords.
    """
    pairs = [(left, right, as_schemas)]
    while pairs:
        one, other, are_keywords = pairs.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            ignored = ANNOTATIONS if are_keywords else frozenset()
            keys = one.keys() - ignored
            if keys != other.keys() - ignored:
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

"""What is wrong with a value, and where; and which values are JSON that every receiver reads alike (RFC 7493, SPEC 3).

Values come from a model and may be megabytes long, so whatever a message shows of them is cut short. A validator takes
NaN for a number and would follow a list 100,000 levels down until the stack is gone; so interoperability is asked
first, of answers and of schemas alike.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from ao_protocol.framing import MAX_SAFE_INTEGER
from ao_protocol.json_path import ROOT, below

MAX_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a value is refused.

    `path` is a place such as `$.issues[0].severity` or `$["a b"]`; `message` is worded as jsonschema words it.
    As text it is an entry of `validation_errors` (SPEC 6.3).
    """

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def shown(value: object) -> str:
    """Return `repr(value)`, cut after 200 characters at a cost that does not depend on the value's size."""
    return _cut(_repr_pieces(value))


def listed(values: Iterable[object]) -> str:
    """Return the values as jsonschema enumerates them, `'a', 'b'`, cut like one value."""
    return _cut(f"{', ' if index else ''}{shown(value)}" for index, value in enumerate(values))


def _cut(pieces: Iterator[str]) -> str:
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > MAX_SHOWN_CHARACTERS:
            return text[:MAX_SHOWN_CHARACTERS] + "…"
    return text


def _repr_pieces(value: object) -> Iterator[str]:
    # Every level begins with a bracket, so this goes no deeper than there are characters to show.
    if isinstance(value, dict):
        for index, (key, member) in enumerate(value.items()):
            yield ", " if index else "{"
            yield from _repr_pieces(key)
            yield ": "
            yield from _repr_pieces(member)
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield ", " if index else "["
            yield from _repr_pieces(item)
        yield "]" if value else "[]"
    elif isinstance(value, str):
        yield repr(value[: MAX_SHOWN_CHARACTERS + 1])
    elif isinstance(value, int) and value.bit_length() > 4 * MAX_SHOWN_CHARACTERS:
        # CPython refuses to print integers of more than 4,300 digits.
        yield f"an integer of {value.bit_length()} bits"
    else:
        yield repr(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"


_CONTAINERS: Final = frozenset({dict, list})
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def is_interoperable(value: object, max_depth: int) -> bool:
    """Tell whether a value is what a strict JSON parser returns, nested at most `max_depth` levels.

    False for NaN, infinities, integers outside +-(2^53-1), lone surrogates, tuples, keys that are no strings
    and every other Python object; a subclass of a JSON type is no JSON type. Linear, level by level, because
    it runs before every verdict.
    """
    level: list[Any] = [value]
    texts: list[str] = []
    keys: set[Any] = set()
    for depth in range(max_depth + 1):
        if depth == max_depth and any(type(member) in _CONTAINERS for member in level):
            return False
        members = _members(level, texts, keys)
        if members is None:
            return False
        if not members:
            break
        level = members
    return all(type(key) is str for key in keys) and _are_text(keys) and _are_text(texts)


def _members(level: list[Any], texts: list[str], keys: set[Any]) -> list[Any] | None:
    """Return what the containers of one level hold, or None where something is no JSON."""
    members: list[Any] = []
    for value in level:
        kind = type(value)
        if kind is str:
            if not value.isascii():
                texts.append(value)
        elif kind is dict:
            keys.update(value)
            members.extend(value.values())
        elif kind is list:
            members.extend(value)
        elif kind is int or kind is float:
            if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER and not _is_sound_number(value):
                return None
        elif kind not in _SCALARS:
            return None
    return members


def _is_sound_number(number: float) -> bool:
    return isfinite(number) if isinstance(number, float) else abs(number) <= MAX_SAFE_INTEGER


def _are_text(texts: Iterable[str]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def interoperability_problems(value: object, max_depth: int) -> Iterator[Problem]:
    """Yield what `is_interoperable` found wrong, in document order, each with its place."""
    stack: list[Iterator[tuple[str, Any]]] = [iter([(ROOT, value)])]
    while stack:
        member = next(stack[-1], None)
        if member is None:
            stack.pop()
            continue
        path, found = member
        if type(found) in _CONTAINERS and len(stack) > max_depth:
            yield Problem(path, f"is nested deeper than {max_depth} levels")
        elif type(found) in _CONTAINERS:
            yield from _key_problems(path, found)
            stack.append(_placed_members(path, found))
        elif type(found) not in _SCALARS:
            yield Problem(path, f"a {type(found).__name__} is not a JSON value")
        elif isinstance(found, str) and not _are_text([found]):
            yield Problem(path, f"{shown(found)} holds half a surrogate pair, which is no text")
        elif type(found) is int and not _is_sound_number(found):
            lost = f"is outside ±{MAX_SAFE_INTEGER}, where numbers lose digits: write it as a string"
            yield Problem(path, f"{shown(found)} {lost}")
        elif type(found) is float and not _is_sound_number(found):
            yield Problem(path, f"{found!r} is not a JSON number")


def _placed_members(path: str, found: dict[Any, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(found, list):
        return ((below(path, index), item) for index, item in enumerate(found))
    return ((below(path, key), member) for key, member in found.items() if type(key) is str)


def _key_problems(path: str, found: dict[Any, Any] | list[Any]) -> Iterator[Problem]:
    for key in found if isinstance(found, dict) else ():
        if type(key) is not str:
            yield Problem(path, f"the key {shown(key)} is not a string")
        elif not _are_text([key]):
            yield Problem(path, f"the key {shown(key)} holds half a surrogate pair, which is no text")


def canonical_json(value: object) -> str:
    """Return a text that two values share exactly when they are the same JSON, in whatever order their keys stand.

    Python's own `==` takes true for 1.
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

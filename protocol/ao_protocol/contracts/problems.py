"""Problems of a value with their paths, and the check that a value is I-JSON (RFC 7493, SPEC 3).

Values come from a model and may have megabytes, so messages quote them shortened. A validator accepts NaN as a number,
and would follow a list 100,000 levels down until the stack overflows. So the I-JSON check comes first, for answers and
for schemas.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from ao_protocol.framing import MAX_SAFE_INTEGER
from ao_protocol.json_path import ROOT, below
from ao_protocol.json_words import shown


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why a value is invalid.

    `path` is a path such as `$.issues[0].severity` or `$["a b"]`. `message` is worded like those of jsonschema, with
    values as JSON. `str(problem)` is an entry of `validation_errors`: `path: message` (SPEC 6.3). `keyword` is that of
    the schema which refuses the value, where a schema does. `excerpt` is a part of the answer for the model, which no
    event has (AOX-175).
    """

    path: str
    message: str
    keyword: str | None = field(default=None, compare=False)
    excerpt: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


AS_A_STRING: Final = "write it as a string"

_CONTAINERS: Final = frozenset({dict, list})
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def is_interoperable(value: object, max_depth: int) -> bool:
    """Return whether a strict JSON parser can return the value, and it is nested at most `max_depth` levels.

    NaN, infinities, integers outside +-(2^53-1), lone surrogates, tuples, keys that are not strings and all other
    Python objects are not accepted, nor are subclasses of JSON types. Time is linear, without recursion, because this
    runs before every validation.
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
    """Return the members of the containers of one level; None if a value is not JSON."""
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


def interoperability_problems(
    value: object, max_depth: int, advice: Callable[[str], str] = lambda _: AS_A_STRING
) -> Iterator[Problem]:
    """Yield the problems that `is_interoperable` finds, in document order, each with its path.

    `advice` says what to do about an integer at a path that is too large.
    """
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
            lost = f"is outside ±{MAX_SAFE_INTEGER}, where receivers lose digits: {advice(path)}"
            yield Problem(path, f"{shown(found)} {lost}")
        elif type(found) is float and not _is_sound_number(found):
            yield Problem(path, f"{shown(found)} is not a JSON number")


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
    """Return a text that is equal for two values exactly if they are the same JSON, in any order of keys.

    Python's `==` considers true and 1 equal.
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

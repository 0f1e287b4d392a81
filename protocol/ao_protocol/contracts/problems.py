"""What is wrong with a value, and where; and which values are JSON that every receiver reads alike (RFC 7493, SPEC 3).

Values come from a model and may be megabytes long, so whatever a message shows of them is cut short. A validator takes
NaN for a number and would follow a list 100,000 levels down until the stack is gone; so interoperability is asked
first, of answers and of schemas alike. Nothing here recurses.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
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
    return _cut(_separated(values))


def _cut(pieces: Iterator[str]) -> str:
    written: list[str] = []
    length = 0
    for piece in pieces:
        written.append(piece)
        length += len(piece)
        if length > MAX_SHOWN_CHARACTERS:
            return "".join(written)[:MAX_SHOWN_CHARACTERS] + "…"
    return "".join(written)


def _separated(values: Iterable[object]) -> Iterator[str]:
    for index, value in enumerate(values):
        yield ", " if index else ""
        yield shown(value)


@dataclass(frozen=True, slots=True)
class _Text:
    text: str


def _repr_pieces(value: object) -> Iterator[str]:
    pending: list[object] = [value]
    while pending:
        match pending.pop():
            case _Text(text):
                yield text
            case dict() as members:
                pending.extend(reversed(_object_pieces(members)))
            case list() as items:
                pending.extend(reversed(_array_pieces(items)))
            case scalar:
                yield _scalar_repr(scalar)


def _object_pieces(members: dict[object, object]) -> list[object]:
    pieces: list[object] = [_Text("{")]
    for index, (key, member) in enumerate(islice(members.items(), MAX_SHOWN_CHARACTERS)):
        pieces += [_Text(", " if index else ""), key, _Text(": "), member]
    return [*pieces, _Text("}")]


def _array_pieces(items: list[object]) -> list[object]:
    pieces: list[object] = [_Text("[")]
    for index, item in enumerate(islice(items, MAX_SHOWN_CHARACTERS)):
        pieces += [_Text(", " if index else ""), item]
    return [*pieces, _Text("]")]


def _scalar_repr(scalar: object) -> str:
    if isinstance(scalar, str):
        return repr(scalar[: MAX_SHOWN_CHARACTERS + 1])
    if isinstance(scalar, int) and scalar.bit_length() > 4 * MAX_SHOWN_CHARACTERS:
        # CPython refuses to print integers of more than 4,300 digits.
        return f"an integer of {scalar.bit_length()} bits"
    if scalar is None or isinstance(scalar, int | float):
        return repr(scalar)
    return f"a {type(scalar).__name__}"


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
        elif type(found) is dict:
            yield from _key_problems(path, found)
            stack.append(_named_members(path, found))
        elif type(found) is list:
            stack.append(_numbered_members(path, found))
        else:
            yield from _scalar_problems(path, found)


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


def _named_members(path: str, found: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    return ((below(path, key), member) for key, member in found.items() if type(key) is str)


def _numbered_members(path: str, found: list[Any]) -> Iterator[tuple[str, Any]]:
    return ((below(path, index), item) for index, item in enumerate(found))


def _are_text(texts: Iterable[str]) -> bool:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def _key_problems(path: str, members: dict[Any, Any]) -> Iterator[Problem]:
    for key in members:
        if type(key) is not str:
            yield Problem(path, f"the key {shown(key)} is not a string")
        elif not _are_text([key]):
            yield Problem(path, f"the key {shown(key)} holds half a surrogate pair, which is no text")


def _scalar_problems(path: str, found: object) -> Iterator[Problem]:
    if type(found) not in _SCALARS:
        yield Problem(path, f"a {type(found).__name__} is not a JSON value")
    elif isinstance(found, str) and not _are_text([found]):
        yield Problem(path, f"{shown(found)} holds half a surrogate pair, which is no text")
    elif type(found) is int and not _is_sound_number(found):
        yield Problem(
            path,
            f"{shown(found)} is outside ±{MAX_SAFE_INTEGER}, where numbers lose digits: write it as a string",
        )
    elif type(found) is float and not _is_sound_number(found):
        yield Problem(path, f"{found!r} is not a JSON number")


def canonical_json(value: object) -> str:
    """Return a text that two values share exactly when they are the same JSON, in whatever order their keys stand.

    Python's own `==` takes true for 1.
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

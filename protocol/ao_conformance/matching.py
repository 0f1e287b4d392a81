"""Compare JSON values with the expectations of a vector, which may contain words such as `$any_of`."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from ao_protocol.short_text import shorten_with_length
from ao_protocol.version import MalformedSchemaVersion, SchemaVersion

SHOWN_CHARACTERS: Final = 200
CONTEXT_CHARACTERS: Final = 20


def difference(expected: Any, found: Any, place: str = "$", *, exact: bool = False) -> str | None:  # noqa: ANN401  # any JSON
    """Return a sentence about the first difference of two JSON values, or None. 1 equals 1.0, but not true.

    Objects may have additional fields, and words may replace values, unless the comparison is `exact`.
    """
    if isinstance(expected, Mapping):
        if not exact and (word := next((key for key in expected if key in WORDS), None)):
            holds, tell = WORDS[word]
            wanted = expected[word]
            return None if holds(wanted, found) else f"{place} is {short(found)}, expected {tell(wanted)}"
        return _in_object(expected, found, place, exact=exact)
    if isinstance(expected, list) and isinstance(found, list) and (exact or len(expected) == len(found)):
        pairs = enumerate(zip(expected, found, strict=False))
        inside = (difference(one, two, f"{place}[{at}]", exact=exact) for at, (one, two) in pairs)
        length = f"{place} has {len(found)} members, expected {len(expected)}"
        return next(filter(None, inside), None if len(expected) == len(found) else length)
    if expected == found and isinstance(expected, bool) == isinstance(found, bool):
        return None
    if exact and isinstance(expected, str) and isinstance(found, str) and len(expected) > SHOWN_CHARACTERS:
        at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(expected, found, strict=False)))
        part = slice(max(0, at - CONTEXT_CHARACTERS), at + CONTEXT_CHARACTERS)
        return f"{place} differs from character {at} on: {found[part]!r}, expected {expected[part]!r}"
    return f"{place} is {short(found)}, expected {short(expected)}"


def in_order(expected: Sequence[str], found: Sequence[str]) -> bool:
    """Return whether event types are in the expected order; `*` matches any number of events."""
    if not expected:
        return not found
    first, *rest = expected
    if first == "*":
        return any(in_order(rest, found[skipped:]) for skipped in range(len(found) + 1))
    return bool(found) and found[0] == first and in_order(rest, found[1:])


def _in_object(expected: Mapping[str, Any], found: object, place: str, *, exact: bool) -> str | None:
    if not isinstance(found, Mapping):
        return f"{place} is {short(found)}, expected an object"
    for name, value in expected.items():
        at = f"{place}.{name}"
        if name not in found and (value is None or difference(value, None) is not None):
            return f"{at} is missing, expected {short(value)}"
        if name in found and (other := difference(value, found[name], at, exact=exact)) is not None:
            return other
    return next((f"{place}.{name} is too much" for name in found if exact and name not in expected), None)


def _at_least(argument: Any, found: Any) -> bool:  # noqa: ANN401  # any JSON
    size = len(found) if isinstance(found, str | list | dict) else found
    return isinstance(size, int | float) and size >= argument


def _each(argument: Any, found: Any) -> bool:  # noqa: ANN401  # any JSON
    return isinstance(found, list) and bool(found) and all(difference(argument, one) is None for one in found)


def _newest_first(_: Any, found: Any) -> bool:  # noqa: ANN401  # any JSON
    versions = [_version(text) for text in found] if isinstance(found, list) else []
    return bool(versions) and versions == sorted(versions, reverse=True)


def _is_number(found: object) -> bool:
    return isinstance(found, int | float)


def _version(text: object) -> tuple[int, ...]:
    """Return a version as a pair of numbers; an empty tuple for a value that is none."""
    try:
        return SchemaVersion.parse(text)
    except MalformedSchemaVersion:
        return ()


def short(value: object) -> str:
    """Return the `repr` of a value, shortened if it is long."""
    return shorten_with_length(repr(value), SHOWN_CHARACTERS)


Word = tuple[Callable[[Any, Any], bool], Callable[[Any], str]]
WORDS: Final[Mapping[str, Word]] = {
    "$about": (
        lambda wanted, found: _is_number(found) and abs(found - wanted) <= abs(wanted) / 10,
        lambda wanted: f"about {wanted}",
    ),
    "$absent": (lambda _, found: found is None, lambda _: "nothing"),
    "$any_of": (
        lambda wanted, found: any(difference(one, found) is None for one in wanted),
        lambda wanted: "one of " + ", ".join(map(short, wanted)),
    ),
    "$at_least": (_at_least, lambda wanted: f"at least {wanted}"),
    "$at_most": (lambda wanted, found: _is_number(found) and found <= wanted, lambda wanted: f"at most {wanted}"),
    "$contains": (
        lambda wanted, found: isinstance(found, str | list) and wanted in found,
        lambda wanted: f"something that holds {short(wanted)}",
    ),
    "$each": (_each, lambda wanted: f"a list of {short(wanted)}"),
    "$matches": (
        lambda wanted, found: isinstance(found, str) and re.search(wanted, found) is not None,
        lambda wanted: f"a text that matches {wanted}",
    ),
    "$newest_first": (_newest_first, lambda _: "versions, the newest first"),
    "$not_empty": (lambda _, found: bool(found), lambda _: "something"),
    "$not_newer_than": (
        lambda wanted, found: () < _version(found) <= _version(wanted),
        lambda wanted: f"a version not newer than {wanted}",
    ),
    "$same_members": (
        lambda wanted, found: isinstance(found, list) and sorted(map(repr, found)) == sorted(map(repr, wanted)),
        lambda wanted: f"the members of {short(wanted)}",
    ),
}
"""The words that may replace a value in an expectation, each with its test and its text for messages."""

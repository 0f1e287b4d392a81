"""Whether what was found is what a vector expects: pure comparison of JSON with a few words for what may vary."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final


def difference(expected: Any, found: Any, place: str = "$") -> str | None:  # noqa: ANN401  # any JSON
    """Return a sentence about the first difference, or None. Objects may have other fields."""
    if isinstance(expected, Mapping):
        if word := next((key for key in expected if key in WORDS), None):
            holds, what = WORDS[word](expected[word], found)
            return None if holds else f"{place} is {_short(found)}, expected {what}"
        return _in_object(expected, found, place)
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return next((text for at, (one, two) in pairs if (text := difference(one, two, f"{place}[{at}]"))), None)
    same = expected == found and isinstance(expected, bool) == isinstance(found, bool)
    return None if same else f"{place} is {_short(found)}, expected {_short(expected)}"


def in_order(expected: Sequence[str], found: Sequence[str]) -> bool:
    """Say whether event types stand as expected, where `*` stands for any number of others."""
    if not expected:
        return not found
    first, *rest = expected
    if first == "*":
        return any(in_order(rest, found[skipped:]) for skipped in range(len(found) + 1))
    return bool(found) and found[0] == first and in_order(rest, found[1:])


def _in_object(expected: Mapping[str, Any], found: object, place: str) -> str | None:
    if not isinstance(found, Mapping):
        return f"{place} is {_short(found)}, expected an object"
    for name, value in expected.items():
        at = f"{place}.{name}"
        if name not in found and (value is None or difference(value, None) is not None):
            return f"{at} is missing, expected {_short(value)}"
        if name in found and (other := difference(value, found[name], at)) is not None:
            return other
    return None


def _any_of(argument: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    holds = any(difference(one, found) is None for one in argument)
    return holds, "one of " + ", ".join(_short(one) for one in argument)


def _each(argument: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    holds = isinstance(found, list) and bool(found) and all(difference(argument, one) is None for one in found)
    return holds, f"a list of {_short(argument)}"


def _at_least(argument: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    size = len(found) if isinstance(found, str | list | dict) else found
    return isinstance(size, int | float) and size >= argument, f"at least {argument}"


def _at_most(argument: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    return isinstance(found, int | float) and found <= argument, f"at most {argument}"


def _about(argument: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    return isinstance(found, int | float) and abs(found - argument) <= abs(argument) / 10, f"about {argument}"


def _same_members(argument: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    holds = isinstance(found, list) and sorted(map(repr, found)) == sorted(map(repr, argument))
    return holds, f"the members of {_short(argument)}"


def _newest_first(_: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    versions = _versions(found) if isinstance(found, list) else []
    return bool(versions) and versions == sorted(versions, reverse=True), "versions, the newest first"


def _not_newer_than(argument: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    holds = isinstance(found, str) and () < tuple(_versions([found])[0]) <= _versions([argument])[0]
    return holds, f"a version not newer than {argument}"


def _matches(argument: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    return isinstance(found, str) and re.search(argument, found) is not None, f"a text that matches {argument}"


def _contains(argument: Any, found: Any) -> tuple[bool, str]:  # noqa: ANN401  # any JSON
    return isinstance(found, str | list) and argument in found, f"something that holds {_short(argument)}"


def _versions(texts: Sequence[object]) -> list[tuple[int, ...]]:
    """Return versions as pairs of numbers; what is none comes as an empty one."""
    return [
        tuple(int(part) for part in text.split("."))
        if isinstance(text, str) and re.fullmatch(r"\d+\.\d+", text)
        else ()
        for text in texts
    ]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"


WORDS: Final[Mapping[str, Callable[[Any, Any], tuple[bool, str]]]] = {
    "$about": _about,
    "$absent": lambda _, found: (found is None, "nothing"),
    "$any_of": _any_of,
    "$at_least": _at_least,
    "$at_most": _at_most,
    "$contains": _contains,
    "$each": _each,
    "$matches": _matches,
    "$newest_first": _newest_first,
    "$not_empty": lambda _, found: (bool(found), "something"),
    "$not_newer_than": _not_newer_than,
    "$same_members": _same_members,
}
"""What may stand in an expectation in the place of a value, and whether something is so."""

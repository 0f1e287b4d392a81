"""Whether an answer is right: pure comparison by the table of forms. Values are compared exactly."""

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Final

from ao_conformance.codec.forms import AS_PIECE, AS_SET, FORMS

SHOWN_CHARACTERS: Final = 200
CONTEXT_CHARACTERS: Final = 20

Document = Mapping[str, Any]


def mistake(vector: Document, answer: Document) -> tuple[str, str] | None:
    """Return what a vector expects and what an answer has instead, as two texts, for the first field that is wrong."""
    form = FORMS[vector["kind"]]
    for name in form.answered:
        if name not in vector:
            if name in form.only and answer.get(name) not in (None, False):
                return f"no {name}", f"{name} is {short(answer[name])}"
            continue
        expected = vector[name]
        if name in AS_PIECE:
            if isinstance(answer.get(name), str) and expected not in answer[name]:
                return f"{name} with {expected!r} in it", f"{name} is {short(answer[name])}"
            continue
        if name not in answer:
            return f"{name} is {short(expected)}", f"no {name}"
        found = answer[name]
        other = _set_difference(expected, found, name) if name in AS_SET else difference(expected, found, name)
        if other is not None:
            return f"{name} is {short(expected)}", other
    return None


def difference(expected: Any, found: Any, place: str) -> str | None:  # noqa: ANN401  # any JSON
    """Return a sentence about the first place where two values are not the same, or None.

    Objects have the same fields; 1 is 1.0, but not true.
    """
    match expected, found:
        case dict(), dict():
            return _object_difference(expected, found, place)
        case list(), list():
            return _list_difference(expected, found, place)
        case str(), str() if expected != found and len(expected) > SHOWN_CHARACTERS:
            return _where_texts_part(expected, found, place)
    same = expected == found and isinstance(expected, bool) == isinstance(found, bool)
    return None if same else f"{place} is {short(found)}, expected {short(expected)}"


def _object_difference(expected: Document, found: Document, place: str) -> str | None:
    for name in expected:
        if name not in found:
            return f"{place}.{name} is missing"
        if (other := difference(expected[name], found[name], f"{place}.{name}")) is not None:
            return other
    return next((f"{place}.{name} is too much" for name in found if name not in expected), None)


def _list_difference(expected: list[Any], found: list[Any], place: str) -> str | None:
    for at, (one, two) in enumerate(zip(expected, found, strict=False)):
        if (other := difference(one, two, f"{place}[{at}]")) is not None:
            return other
    same_length = len(expected) == len(found)
    return None if same_length else f"{place} has {len(found)} members, expected {len(expected)}"


def short(value: object) -> str:
    """Return a value for people, cut where it is long."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"


def _set_difference(expected: list[str], found: object, name: str) -> str | None:
    same = isinstance(found, list) and all(isinstance(one, str) for one in found) and set(found) == set(expected)
    return None if same else f"{name} is {short(found)}"


def _where_texts_part(expected: str, found: str, place: str) -> str:
    at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(expected, found, strict=False)))
    begin, end = max(0, at - CONTEXT_CHARACTERS), at + CONTEXT_CHARACTERS
    return f"{place} differs from character {at} on: {found[begin:end]!r}, expected {expected[begin:end]!r}"

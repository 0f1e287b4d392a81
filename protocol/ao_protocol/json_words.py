"""JSON values in messages for people and models: in the words of JSON, on one line, shortened."""

import json
from collections.abc import Iterable, Iterator
from typing import Final

from ao_protocol.short_text import shorten

MAX_SHOWN_CHARACTERS: Final = 200


def shown(value: object) -> str:
    """Return a value as JSON, cut after 200 characters. The cost does not depend on the value's size.

    Characters that are not printable are escaped. What is no JSON value is named by its type.
    """
    return _cut(_pieces(value))


def listed(values: Iterable[object]) -> str:
    """Return the values as a list in a message, `"a", "b"`, cut like one value."""
    return _cut(f"{', ' if index else ''}{shown(value)}" for index, value in enumerate(values))


def missing(name: object) -> str:
    """Return the sentence for a field that an object lacks."""
    return f"{shown(name)} is a required property"


def printable(text: str) -> str:
    """Return a text with the escapes of JSON for characters that are not printable, such as line ends."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _cut(pieces: Iterator[str]) -> str:
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > MAX_SHOWN_CHARACTERS:
            break
    return shorten(text, MAX_SHOWN_CHARACTERS)


def _pieces(value: object) -> Iterator[str]:
    # Every level adds a bracket, so the number of characters to show limits the depth.
    if isinstance(value, dict):
        for index, (key, member) in enumerate(value.items()):
            yield ", " if index else "{"
            yield from _pieces(key)
            yield ": "
            yield from _pieces(member)
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield ", " if index else "["
            yield from _pieces(item)
        yield "]" if value else "[]"
    elif isinstance(value, str):
        yield printable(json.dumps(value[: MAX_SHOWN_CHARACTERS + 1], ensure_ascii=False))
    elif isinstance(value, int) and value.bit_length() > 4 * MAX_SHOWN_CHARACTERS:
        # CPython refuses to print integers of more than 4,300 digits.
        yield f"an integer of {value.bit_length()} bits"
    else:
        yield json.dumps(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"

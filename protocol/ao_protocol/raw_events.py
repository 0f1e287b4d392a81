"""Events as the lines on which they are passed on: those of some types, found without decoding the others."""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.wire import JsonObject

_TYPE_AS_FIRST_MEMBER: Final = re.compile(rb'[ \t]*\{[ \t]*"event_type"[ \t]*:[ \t]*"([^"\\]*)"')
_ESCAPES_IN_TYPES: Final = (b"\\u", b"\\/")
"""How JSON may write a letter of a type other than as itself."""


def events_of_types(lines: Iterable[bytes], event_types: Collection[str]) -> Iterator[JsonObject]:
    r"""Yield the events of some types among lines, decoded, in their order.

    The type counts, not what the line contains: a text that names a type is not taken for one, and `session\u005fbound`
    is found. A line that begins with another `event_type` is not decoded, which takes half a microsecond; a line that
    begins with another member is decoded only if it could contain one of the types. A line that is no JSON object has
    no type and is passed over.

    Args:
        lines: Events, one JSON object each.
        event_types: The types to find.
    """
    wanted = {name.encode() for name in event_types}
    marks = (*(b'"' + name + b'"' for name in wanted), *_ESCAPES_IN_TYPES)
    for line in lines:
        first = _TYPE_AS_FIRST_MEMBER.match(line)
        if first is None and not any(mark in line for mark in marks):
            continue
        if first is not None and first[1] not in wanted:
            continue  # no object has the member twice
        try:
            document = decode_object(line)
        except NotIJson:
            continue
        event_type = document.get("event_type")
        if isinstance(event_type, str) and event_type in event_types:
            yield document

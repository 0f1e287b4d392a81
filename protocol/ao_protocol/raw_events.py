"""Events as the lines on which they are passed on: those of some types, found without decoding the others."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.wire import JsonObject

_TYPE_AS_FIRST_MEMBER: Final = re.compile(rb'[ \t]*\{[ \t]*"event_type"[ \t]*:[ \t]*"([^"\\]*)"')


def events_of_types(lines: Sequence[bytes], event_types: Collection[str]) -> Iterator[JsonObject]:
    r"""Yield the events of some types among lines, decoded, in their order.

    The type counts, not what the line contains: a text that names a type is not taken for one, and `session\u005fbound`
    is found. If no line contains the name of a type, this takes 0.1 µs a line for each type. Of the lines that do,
    those that begin with another `event_type` are not decoded. A line that is no JSON object has no type and is passed
    over.

    Args:
        lines: Events, one JSON object each.
        event_types: The types to find.
    """
    wanted = {name.encode() for name in event_types}
    escapes = [b"\\u", *([b"\\/"] if any(b"/" in name for name in wanted) else [])]  # else a name is as it is
    block = b"\n".join(lines)
    marks = [mark for mark in (*(b'"' + name + b'"' for name in wanted), *escapes) if mark in block]
    for line in lines if marks else ():
        if not any(mark in line for mark in marks):
            continue
        first = _TYPE_AS_FIRST_MEMBER.match(line)
        if first is not None and first[1] not in wanted:
            continue  # no object has the member twice
        try:
            document = decode_object(line)
        except NotIJson:
            continue
        event_type = document.get("event_type")
        if isinstance(event_type, str) and event_type in event_types:
            yield document

"""Events like one that was judged: they differ in `seq`, `timestamp` and their text alone, so its verdict holds.

What a model says comes as thousands of events that are otherwise the same, byte by byte. As in `plain`, nothing here
says what is wrong with an event: where the answer is None, `plain_event` or `parse_event` decides.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

from ao_protocol.events.plain import is_time, plain_event
from ao_protocol.framing import LineTooLong

MAX_BYTES: Final = 4096
"""What is longer than that is mostly text, which has to be read anyway."""

_PARTS: Final = re.compile(
    rb'((?>.*?"seq" ?: ?))[0-9]++((?>.*?"timestamp" ?: ?"))[^"\\]*+'
    rb'((?>.*?"(?:text|message)" ?: ?"))(?:[^"\\]|\\.)*+(".*)'
)
"""What stands before, between and behind number, time and text."""
_OTHER_TIME: Final = "2001-02-03T04:05:06Z"


@dataclass(slots=True)
class Likeness:
    """A judged event without its number, its time and its text."""

    of: tuple[str, str]
    """The event type, and the message's id where it has one."""
    _before: bytes
    _between: bytes
    _then: bytes
    _after: bytes
    _time: bytes
    """The latest: events that follow each other fast have the same."""

    def texts_of(self, lines: Sequence[bytes | LineTooLong], at: int, most: int, seq: int) -> list[str]:
        """Return the texts of the lines from `at` on that are like this for certain, numbered from `seq` on.

        It ends before the first line that is not, or that may not be; `most` is the most texts.
        """
        before, then, after, behind = self._before, self._until_text, self._after, -len(self._after)
        written: list[bytes] = []
        for index in range(at, min(at + most, len(lines))):
            line, head = lines[index], b"%b%d%b" % (before, seq, then)
            if type(line) is not bytes:
                break
            if not line.startswith(head):
                if not self._takes_time_of(line, seq):
                    break
                then = self._until_text
                head = b"%b%d%b" % (before, seq, then)
            rest = line[len(head) :]
            if not rest.endswith(after):
                break
            written.append(rest[:behind])
            seq += 1
        return _strings(written)

    @property
    def _until_text(self) -> bytes:
        return self._between + self._time + self._then

    def _takes_time_of(self, line: bytes, seq: int) -> bool:
        if not line.startswith(self._before):
            return False
        begin = b"%b%d%b" % (self._before, seq, self._between)
        if not line.startswith(begin):
            return False
        time, then, _ = line[len(begin) :].partition(self._then)
        if not then or not is_time(time.decode(errors="replace")):
            return False
        self._time = time
        return True


def likeness_of(line: bytes, document: Mapping[str, Any]) -> Likeness | None:
    """Return what a line has in common with others, where its number, its time and its text stand in this order.

    `document` is what `plain_event` says of it. Where the three stand is guessed, and proven by an example that has
    others in their places.
    """
    texts = _texts_of(document)
    parts = _PARTS.fullmatch(line) if len(texts) == 1 and len(line) <= MAX_BYTES else None
    if parts is None or document["timestamp"] == _OTHER_TIME:
        return None
    before, between, then, after = parts.groups()
    seq, text = document["seq"] + 1, "?" if texts != ["?"] else "!"
    example = b"%b%d%b%b%b%b%b" % (before, seq, between, _OTHER_TIME.encode(), then, text.encode(), after)
    if plain_event(example) != _with(document, seq, text):
        return None
    time = document["timestamp"].encode()
    return Likeness((document["event_type"], document.get("message_id", "")), before, between, then, after, time)


def _texts_of(document: Mapping[str, Any]) -> list[str]:
    match document["event_type"]:
        case "message" | "message_delta":
            return [block["text"] for block in document["content"]]
        case "log":
            return [document["message"]]
        case _:
            return []


def _with(document: Mapping[str, Any], seq: int, text: str) -> dict[str, Any]:
    told = {"message": text} if document["event_type"] == "log" else {"content": [{"type": "text", "text": text}]}
    return {**document, "seq": seq, "timestamp": _OTHER_TIME, **told}


def _strings(written: list[bytes]) -> list[str]:
    """Return what is written between quotes, up to the first that is no string of JSON."""
    if not written:
        return []
    try:
        # No string holds a line end. So where there are strings only, as many as lines, each line is one.
        texts: list[Any] = from_json(b'["%b"]' % b'",\n"'.join(written))
        if len(texts) == len(written) and set(map(type, texts)) == {str}:
            return texts
    except ValueError:
        pass
    half = len(written) // 2
    first = _strings(written[:half])
    return first if len(first) < half or half == 0 else first + _strings(written[half:])

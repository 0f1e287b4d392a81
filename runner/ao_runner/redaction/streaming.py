"""Secrets that a model tells piece by piece: pieces of a message wait while their text may be the beginning of one.

Pure. What is found is the secret as it stands. Its first `SHORTEST_SECRET` - 1 characters may be out before it can be
told from other words; and deltas of two messages that take turns are not put together.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ao_protocol.framing import encode_line
from ao_protocol.redaction import MASK, SHORTEST_SECRET
from ao_runner.run_events import Relayed

MAX_WITHHELD_EVENTS: Final = 1_000
"""After so many they are let go: a model that says nothing for so long is not in the middle of a word."""

_BESIDE: Final = frozenset({"heartbeat", "log", "usage"})
"""They come at any time and end no text, so they wait in line behind it."""


@dataclass(slots=True)
class _Waiting:
    item: Relayed
    text: str = ""
    is_changed: bool = False

    def let_go(self) -> Relayed:
        if not self.is_changed:
            return self.item
        document = json.loads(self.item.line)
        for block in document["content"]:
            block["text"] = ""
        document["content"][0]["text"] = self.text
        return Relayed.unread(encode_line(document).rstrip(b"\n"), self.item.seq, self.item.event_type)


class Withholding:
    """Give it the events of one run; what it gives back is the same events, some of them later and masked.

    `values` are the secrets, each of at least `SHORTEST_SECRET` characters.
    """

    def __init__(self, values: tuple[str, ...]) -> None:
        self._values = values
        self._beginnings = tuple({value[:SHORTEST_SECRET] for value in values})
        self._message_id = ""
        self._before = ""
        """The last characters of the message that are out."""
        self._waiting: list[_Waiting] = []

    def receive_deltas(self, items: Sequence[Relayed], message_id: str, texts: Sequence[str]) -> Sequence[Relayed]:
        """Take `message_delta`s of one message, with their texts, and return what can be passed on."""
        let_go: list[Relayed] = []
        if message_id != self._message_id:
            let_go = self.flush()
            self._message_id = message_id
        if not self._waiting:
            seen = self._before + "".join(texts)
            if not self._may_begin_in(seen):
                self._before = seen[1 - SHORTEST_SECRET :]
                return [*let_go, *items] if let_go else items
        for item, text in zip(items, texts, strict=True):
            let_go += self._receive_delta(item, text)
        return let_go

    def _receive_delta(self, item: Relayed, text: str) -> list[Relayed]:
        if not self._waiting:
            seen = self._before + text
            if not self._may_begin_in(seen):
                self._before = seen[1 - SHORTEST_SECRET :]
                return [item]
        self._waiting.append(_Waiting(item, text))
        self._mask()
        return self._let_go(self._count_harmless())

    def _may_begin_in(self, text: str) -> bool:
        return any(map(text.__contains__, self._beginnings))

    def receive(self, item: Relayed) -> list[Relayed]:
        """Take any other event and return what can be passed on."""
        if item.event_type not in _BESIDE:
            return [*self.flush(), item]
        if not self._waiting:
            return [item]
        self._waiting.append(_Waiting(item))
        return self._let_go(0) if len(self._waiting) < MAX_WITHHELD_EVENTS else self.flush()

    def flush(self) -> list[Relayed]:
        """Return all that waits: the text goes on with no more of the secret."""
        let_go = self._let_go(len(self._waiting))
        self._message_id = self._before = ""
        return let_go

    def _seen(self) -> str:
        return self._before + "".join(waiting.text for waiting in self._waiting)

    def _mask(self) -> None:
        while (found := _first_of(self._values, self._seen())) is not None:
            begin, end = found
            mask = MASK
            offset = len(self._before)
            for waiting in self._waiting:
                text, here, there = waiting.text, max(begin - offset, 0), max(end - offset, 0)
                offset += len(text)
                if here < len(text) and there > 0:
                    waiting.text = text[:here] + mask + text[there:]
                    waiting.is_changed = True
                    mask = ""
            self._before = self._before[:begin]

    def _count_harmless(self) -> int:
        """Return how many of those that wait stand before the first character that may begin a secret."""
        seen = self._seen()
        begin = min(_beginnings_at_end(self._values, seen), default=len(seen))
        offset = len(self._before)
        for count, waiting in enumerate(self._waiting):
            offset += len(waiting.text)
            if offset > begin:
                return count
        return len(self._waiting)

    def _let_go(self, count: int) -> list[Relayed]:
        gone, self._waiting = self._waiting[:count], self._waiting[count:]
        if gone:
            self._before = (self._before + "".join(waiting.text for waiting in gone))[1 - SHORTEST_SECRET :]
        return [waiting.let_go() for waiting in gone]


def _first_of(values: tuple[str, ...], text: str) -> tuple[int, int] | None:
    found = [(at, at + len(value)) for value in values if (at := text.find(value)) >= 0]
    return min(found, key=lambda span: (span[0], -span[1]), default=None)


def _beginnings_at_end(values: tuple[str, ...], text: str) -> Iterator[int]:
    """Yield where the end of a text is the beginning of a value, long enough to be told from a word."""
    for value in values:
        at = text.find(value[:SHORTEST_SECRET], max(0, len(text) - len(value) + 1))
        while at >= 0:
            if value.startswith(text[at:]):
                yield at
                break
            at = text.find(value[:SHORTEST_SECRET], at + 1)

"""Remove secrets from the events of a run, both within a line and across many `message_delta` events.

Pure. Deltas are held back while their text may be the beginning of a secret. Only exact copies of a secret are found
across deltas. Its first `SHORTEST_SECRET` - 1 characters may be relayed before they can be distinguished from other
text, and interleaved deltas of two messages are not joined.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ao_protocol.events import InvalidEvent, Log, parse_event
from ao_protocol.framing import encode_line
from ao_protocol.redaction import MASK, SHORTEST_SECRET, Redactor
from ao_protocol.wire import JsonObject
from ao_runner.run_events import Relayed, RunIdentity, as_event_of

MAX_WITHHELD_EVENTS: Final = 1_000
"""Maximum number of events to hold back; then all are released: a model that pauses so long is not within a word."""

_BESIDE: Final = frozenset({"heartbeat", "log", "usage"})
"""These may occur at any time and end no text, so they wait in order behind the text."""


class EventRedactor:
    """Pass each event to `in_turn`; pass its return values to `let_out`, in batches as large as possible."""

    def __init__(self, redactor: Redactor, identity: RunIdentity, timestamp: Callable[[], str]) -> None:
        self._redactor = redactor
        self._identity = identity
        self._timestamp = timestamp
        self._deltas = DeltaRedactor(redactor.values)

    def in_turn(self, item: Relayed) -> list[Relayed]:
        """Process an event and return the events that are due now."""
        return self._deltas.receive(item)

    def flush(self) -> list[Relayed]:
        """Return the events that are still held back."""
        return self._deltas.flush()

    def let_out(self, items: list[Relayed]) -> list[Relayed]:
        """Return the events with redacted lines, or the same list if no line contains a secret."""
        # One search over all joined lines costs the least.
        if not self._redactor.may_be_in(b"\n".join([item.line for item in items])):
            return items
        return [self._redacted(item) for item in items]

    def _redacted(self, item: Relayed) -> Relayed:
        line = self._redactor.line(item.line)
        if line is item.line:
            return item
        # Redaction can make two keys equal that were different secrets.
        for valid in (line, encode_line(json.loads(line)).rstrip(b"\n")):
            with suppress(InvalidEvent):
                return Relayed(parse_event(valid), valid)
        # Only the type of a vendor event can contain a secret and become invalid without it.
        message = self._redactor.text(f"dropped an event: {item.event_type!r} contains a secret")
        return as_event_of(self._identity, item.seq, Log(level="warning", message=message), None, self._timestamp)


@dataclass(slots=True)
class _Waiting:
    item: Relayed
    text: str = ""
    is_changed: bool = False

    def let_go(self) -> Relayed:
        if not self.is_changed:
            return self.item
        document = self.item.document
        first, *others = _blocks_of(document)
        document["content"] = [{**first, "text": self.text}, *({**block, "text": ""} for block in others)]
        return Relayed.unread(document, encode_line(document).rstrip(b"\n"))


class DeltaRedactor:
    """Takes the events of one run and returns the same events, some of them later and masked.

    `values` are the secrets, each with at least `SHORTEST_SECRET` characters.
    """

    def __init__(self, values: tuple[str, ...]) -> None:
        self._values = values
        self._beginnings = tuple({value[:SHORTEST_SECRET] for value in values})
        self._of_message: tuple[object, object] | None = None
        """The id of the message whose deltas come, and the type of their blocks."""
        self._before = ""
        """The last relayed characters of the message."""
        self._waiting: list[_Waiting] = []

    def receive(self, item: Relayed) -> list[Relayed]:
        """Process the next event and return the events that can be relayed."""
        if item.event_type == "message_delta" and _text_of(item.document) is not None:
            return self._receive_delta(item)
        if item.event_type not in _BESIDE:
            return [*self.flush(), item]
        if not self._waiting:
            return [item]
        self._waiting.append(_Waiting(item))
        return self._let_go(0) if len(self._waiting) < MAX_WITHHELD_EVENTS else self.flush()

    def flush(self) -> list[Relayed]:
        """Return all held-back events: the rest of a secret cannot follow any more."""
        let_go = self._let_go(len(self._waiting))
        self._of_message, self._before = None, ""
        return let_go

    def _receive_delta(self, item: Relayed) -> list[Relayed]:
        earlier: list[Relayed] = []
        document = item.document
        text, of_message = _text_of(document) or "", (document["message_id"], _blocks_of(document)[0].get("type"))
        if of_message != self._of_message:
            earlier = self.flush()
            self._of_message = of_message
        seen = self._before + text
        if not self._waiting and not any(map(seen.__contains__, self._beginnings)):
            self._before = seen[1 - SHORTEST_SECRET :]
            return [*earlier, item]
        self._waiting.append(_Waiting(item, text))
        self._mask()
        return [*earlier, *self._let_go(self._count_harmless())]

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
        """Return how many held-back events precede the first character that may begin a secret."""
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


def _blocks_of(document: JsonObject) -> list[JsonObject]:
    content: list[JsonObject] = document["content"]  # type: ignore[assignment]  # a valid delta has objects
    return content


def _text_of(document: JsonObject) -> str | None:
    """Return the text of a delta; None if its blocks are of several types, or have no text (SPEC 5)."""
    blocks = _blocks_of(document)
    texts = [text for block in blocks if isinstance(text := block.get("text"), str)]
    is_whole, kinds = len(texts) == len(blocks), {str(block.get("type", "text")) for block in blocks}
    return "".join(texts) if is_whole and len(kinds) == 1 else None


def _first_of(values: tuple[str, ...], text: str) -> tuple[int, int] | None:
    found = [(at, at + len(value)) for value in values if (at := text.find(value)) >= 0]
    return min(found, key=lambda span: (span[0], -span[1]), default=None)


def _beginnings_at_end(values: tuple[str, ...], text: str) -> Iterator[int]:
    """Yield where the rest of a text is the beginning of a value, with at least `SHORTEST_SECRET` characters."""
    for value in values:
        at = text.find(value[:SHORTEST_SECRET], max(0, len(text) - len(value) + 1))
        while at >= 0:
            if value.startswith(text[at:]):
                yield at
                break
            at = text.find(value[:SHORTEST_SECRET], at + 1)

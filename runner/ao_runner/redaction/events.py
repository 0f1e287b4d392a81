"""What leaves a conversation, without the secrets in it: not in a line, and not piece by piece over many."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress

from ao_protocol.events import InvalidEvent, Log, parse_event
from ao_protocol.framing import encode_line
from ao_protocol.redaction import Redactor
from ao_runner.redaction.streaming import Withholding
from ao_runner.run_events import Relayed, RunIdentity, as_event_of


class Concealment:
    """Give it each event in turn; what it returns goes through `let_out`, as many at once as there are."""

    def __init__(self, redactor: Redactor, identity: RunIdentity, timestamp: Callable[[], str]) -> None:
        self._redactor = redactor
        self._identity = identity
        self._timestamp = timestamp
        self._withholding = Withholding(redactor.values) if redactor.values else None

    def in_turn(self, item: Relayed) -> Sequence[Relayed]:
        """Take an event and return what is its turn now."""
        if self._withholding is None:
            return (item,)
        if item.event_type != "message_delta":
            return self._withholding.receive(item)
        document = json.loads(item.line)
        text = "".join([block["text"] for block in document["content"]])
        return self._withholding.receive_deltas([item], document["message_id"], [text])

    def deltas_in_turn(self, items: Sequence[Relayed], message_id: str, texts: Sequence[str]) -> Sequence[Relayed]:
        """Take `message_delta`s of one message, with their texts, and return what is their turn now."""
        return items if self._withholding is None else self._withholding.receive_deltas(items, message_id, texts)

    def flush(self) -> Sequence[Relayed]:
        """Return what still waits for its turn."""
        return () if self._withholding is None else self._withholding.flush()

    def let_out(self, items: list[Relayed]) -> list[Relayed]:
        """Return the events with the secrets taken out of their lines; where there is none, the very same list."""
        # All lines are searched at once, which costs the least.
        if self._withholding is None or not self._redactor.may_be_in(b"\n".join([item.line for item in items])):
            return items
        return [self._redacted(item) for item in items]

    def _redacted(self, item: Relayed) -> Relayed:
        line = self._redactor.line(item.line)
        if line is item.line:
            return item
        for valid in (line, _with_each_key_once(line)):
            with suppress(InvalidEvent):
                return Relayed(parse_event(valid), valid)
        # Only the type of a vendor's event can hold a secret and be no type without it.
        message = self._redactor.text(f"dropped an event: {item.event_type!r} contains a secret")
        return as_event_of(self._identity, item.seq, Log(level="warning", message=message), None, self._timestamp)


def _with_each_key_once(line: bytes) -> bytes:
    """Two keys that were different secrets are one now."""
    return encode_line(json.loads(line)).rstrip(b"\n")

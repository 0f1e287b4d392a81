"""Identities of runs and events, and events on their way through the runner: parsed only on demand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from ao_protocol.events import Body, Envelope, Event, body_from_document, event_from_document
from ao_protocol.framing import (
    MAX_IDENTIFIER_BYTES,
    MAX_IDENTIFIER_CHARACTERS,
    decode_object,
    encode_line,
    fits_in_events,
)
from ao_protocol.wire import ExecutorIdentity, JsonObject

NOT_DESCRIBED: Final = "unknown"
"""The version of an executor that has not described itself, because the run ended before it was asked."""


class RunIdentity(NamedTuple):
    """The ids of a run and its executor."""

    run_id: str
    session_id: str
    executor: ExecutorIdentity


class Relayed:
    """An event that the runner passes on, and its line without the line end.

    Most events are only passed on, so the model of `body` is built on first access, and the document, which takes five
    times the memory of the line, is not kept. This is not a dataclass, because a frozen one takes three times as long
    to create, and a hundred thousand are created per second.
    """

    __slots__ = ("_body", "event_type", "line", "seq")

    def __init__(self, event: Event, line: bytes) -> None:
        self._body: Body | None = event.body
        self.line = line
        self.seq = event.envelope.seq
        self.event_type = event.body.event_type

    @classmethod
    def unread(cls, document: JsonObject, line: bytes) -> Self:
        """Return a valid event without building its model yet; `document` is the content of `line`."""
        relayed = cls.__new__(cls)
        relayed._body = None
        relayed.line = line
        relayed.seq = int(document["seq"])  # type: ignore[arg-type]  # 1.0 is 1
        relayed.event_type = document["event_type"]  # type: ignore[assignment]  # a text
        return relayed

    @property
    def document(self) -> JsonObject:
        """The content of the line, parsed at each access, with U+FFFD for half of a surrogate pair (AOX-032)."""
        return decode_object(self.line)

    @property
    def body(self) -> Body:
        """The body of the event."""
        if self._body is None:
            self._body = body_from_document(self.document)
        return self._body

    @property
    def event(self) -> Event:
        """The whole event, parsed at each access."""
        return event_from_document(self.document)

    def __repr__(self) -> str:
        return f"Relayed({self.line!r})"


def as_event_of(
    identity: RunIdentity, seq: int, body: Body, received: Relayed | None, timestamp: Callable[[], str]
) -> Relayed:
    """Return a body as an event of a run. Unknown fields of a received event are passed on."""
    told = {} if received is None else received.document
    envelope = Envelope(
        session_id=identity.session_id,
        run_id=identity.run_id,
        seq=seq,
        timestamp=timestamp() if received is None else str(told["timestamp"]),
    )
    event = Event.model_construct(envelope=envelope, body=body)
    return Relayed(event, encode_line({**told, **event.to_document()}).rstrip(b"\n"))


MAX_ATTEMPTS: Final = 10**18


@dataclass(frozen=True, slots=True, order=True)
class RunKey:
    """One attempt at one run. With an event's `seq` it identifies that event permanently: receivers drop duplicates.

    Raises:
        ValueError: `run_id` is empty, longer than names may be (SPEC 4.1) or invalid Unicode, or `attempt` is not in
            1 to 10^18 - 1.
    """

    run_id: str
    attempt: int
    """Starts at 1 and increases each time that the run is assigned."""

    def __post_init__(self) -> None:
        if not 0 < len(self.run_id) <= MAX_IDENTIFIER_CHARACTERS:
            raise ValueError(f"a run_id has 1 to {MAX_IDENTIFIER_CHARACTERS} characters, this one {len(self.run_id)}")
        if any("\ud800" <= character <= "\udfff" for character in self.run_id):
            raise ValueError(f"a run_id is valid Unicode, {self.run_id!r} is not")
        if not fits_in_events(self.run_id):
            raise ValueError(f"a run_id has at most {MAX_IDENTIFIER_BYTES} bytes as JSON")
        if not 1 <= self.attempt < MAX_ATTEMPTS:
            raise ValueError(f"attempts are counted from 1, not {self.attempt}")

    def __str__(self) -> str:
        return f"{self.run_id}/{self.attempt}"


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of one attempt in their order, without gap, each as its JSON line without the line end.

    There may be a gap between two batches: events that were refused, or lost with a damaged outbox, are never sent.
    When events are sent again, the batches may be cut elsewhere.
    """

    key: RunKey
    first_seq: int
    lines: Sequence[bytes]

    @property
    def last_seq(self) -> int:
        """The `seq` of the last event."""
        return self.first_seq + len(self.lines) - 1

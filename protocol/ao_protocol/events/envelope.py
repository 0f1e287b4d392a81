"""Events: what an executor writes on stdout, a line each (SPEC 5).

An event is an envelope and a body; on the wire they are one flat object. Which body it is, `event_type` says.
"""

from functools import cache
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field, JsonValue, ValidationError

from ao_protocol.events.bodies import BODIES, Body, Failure, Result, VendorEvent
from ao_protocol.ijson import NotIJson, decode_object
from ao_protocol.schema_store import validator_for
from ao_protocol.wire import Integer, JsonObject, WireModel, problems_of

if TYPE_CHECKING:
    from jsonschema_rs import Validator

UTC_TIME: Final = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T"
    r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]{1,9})?(Z|\+00:00)$"
)


class Envelope(WireModel):
    """What every event carries. Order comes from `seq`; `timestamp` is for people."""

    session_id: str | None
    run_id: str | None
    seq: Annotated[Integer, Field(ge=1)]
    timestamp: Annotated[str, Field(pattern=UTC_TIME)]


class Event(WireModel):
    """One line of an executor's stdout."""

    envelope: Envelope
    body: Body

    @property
    def is_terminal(self) -> bool:
        """True for the last event of a run."""
        return isinstance(self.body, Result | Failure)

    def to_document(self) -> JsonObject:
        """Return the event as it stands on the wire: flat, without the optional fields that are not set."""
        return {"event_type": self.body.event_type, **self.envelope.model_dump(), **body_fields(self.body)}


class InvalidEvent(ValueError):
    """A line is JSON but no event, or not even JSON. `problems` says where and why."""

    def __init__(self, event_type: object, problems: list[str]) -> None:
        super().__init__(event_type, problems)
        self.event_type = event_type
        self.problems = problems

    def __str__(self) -> str:
        named = f"event {self.event_type!r}" if isinstance(self.event_type, str) else "line"
        return f"invalid {named}: {'; '.join(self.problems)}"


_ENVELOPE_FIELDS: Final = frozenset(Envelope.model_fields) | {"event_type"}


def body_fields(body: Body) -> JsonObject:
    """Return a body's own fields as they stand on the wire, `event_type` left out."""
    if isinstance(body, VendorEvent):
        return dict(body.fields)
    fields: JsonObject = body.model_dump(by_alias=True, exclude_none=True, exclude={"event_type"})
    if isinstance(body, Result):
        fields = {"result_text": body.result_text, "result_data": body.result_data} | fields
    return fields


def parse_event(line: bytes) -> Event:
    """Read one line of an executor's stdout.

    Args:
        line: UTF-8 without its line end.

    Returns:
        The event with its envelope and its body; fields that this version does not know are left out.

    Raises:
        InvalidEvent: the line is not I-JSON, no event, or an event of an unknown type without a vendor's prefix.
    """
    try:
        document = decode_object(line)
    except NotIJson as error:
        raise InvalidEvent(None, [str(error)]) from error
    return event_from_document(document)


def check_event(document: dict[str, JsonValue]) -> None:
    """Check that a flat object is an event, by the published schema: it takes a quarter of the time of a model.

    Args:
        document: What `decode_object` returned for a line.

    Raises:
        InvalidEvent: naming every field that is wrong.
    """
    if not _validator().is_valid(document):
        event_from_document(document)  # has the words for what is wrong; a test holds schema and models together


@cache
def _validator() -> "Validator":
    return validator_for("event")


def event_from_document(document: dict[str, JsonValue]) -> Event:
    """Read an event that stands as a flat object.

    Args:
        document: What `decode_object` returned for a line.

    Returns:
        The event, as `parse_event`.

    Raises:
        InvalidEvent: naming every field that is wrong.
    """
    event_type = document.get("event_type")
    try:
        envelope = Envelope.model_validate(document)
        body = _body_from_document(event_type, document)
    except ValidationError as error:
        raise InvalidEvent(event_type, problems_of(error, document)) from error
    return Event.model_construct(envelope=envelope, body=body)


def _body_from_document(event_type: JsonValue, document: dict[str, JsonValue]) -> Body:
    if isinstance(event_type, str) and event_type.startswith("_"):
        fields = {name: value for name, value in document.items() if name not in _ENVELOPE_FIELDS}
        return VendorEvent(event_type=event_type, fields=fields)
    model = BODIES.get(event_type) if isinstance(event_type, str) else None
    if model is None:
        raise InvalidEvent(
            event_type,
            [
                f"$.event_type: unknown event type {event_type!r}, expected one of "
                f"{', '.join(BODIES)}, or a vendor's own `_vendor/name`"
            ],
        )
    return model.model_validate(document)

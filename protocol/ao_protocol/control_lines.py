"""Control lines: what stdin carries besides the invocation (SPEC 4.4, 4.5, 8.3)."""

from typing import Final, Literal, TypeAlias, get_args

from pydantic import JsonValue, ValidationError

from ao_protocol.attachments import Attachments
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.json_words import shown
from ao_protocol.wire import Identifier, InvalidDocument, JsonObject, Name, WireModel, problems_of


class Cancel(WireModel):
    """End the current run, as cancelled. A second one, or one after the end, means nothing."""

    type: Literal["cancel"] = "cancel"
    reason: str | None = None


class Turn(WireModel):
    """Begin another run in the same session. For executors that declare `multi_turn`."""

    type: Literal["turn"] = "turn"
    run_id: Identifier
    parameters: JsonObject
    prompt: Name | None = None
    attachments: Attachments | None = None


class Shutdown(WireModel):
    """End the process once the current run has ended."""

    type: Literal["shutdown"] = "shutdown"


class InputResponse(WireModel):
    """Answer an `input_requested` event (SPEC 8.3). For executors that declare `input`.

    `value` is any JSON; absent is null.
    """

    type: Literal["input_response"] = "input_response"
    request_id: Name
    option_id: Name | None = None
    value: JsonValue = None
    outcome: Literal["accepted", "declined", "cancelled", "expired"] | None = None
    """If absent, the option and the value decide."""
    by: Literal["person", "policy", "timeout"] = "person"


class Park(WireModel):
    """End the run while it waits for an answer. For executors that declare `input_parking`."""

    type: Literal["park"] = "park"
    reason: str | None = None


class Prepare(WireModel):
    """Connect what can be connected before the invocation comes. For executors that declare `prepare`."""

    type: Literal["prepare"] = "prepare"
    invocation: JsonObject
    """An invocation without run_id, session_id, parameters, prompt and attachments."""


ControlLine: TypeAlias = Cancel | Turn | Shutdown | InputResponse | Park | Prepare

CONTROL_LINES: Final[dict[str, type[ControlLine]]] = {
    kind.model_fields["type"].default: kind for kind in get_args(ControlLine)
}


class InvalidControlLine(InvalidDocument):
    """A control line that is not a JSON object, has no `type`, or violates the form of its type."""

    kind = "control line"


def parse_control_line(line: bytes) -> ControlLine | None:
    """Return the control line; None for an unknown type, which is ignored (AOX-061).

    Raises:
        InvalidControlLine: The line is invalid. The problems name every invalid field.
    """
    try:
        document = decode_object(line)
    except NotIJson as error:
        raise InvalidControlLine([str(error)]) from error
    kind = document.get("type")
    if not isinstance(kind, str):
        place = "$.type" if "type" in document else "$"
        raise InvalidControlLine([f"{place}: expected a type, a string, found {shown(kind)}"])
    model = CONTROL_LINES.get(kind)
    try:
        return model.model_validate(document) if model else None
    except ValidationError as error:
        raise InvalidControlLine(problems_of(error, document)) from error

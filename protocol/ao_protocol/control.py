"""Control lines: what stands on stdin besides the invocation (SPEC 4.4, 4.5)."""

from typing import Final, Literal, TypeAlias, get_args

from pydantic import JsonValue, ValidationError

from ao_protocol.ijson import NotIJson, decode_object
from ao_protocol.wire import Identifier, JsonObject, Name, WireModel, problems_of


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


class Shutdown(WireModel):
    """End the process once the current run has ended."""

    type: Literal["shutdown"] = "shutdown"


class InputResponse(WireModel):
    """The answer to an `input_requested` event."""

    type: Literal["input_response"] = "input_response"
    request_id: Name
    value: JsonValue = None


class Prepare(WireModel):
    """Connect what can be connected before the invocation comes. For executors that declare `prepare`.

    It stands before the invocation (SPEC 4.5); behind it, it means nothing. `invocation` has no `parameters`.
    """

    type: Literal["prepare"] = "prepare"
    invocation: JsonObject


ControlLine: TypeAlias = Cancel | Turn | Shutdown | InputResponse | Prepare

_KINDS: Final[dict[str, type[ControlLine]]] = {
    kind.model_fields["type"].default: kind for kind in get_args(ControlLine)
}


class InvalidControlLine(ValueError):
    """A control line of a known type that is not as the type demands, or that is no JSON object."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return f"invalid control line: {'; '.join(self.problems)}"


def parse_control_line(line: bytes) -> ControlLine | None:
    """Read a control line; None for a type that is unknown here and is to be ignored.

    Raises:
        InvalidControlLine: naming every field that is wrong.
    """
    try:
        document = decode_object(line)
    except NotIJson as error:
        raise InvalidControlLine([str(error)]) from error
    kind = document.get("type")
    if not isinstance(kind, str):
        raise InvalidControlLine([f"$.type: expected a string, found {kind!r}"])
    model = _KINDS.get(kind)
    try:
        return model.model_validate(document) if model else None
    except ValidationError as error:
        raise InvalidControlLine(problems_of(error, document)) from error

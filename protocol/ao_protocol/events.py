"""Events: the lines that an executor writes on stdout (SPEC 5): an envelope and a body, which `event_type` identifies.

The models are the source of `event.schema.json` and `error.schema.json`, including the descriptions.
"""

from functools import cache
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self, TypeAlias, get_args

from pydantic import ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema

from ao_protocol.field_rules import OF_A_FAILURE, OF_A_REQUEST, OF_A_RESULT
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.json_words import shown
from ao_protocol.message_content import ContentBlock
from ao_protocol.wire import (
    Count,
    ExecutorIdentity,
    InvalidDocument,
    JsonObject,
    Name,
    NonNegative,
    PositiveCount,
    VersionText,
    WireModel,
    problems_of,
)

if TYPE_CHECKING:
    from jsonschema_rs import Validator


class RunStarted(WireModel):
    """The first event of every run, also of one that is refused."""

    event_type: Literal["run_started"] = "run_started"
    schema_version: VersionText
    executor: ExecutorIdentity


class SessionBound(WireModel):
    """The executor's own name for the session, which a later `resume` brings back."""

    event_type: Literal["session_bound"] = "session_bound"
    executor_session_id: Name
    project_dir: str | None = None
    model: str | None = None


Role: TypeAlias = Literal["user", "assistant", "system"]
Truncated = Annotated[bool | None, Field(description="The text was cut to fit the line.")]
OriginalBytes = Annotated[Count | None, Field(description="How long the whole text was, in UTF-8.")]
Parent = Annotated[Name | None, Field(description="The open tool call whose work this is part of (SPEC 5.1).")]


class Message(WireModel):
    """A whole message of the conversation."""

    event_type: Literal["message"] = "message"
    message_id: Name
    role: Role
    content: list[ContentBlock]
    parent_tool_call_id: Parent = None
    truncated: Truncated = None
    original_bytes: OriginalBytes = None


class MessageDelta(WireModel):
    """A piece of a message while it is being written; the whole `message` follows."""

    event_type: Literal["message_delta"] = "message_delta"
    message_id: Name
    role: Role
    content: list[ContentBlock]
    parent_tool_call_id: Parent = None
    truncated: Truncated = None
    original_bytes: OriginalBytes = None


class ToolStarted(WireModel):
    """A tool call began. Exactly one `tool_finished` with its `tool_call_id` follows."""

    event_type: Literal["tool_started"] = "tool_started"
    tool_call_id: Name
    tool_name: Name
    parent_tool_call_id: Parent = None
    tool_input: JsonValue = None
    truncated: Truncated = None
    original_bytes: OriginalBytes = None


class ToolFinished(WireModel):
    """A tool call ended."""

    event_type: Literal["tool_finished"] = "tool_finished"
    tool_call_id: Name
    tool_name: Name
    status: Literal["completed", "failed", "denied", "cancelled"]
    parent_tool_call_id: Parent = None
    tool_input: JsonValue = None
    tool_output: JsonValue = None
    error: str | None = None
    truncated: Truncated = None
    original_bytes: OriginalBytes = None


class OutputValidation(WireModel):
    """The verdict over one answer. It names the problems and never shows the answer."""

    event_type: Literal["output_validation"] = "output_validation"
    attempt: PositiveCount
    valid: bool
    errors: list[str]
    retries_left: Count


class RetryError(WireModel):
    """Why a request to the model is made again."""

    type: Name
    message: str


class RetryScheduled(WireModel):
    """A transient failure that is being tried again; it is no failure of the run."""

    event_type: Literal["retry_scheduled"] = "retry_scheduled"
    error: RetryError
    attempt: PositiveCount
    """Counts the failed requests in a row."""
    delay_seconds: NonNegative


class UsageFigures(WireModel):
    """Tokens and cost in US dollars so far: totals of this run, which never go down (AOX-078)."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    """The part of `output_tokens` that was reasoning."""
    cost_usd: NonNegative | None = None


class Usage(UsageFigures):
    """Tokens and cost of this run so far."""

    event_type: Literal["usage"] = "usage"


class Heartbeat(WireModel):
    """Says that the executor lives. Whether the run makes progress, `last_progress_seq` says."""

    event_type: Literal["heartbeat"] = "heartbeat"
    phase: Literal["model", "tool", "retry_wait", "input", "idle"]
    last_progress_seq: Count
    """`seq` of the run's last event but for heartbeats and logs (AOX-081); 0 is before the first event."""


class Log(WireModel):
    """A remark for people."""

    event_type: Literal["log"] = "log"
    level: Literal["debug", "info", "warning", "error"]
    message: str
    truncated: Truncated = None
    original_bytes: OriginalBytes = None


class InputOption(WireModel):
    """One possible answer to a request."""

    id: Name
    label: str
    effect: Literal["allow", "deny", "other"]
    scope: Literal["once", "session"] = "once"
    """`session` if the answer also applies to later requests of its kind."""


class InputRequested(WireModel):
    """A request for a decision or a value, which an `input_response` line on stdin answers (SPEC 8.3).

    `tool_input` is the exact input of the call that waits; it is never cut.
    """

    model_config = ConfigDict(json_schema_extra=OF_A_REQUEST)

    event_type: Literal["input_requested"] = "input_requested"
    request_id: Name
    kind: Name
    """`permission`, `question` or another kind."""
    title: str
    options: Annotated[list[InputOption], Field(min_length=1)] | None = None
    """The possible answers; of two with the same `id` the first counts."""
    schema_: JsonObject | None = Field(default=None, alias="schema")
    """JSON Schema Draft-7 of the answer's `value`; without it no value is taken."""
    default: Name | None = None
    """The `id` of the option that applies if nobody answers. One whose effect is `allow` counts as absent."""
    tool_call_id: Name | None = None
    tool_input: JsonValue = None

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        if self.options is None and self.schema_ is None:
            raise ValueError("options and schema are both missing; expected one of them or both")
        return self


class InputResolved(WireModel):
    """The end of a request: how it was answered, and by whom (SPEC 8.3)."""

    event_type: Literal["input_resolved"] = "input_resolved"
    request_id: Name
    outcome: Literal["accepted", "declined", "cancelled", "expired"]
    by: Literal["person", "policy", "timeout"]
    option_id: Name | None = None


class OutputSummary(WireModel):
    """How an output contract was met."""

    schema_source: Name
    """blueprint, inline, named or default."""
    retry_count: Count
    """How often it was asked again."""
    ambiguous: bool = False
    """The answer held different values that validate."""
    strategy: Name | None = None
    """How the model was asked: prompt, system_prompt, extract, native, tool or another name."""
    sent: list[Name] | None = None
    """Where the demand was in each request to the model: as `strategy`, nothing or re_prompt."""
    delivered_by: Name | None = None
    """What held the value: native, tool or text."""
    edits: list[str] | None = None
    """What lenient reading passed over."""


class Result(WireModel):
    """A run that ended well. Exactly one of `result_text` and `result_data` is set; the other is null.

    With an output contract `result_data` is the one, and may itself be JSON null; `output` is then there.
    """

    model_config = ConfigDict(json_schema_extra=OF_A_RESULT)

    event_type: Literal["result"] = "result"
    result_text: str | None
    result_data: JsonValue
    stop_reason: Name
    output: OutputSummary | None = None
    usage: UsageFigures | None = None
    truncated: Truncated = None
    original_bytes: OriginalBytes = None
    error: None = None
    """A result has no error (AOX-076)."""

    @model_validator(mode="after")
    def _one_of_text_and_data(self) -> Self:
        if self.result_text is not None and self.result_data is not None:
            raise ValueError("result_text and result_data are both set; expected one of them")
        if self.result_text is None and self.result_data is None and self.output is None:
            raise ValueError("result_text and result_data are both null; expected one of them")
        return self


class ErrorInfo(WireModel):
    """What went wrong, for a program to act on and for a person to read (SPEC 6.1)."""

    type: Name
    """From an open registry: act on an unknown type by `retryable` and `side_effects`."""
    message: Name
    """What happened, with the value, then what to do."""
    retryable: bool
    """Whether the same invocation may do better later."""
    side_effects: Literal["none", "possible"]
    """Whether the run may have changed anything. A retry is safe only if this is `none`."""
    origin: Literal["caller", "model", "provider", "tool", "environment", "executor", "runner"]
    """Whose fault it was."""
    retry_after_seconds: NonNegative | None = None
    """When a retry makes sense."""
    validation_errors: list[str] | None = None
    """Each is `path: message` (SPEC 6.3)."""
    details: JsonObject | None = None
    """More, for programs."""


class Failure(WireModel):
    """A run that did not end well."""

    model_config = ConfigDict(json_schema_extra=OF_A_FAILURE)

    event_type: Literal["failure"] = "failure"
    status: Literal["failed", "cancelled"]
    error: ErrorInfo
    usage: UsageFigures | None = None
    result_text: None = None
    """A failure has no result (AOX-076)."""
    result_data: None = None
    """A failure has no result (AOX-076)."""

    @model_validator(mode="after")
    def _cancelled_by_both_names(self) -> Self:
        if (self.status == "cancelled") != (self.error.type == "cancelled"):
            raise ValueError(
                f"status is {self.status} and error.type is {self.error.type}; expected both or neither to be cancelled"
            )
        return self


class VendorEvent(WireModel):
    """A vendor's own event, `_vendor/name`, with whatever fields it has."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": True})

    event_type: Annotated[str, Field(pattern=r"^_[a-z0-9][a-z0-9_.-]*/[A-Za-z0-9_.-]+$")]
    fields: SkipJsonSchema[JsonObject]


StandardBody: TypeAlias = (
    RunStarted
    | SessionBound
    | Message
    | MessageDelta
    | ToolStarted
    | ToolFinished
    | OutputValidation
    | RetryScheduled
    | Usage
    | Heartbeat
    | Log
    | InputRequested
    | InputResolved
    | Result
    | Failure
)
Terminal: TypeAlias = Result | Failure
Body: TypeAlias = StandardBody | VendorEvent

BODIES: Final[dict[str, type[StandardBody]]] = {
    body.model_fields["event_type"].default: body for body in get_args(StandardBody)
}
"""The standard bodies by their `event_type`."""
REQUEST_EVENTS: Final = frozenset({"input_requested", "input_resolved"})
"""Event types that open or close a request to a person."""


class Envelope(WireModel):
    """What every event carries."""

    session_id: str | None
    run_id: str | None
    seq: PositiveCount
    """1 on the first event of a run, then one more with each."""
    timestamp: Annotated[
        str,
        Field(
            pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T"
            r"([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]{1,9})?(Z|\+00:00)$"
        ),
    ]
    """RFC 3339 in UTC. Order comes from `seq`."""


class Event(WireModel):
    """A line that an executor writes on stdout (SPEC 5): the envelope and the fields of its type, flat."""

    envelope: Envelope
    body: Body

    @property
    def is_terminal(self) -> bool:
        """Whether this is the last event of its run."""
        return isinstance(self.body, Result | Failure)

    def to_document(self) -> JsonObject:
        """Return the event as on the wire: one flat object, without optional fields that are not set."""
        return {"event_type": self.body.event_type, **self.envelope.model_dump(), **body_fields(self.body)}


class InvalidEvent(InvalidDocument):
    """A line that is not I-JSON, or a JSON object that is not an event.

    `problems` has the path and the message of each problem. `event_type` is the value of that field, or None.
    """

    def __init__(self, event_type: object, problems: list[str]) -> None:
        super().__init__(problems)
        self.event_type = event_type
        self.kind = f"event {shown(event_type)}" if isinstance(event_type, str) else "line"


_ENVELOPE_FIELDS: Final = frozenset(Envelope.model_fields) | {"event_type"}


def body_fields(body: Body) -> JsonObject:
    """Return the fields of a body as on the wire, without `event_type`."""
    if isinstance(body, VendorEvent):
        return dict(body.fields)
    fields: JsonObject = body.model_dump(by_alias=True, exclude_none=True, exclude={"event_type"})
    if isinstance(body, Result):
        fields = {"result_text": body.result_text, "result_data": body.result_data} | fields
    return fields


def parse_event(line: bytes) -> Event:
    """Return the event on one line of an executor's stdout.

    Args:
        line: The line in UTF-8, without its line end.

    Returns:
        The event with its envelope and its body. Unknown fields are left out, except those of vendor events.

    Raises:
        InvalidEvent: The line is not I-JSON, is not an event, or has an unknown type without a vendor's prefix.
    """
    try:
        document = decode_object(line)
    except NotIJson as error:
        raise InvalidEvent(None, [str(error)]) from error
    return event_from_document(document)


def check_event(document: dict[str, JsonValue]) -> None:
    """Check that a flat object is an event, with the published schema. This takes a quarter of the time of a model.

    Args:
        document: The object that `decode_object` returned for a line.

    Raises:
        InvalidEvent: The object is not an event. The problems name every invalid field.
    """
    event_type = document.get("event_type")
    kind = event_type if isinstance(event_type, str) and event_type in BODIES else "vendor_event"
    if not _validator_of(kind).is_valid(document):
        event_from_document(document)  # raises with the problems; a test keeps schema and models equal


@cache
def _validator_of(kind: str) -> "Validator":
    from ao_protocol.published import validator_for  # an executor that only writes events needs none

    return validator_for("event", part=kind)


def event_from_document(document: dict[str, JsonValue]) -> Event:
    """Return the event that a flat object describes.

    Args:
        document: The object that `decode_object` returned for a line.

    Returns:
        The event, as `parse_event` returns it.

    Raises:
        InvalidEvent: The object is not an event. The problems name every invalid field.
    """
    event_type = document.get("event_type")
    try:
        envelope = Envelope.model_validate(document)
        body = body_from_document(document)
    except ValidationError as error:
        raise InvalidEvent(event_type, problems_of(error, document)) from error
    return Event.model_construct(envelope=envelope, body=body)


def body_from_document(document: dict[str, JsonValue]) -> Body:
    """Return the body of an event that `check_event` accepts."""
    event_type = document.get("event_type")
    if isinstance(event_type, str) and event_type.startswith("_"):
        fields = {name: value for name, value in document.items() if name not in _ENVELOPE_FIELDS}
        return VendorEvent(event_type=event_type, fields=fields)
    model = BODIES.get(event_type) if isinstance(event_type, str) else None
    if model is None:
        expected = f"expected one of {', '.join(BODIES)}, or a vendor's own `_vendor/name`"
        place = "$.event_type" if "event_type" in document else "$"
        raise InvalidEvent(event_type, [f"{place}: unknown event type {shown(event_type)}, {expected}"])
    return model.model_validate(document)

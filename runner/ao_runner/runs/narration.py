"""What each event of a run says to people. Terminals and pages show these entries and know no event types themselves.

A new event type gets its case in `entry_of`. Without one it gets the general entry: its type and its fields.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Final, Literal, Self, TypeAlias

from pydantic import JsonValue, ValidationError

from ao_protocol.events import (
    BODIES,
    Body,
    Envelope,
    Event,
    Failure,
    Heartbeat,
    InputRequested,
    InputResolved,
    InvalidEvent,
    Log,
    Message,
    MessageDelta,
    OutputValidation,
    Result,
    RetryScheduled,
    RunStarted,
    SessionBound,
    ToolFinished,
    ToolStarted,
    Usage,
    UsageFigures,
    VendorEvent,
    body_fields,
    parse_event,
)
from ao_protocol.framing import decode_object
from ao_protocol.message_content import reasoning_of, text_of
from ao_protocol.wire import JsonObject
from ao_runner.run_events import NOT_DESCRIBED

Kind: TypeAlias = Literal["start", "message", "delta", "tool", "check", "log", "end"]
Severity: TypeAlias = Literal["plain", "dim", "good", "warning", "fault", "error"]
"""A warning needs attention, after a fault the run goes on, and an error ends it or is as bad."""
Weight: TypeAlias = Literal["line", "detail", "quiet"]
"""Where an entry is shown: everywhere, only where there is room for all that happened, or nowhere by itself."""

NOTHING: Final = object()
"""Stands for a value that an event does not have, since it may have null."""
_WORKSPACE: Final = "_ao/workspace"
CHANGES: Final = "Changes"
"""The title of what a run changed in its workspace."""
_RESOLVED_BY: Final = {
    "person": "by a person",
    "policy": "because the run ended",
    "timeout": "nobody answered in time",
}


@dataclass(frozen=True, slots=True)
class NarrationEntry:
    """What an event says to people. No text is cut, and any may contain control characters.

    Args:
        kind: What sort of entry it is.
        title: Who did something, or what happened, in a few words.
        text: What was said or done.
        line: Title and text as one sentence; by default the text.
        mark: A character that stands for the kind of event.
        severity: How good or bad it is.
        weight: Where it is shown.
        label: One word about the end of a tool call; empty for all else.
        value: A value to look into; NOTHING if there is none.
        points: Single problems.
        message_id: The id of a message or a piece of one.
        doing: What the run does after the event; empty if the event does not tell.
        reasoning: What the model thought before it said the text.
        call: The id of a tool call that begins or ends.
        parent: The id of the tool call that the event is part of; empty if there is none.
        path: The ids of that call and the calls around it, the outermost first. The length is the depth.
        part_of: The entry of the begin of that call; None if it is unknown.
        is_below: Whether the entry is shown directly below that call or other parts of it.
    """

    kind: Kind
    title: str
    text: str = ""
    line: str = ""
    mark: str = "·"
    severity: Severity = "plain"
    weight: Weight = "line"
    label: str = ""
    value: object = NOTHING
    points: Sequence[str] = ()
    message_id: str = ""
    doing: str = ""
    reasoning: str = ""
    call: str = ""
    parent: str = ""
    path: tuple[str, ...] = ()
    part_of: Self | None = None
    is_below: bool = True

    @property
    def sentence(self) -> str:
        """The entry as one sentence."""
        return self.line or self.text


@dataclass
class Nesting:
    """Finds the place of each entry of a run below the tool call that it is part of (AOX-095).

    Args:
        shown: The weights of the entries that are shown.
    """

    shown: Collection[Weight]
    _open: dict[str, NarrationEntry] = field(default_factory=dict)
    """The entries of the begin of the open calls, by their ids."""
    _above: tuple[str, ...] = ()
    """The calls below which the last shown entry stands, and its own."""

    def place(self, entry: NarrationEntry) -> NarrationEntry:
        """Return the next entry with its place. Pass all entries of a run, also those that are not shown."""
        if entry.kind == "start":
            self._open.clear()
        begun = self._open.pop(entry.call, None)
        if parent := entry.parent or ("" if begun is None else begun.parent):
            call = self._open.get(parent)
            path, is_below = (*(() if call is None else call.path), parent), parent in self._above
            entry = replace(entry, parent=parent, path=path, part_of=call, is_below=is_below)
        if entry.kind == "tool" and not entry.label:
            self._open[entry.call] = entry
        if entry.weight in self.shown:
            own = (*entry.path, entry.call)
            # A piece is added to the entry of its message, which may stand further up.
            self._above = tuple(call for call in self._above if call in own) if entry.kind == "delta" else own
        return entry


@dataclass
class Narration:
    """The entries of the events of one run, in their order, where the result is shown by itself.

    A message of the agent is held back until the next event tells whether it is the result.
    """

    nesting: Nesting
    last: NarrationEntry = field(init=False)
    """The entry of the last event, due or not."""
    _held_back: tuple[Message, NarrationEntry] | None = None

    def receive(self, body: Body) -> list[NarrationEntry]:
        """Return the entries that the next event makes due, of any weight."""
        entry = self.last = self.nesting.place(entry_of(body))
        if isinstance(body, Usage):
            return [entry]  # it comes between a message and the result
        held, self._held_back = self._held_back, None
        due = [] if held is None else [held[1]]
        if held is not None and is_result(held[0], body):
            due = [replace(held[1], text="")] if held[1].reasoning else []
        if isinstance(body, Message) and body.role == "assistant" and not body.parent_tool_call_id and entry.text:
            self._held_back = body, entry
            return due
        return [*due, entry]


def event_for_people(line: bytes) -> Event:
    """Return the event on a line, also one of a type that this version does not know, with its fields.

    Raises:
        InvalidEvent: The line is not an event of any version.
    """
    try:
        return parse_event(line)
    except InvalidEvent as error:
        if not isinstance(error.event_type, str) or error.event_type in BODIES:
            raise
        try:
            document = decode_object(line)
            envelope = Envelope.model_validate(document)
        except ValidationError:
            raise error from None
        fields = {name: value for name, value in document.items() if name not in {*Envelope.model_fields, "event_type"}}
        body = VendorEvent.model_construct(event_type=error.event_type, fields=fields)
        return Event.model_construct(envelope=envelope, body=body)


@singledispatch
def entry_of(body: Body) -> NarrationEntry:
    """Return the entry of one event."""
    fields = body_fields(body)
    brief = _brief(fields)
    line = f"{body.event_type} {brief}".rstrip()
    weight: Weight = "detail" if body.event_type.startswith("_") else "line"
    return NarrationEntry("log", body.event_type, brief, line, weight=weight, value=fields)


@entry_of.register
def _(body: RunStarted) -> NarrationEntry:
    name = f"{body.executor.name} {body.executor.version}"
    weight: Weight = "detail" if body.executor.version == NOT_DESCRIBED else "line"
    line = f"{name} started"
    return NarrationEntry("start", "Run started", name, line, severity="dim", weight=weight, doing="thinking")


@entry_of.register
def _(body: SessionBound) -> NarrationEntry:
    text = " · ".join(filter(None, [body.model, body.executor_session_id]))
    weight: Weight = "detail" if body.model is None else "line"
    return NarrationEntry("log", "Session", text, f"model {body.model}", severity="dim", weight=weight)


@entry_of.register
def _(body: Message) -> NarrationEntry:
    text, reasoning = text_of(body.content), reasoning_of(body.content)
    entry = NarrationEntry("message", body.role, text, mark="│", doing="thinking", reasoning=reasoning)
    entry = replace(entry, message_id=body.message_id, parent=body.parent_tool_call_id or "")
    if not text.strip() and reasoning.strip():
        entry = replace(entry, line=f"thinking: {reasoning}", mark="·", severity="dim")
    elif not text.strip():
        return replace(entry, weight="quiet")
    return entry if body.role == "assistant" else replace(entry, weight="detail")


@entry_of.register
def _(body: MessageDelta) -> NarrationEntry:
    text, reasoning = text_of(body.content), reasoning_of(body.content)
    if not text and not reasoning:
        return NarrationEntry("delta", body.role, weight="quiet")
    doing = "writing" if text else "thinking"
    entry = NarrationEntry("delta", body.role, text, weight="detail", doing=doing, reasoning=reasoning)
    return replace(entry, message_id=body.message_id, parent=body.parent_tool_call_id or "")


@entry_of.register
def _(body: ToolStarted) -> NarrationEntry:
    brief = _brief(body.tool_input)
    line = f"{body.tool_name} {brief}".rstrip()
    call, parent = body.tool_call_id, body.parent_tool_call_id or ""
    return NarrationEntry("tool", body.tool_name, brief, line, "→", value=body.tool_input, call=call, parent=parent)


@entry_of.register
def _(body: ToolFinished) -> NarrationEntry:
    value = body.tool_output if body.error is None else body.error
    entry = NarrationEntry("tool", body.tool_name, _brief(value), label=body.status, value=value, doing="thinking")
    entry = replace(entry, call=body.tool_call_id, parent=body.parent_tool_call_id or "")
    if body.status == "completed":
        return replace(entry, weight="detail")
    line = f"{body.tool_name} {body.status}{f': {body.error}' if body.error else ''}"
    return replace(entry, line=line, mark="!", severity="fault")


@entry_of.register
def _(body: OutputValidation) -> NarrationEntry:
    begin = f"attempt {body.attempt} of {body.attempt + body.retries_left}: the answer"
    if body.valid:
        text = f"{begin} fits the schema"
        return NarrationEntry("check", "Answer", text, mark="✓", severity="good", doing="finishing")
    text = f"{begin} does not fit the schema; {'asking again' if body.retries_left else 'giving up'}"
    points = body.errors
    return NarrationEntry("check", "Answer", text, mark="✗", severity="fault", points=points, doing="asking again")


@entry_of.register
def _(body: RetryScheduled) -> NarrationEntry:
    text = f"{body.error.type}: {body.error.message}; retry {body.attempt} in {body.delay_seconds:g} s"
    return NarrationEntry("log", "Retry", text, mark="…", severity="warning", doing="waiting to try again")


@entry_of.register
def _(body: Log) -> NarrationEntry:
    entry = NarrationEntry("log", body.level, body.message, mark="!")
    if body.level in {"warning", "error"}:
        return replace(entry, severity=body.level)
    return replace(entry, weight="detail")


@entry_of.register
def _(body: InputRequested) -> NarrationEntry:
    value = NOTHING if body.schema_ is None else body.schema_
    return NarrationEntry("check", "Question", body.title, mark="?", severity="warning", value=value)


@entry_of.register
def _(body: InputResolved) -> NarrationEntry:
    entry = NarrationEntry("check", body.outcome.capitalize(), _RESOLVED_BY[body.by], doing="thinking")
    if body.outcome == "accepted":
        return replace(entry, severity="good", weight="detail")
    line = f"the request {'expired' if body.outcome == 'expired' else f'was {body.outcome}'}"
    return replace(entry, line=line, mark="!", severity="fault")


@entry_of.register
def _(body: Usage) -> NarrationEntry:
    return NarrationEntry("log", "Usage", describe_usage(body), weight="quiet")


@entry_of.register
def _(body: Heartbeat) -> NarrationEntry:
    doing = "waiting to try again" if body.phase == "retry_wait" else ""
    return NarrationEntry("log", "Heartbeat", body.phase, weight="quiet", doing=doing)


@entry_of.register
def _(body: Result) -> NarrationEntry:
    value = NOTHING if body.result_data is None else body.result_data
    text = body.result_text or ""
    return NarrationEntry("end", "Result", text, mark="✓", severity="good", weight="detail", value=value)


@entry_of.register
def _(body: Failure) -> NarrationEntry:
    error, points = body.error, body.error.validation_errors or ()
    title, text, line = body.status.capitalize(), f"{error.type}: {error.message}", f"{body.status}: {error.message}"
    return NarrationEntry("end", title, text, line, mark="✗", severity="error", weight="detail", points=points)


@entry_of.register
def _(body: VendorEvent) -> NarrationEntry:
    general = entry_of.dispatch(object)(body)
    if body.event_type != _WORKSPACE:
        return general
    severity: Severity = "warning" if "problem" in body.fields else "plain"
    return replace(general, title=CHANGES, text=_workspace(body.fields), line="", severity=severity, weight="line")


def describe_usage(usage: UsageFigures | None) -> str:
    """Return tokens and cost in a few words; empty if they are unknown."""
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        return ""
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd is not None else ""
    return f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out{cost}"


def is_result(message: Message, body: Body) -> bool:
    """Return whether an event is a result, and the message says the same."""
    if not isinstance(body, Result):
        return False
    text = text_of(message.content)
    return is_json_of(text, body.result_data) if body.result_text is None else text == body.result_text


def is_json_of(text: str, value: object) -> bool:
    """Return whether a text is a value as JSON."""
    try:
        return bool(json.loads(text) == value)
    except (ValueError, RecursionError):
        return False


def _workspace(fields: JsonObject) -> str:
    """Return where the changes of a run are."""
    kept = f"workspace: {fields['path']}" if fields.get("path") else ""
    branch = f"branch {fields['branch']}" if fields.get("branch") else ""
    count = fields.get("file_count", "?")
    parts = (f"{count} {'file' if count == 1 else 'files'} changed", branch, kept, str(fields.get("problem", "")))
    return ", ".join(filter(None, parts))


def _brief(value: JsonValue) -> str:
    """Return a value as text without what says little: the name of an only member, an empty value."""
    if value is None or value == {}:
        return ""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

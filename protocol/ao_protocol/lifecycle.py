"""The lifecycle of a run (SPEC 5.1), and the defaults that a receiver adds to events of level core (5.2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pydantic import JsonValue

from ao_protocol.errors import REFUSALS, RETRYABLE
from ao_protocol.events import BODIES, REQUEST_EVENTS
from ao_protocol.json_words import shown
from ao_protocol.wire import JsonObject


@dataclass(frozen=True, slots=True)
class KnownOfRun:
    """Facts about a run that the receiver of its events knows beforehand.

    Args:
        run_id: The `run_id` of the invocation; None if it has none.
        session_id: The `session_id` of the invocation; None if it has none.
        executor: `{"name": …, "version": …}` of the description.
        schema_version: The version that was sent.
    """

    run_id: str | None
    session_id: str | None
    executor: Mapping[str, str]
    schema_version: str


_ENVELOPE: Final = frozenset({"event_type", "session_id", "run_id", "seq", "timestamp"})
_WITH_DEFAULTS: Final = frozenset({"run_started", "message", "tool_finished", "result", "failure"})


def complete_event(
    document: JsonObject, known: KnownOfRun, *, seq: int, timestamp: str, open_tools: Mapping[str, str]
) -> JsonObject:
    """Return an event with the defaults of SPEC 5.2 for absent fields.

    Fields that are present are not changed, valid or not, and null counts as present. If nothing is missing, the same
    object is returned.

    Args:
        document: The event as it was read.
        known: Facts about the run.
        seq: The number of the event if it has none.
        timestamp: The time at which the line was read, RFC 3339 in UTC.
        open_tools: The tool names of the calls that have not finished, by `tool_call_id`.
    """
    event_type = document.get("event_type")
    if document.keys() >= _ENVELOPE and isinstance(event_type, str) and event_type not in _WITH_DEFAULTS:
        return document
    envelope = {"session_id": known.session_id, "run_id": known.run_id, "seq": seq, "timestamp": timestamp}
    missing: dict[str, Any] = {name: value for name, value in envelope.items() if name not in document}
    added = _missing_of_type(document, known, missing.get("seq", document.get("seq")), open_tools)
    if not missing and not added:
        return document
    # The envelope comes first, as in complete events.
    first = {"event_type": event_type} if "event_type" in document else {}
    return {**first, **missing, **document, **added}


def _missing_of_type(
    document: JsonObject, known: KnownOfRun, seq: object, open_tools: Mapping[str, str]
) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    error = document.get("error")
    match document.get("event_type"):
        case "run_started":
            defaults = {"schema_version": known.schema_version, "executor": dict(known.executor)}
        case "message":
            defaults = {"message_id": f"msg_{known.run_id}_{seq}", "role": "assistant"}
        case "tool_finished":
            name = open_tools.get(str(document.get("tool_call_id")))
            defaults = {"status": "failed" if isinstance(error, str) else "completed"}
            defaults |= {} if name is None else {"tool_name": name}
        case "result" if "result_text" in document or "result_data" in document:
            defaults = {"result_text": None, "result_data": None, "stop_reason": "end_turn"}
        case "failure":
            is_cancelled = isinstance(error, dict) and error.get("type") == "cancelled"
            defaults = {"status": "cancelled" if is_cancelled else "failed"}
    added = {name: value for name, value in defaults.items() if name not in document}
    if document.get("event_type") == "failure" and isinstance(error, dict):
        whole = {**_error_defaults(error.get("type")), **error}
        added |= {} if whole == error else {"error": whole}
    return added


def _error_defaults(kind: JsonValue) -> dict[str, Any]:
    is_refusal = isinstance(kind, str) and kind in REFUSALS
    return {
        "retryable": isinstance(kind, str) and kind in RETRYABLE,
        "side_effects": "none" if is_refusal else "possible",
        "origin": "caller" if is_refusal or kind == "cancelled" else "executor",
    }


class Phase(StrEnum):
    """The phase of a run (SPEC 5.1)."""

    INVOKED = "invoked"
    RUNNING = "running"
    ENDED = "ended"


_WHILE_RUNNING: Final = sorted(BODIES.keys() - {"run_started", "result", "failure"})
VENDOR: Final = "_vendor"
"""The key of all vendor event types in the table."""

TRANSITIONS: Final[dict[Phase, dict[str, Phase]]] = {
    Phase.INVOKED: {"run_started": Phase.RUNNING},
    Phase.RUNNING: {
        **dict.fromkeys((*_WHILE_RUNNING, VENDOR), Phase.RUNNING),
        "result": Phase.ENDED,
        "failure": Phase.ENDED,
    },
    Phase.ENDED: {},
}
CALL_EVENTS: Final = frozenset({"tool_started", "tool_finished"}) | REQUEST_EVENTS
"""Event types that open or close a tool call or a request."""
_PAIRED: Final = CALL_EVENTS | {"result", "failure"}
"""Event types that open or close a tool call or a request, or are not allowed while one is open."""
_PARTS: Final = frozenset({"message", "message_delta", "tool_started"})
"""Event types that may be part of an open tool call."""


class LifecycleError(ValueError):
    """A sequence of valid events that violates the lifecycle (SPEC 5.1). The subclass identifies the fault."""


class EventOutOfOrder(LifecycleError):
    """The phase does not allow the event."""


@dataclass(eq=False)
class SequenceBroken(LifecycleError):
    """`seq` did not increase by one."""

    expected: int
    found: int

    def __str__(self) -> str:
        return f"seq is {self.found}, expected {self.expected}"


class WrongRun(LifecycleError):
    """An event has another `run_id` or `session_id` than its run."""


class ToolNotPaired(LifecycleError):
    """A tool call was finished without a start, started twice, or left open; or a part of it came outside of it."""


class InputNotPaired(LifecycleError):
    """A request was made twice, resolved without being open, or left open at the end of the run."""


class EndedWithoutTerminal(LifecycleError):
    """The stream ended without a terminal event."""


def advance(phase: Phase, event_type: str) -> Phase:
    """Return the phase after an event.

    Raises:
        EventOutOfOrder: The phase does not allow the event.
    """
    kind = VENDOR if event_type.startswith("_") else event_type
    try:
        return TRANSITIONS[phase][kind]
    except KeyError:
        raise EventOutOfOrder(f"{event_type!r} is not allowed while the run is {phase}") from None


def note_calls(event: Mapping[str, Any], open_tools: dict[str, str], requests: dict[str, bool]) -> None:
    """Take note of a tool call or a request that an event opens or closes. Other and incomplete objects change nothing.

    Args:
        event: The flat object on the wire, which need not be valid.
        open_tools: The tool names of the calls that have not finished, by `tool_call_id`.
        requests: Whether each request of the run is open, by `request_id`.
    """
    match event:
        case {"event_type": "tool_started", "tool_call_id": str(call), "tool_name": str(name)}:
            open_tools[call] = name
        case {"event_type": "tool_finished", "tool_call_id": str(call)}:
            open_tools.pop(call, None)
        case {"event_type": "input_requested" | "input_resolved" as kind, "request_id": str(request)}:
            requests[request] = kind == "input_requested"


@dataclass(slots=True)
class RunLifecycle:
    """Checks the events of one run: their order, `seq`, identity, and the pairing of tool calls and requests.

    An executor that could not read the invocation writes null for `run_id` and `session_id` (AOX-043): in
    `run_started`, and in the `failure`, the only event that may follow. A call that raises does not change the state,
    except for `seq`, which continues from the event received, and for `unnamed`.

    Args:
        run_id: The `run_id` of the invocation. If it is None, that of the first event counts.
        session_id: The `session_id` of the invocation. If it is None, that of the first event counts.
        phase: The current phase.
        last_seq: The `seq` of the last event; 0 before the first.
        open_tools: The tool names of the calls that have not finished, by `tool_call_id`.
        unnamed: `run_id` or `session_id` if it was null in `run_started`, until the next event; otherwise None.
        requests: Whether each request of the run is open, by `request_id`.
        parents: The call of which an open call is part, by the `tool_call_id` of the part.
    """

    run_id: str | None
    session_id: str | None
    phase: Phase = Phase.INVOKED
    last_seq: int = 0
    open_tools: dict[str, str] = field(default_factory=dict)
    unnamed: str | None = None
    """`run_id` or `session_id` if it was null in `run_started`, until the next event."""
    requests: dict[str, bool] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)

    @property
    def open_requests(self) -> list[str]:
        """The ids of the requests that are not resolved, in their order."""
        return [request for request, is_open in self.requests.items() if is_open]

    def receive(self, event: Mapping[str, Any]) -> None:
        """Check the next event.

        Args:
            event: A valid event (see `check_event`), as the flat object on the wire.

        Raises:
            LifecycleError: The event violates the lifecycle. The subclass identifies the fault.
        """
        expected, seq = self.last_seq + 1, int(event["seq"])
        self.last_seq = seq
        if seq != expected:
            raise SequenceBroken(expected, seq)
        event_type = event["event_type"]
        following = advance(self.phase, event_type)
        if self.unnamed is not None or event["run_id"] != self.run_id or event["session_id"] != self.session_id:
            self._check_identity(event_type, event["run_id"], event["session_id"])
        parent = event.get("parent_tool_call_id")
        if parent is not None and event_type in _PARTS and parent not in self.open_tools:
            raise ToolNotPaired(f"{event_type} is part of tool call {parent!r}, which is not open")
        if event_type in _PAIRED:
            self._pair(event_type, event)
        self.phase = following

    def end(self) -> None:
        """End the stream.

        Raises:
            EndedWithoutTerminal: The run has no terminal event.
        """
        if self.phase is not Phase.ENDED:
            raise EndedWithoutTerminal(f"no result and no failure came; the run was {self.phase}")

    def expect(self, seq: int) -> None:
        """Expect this number for the next event. Missing events before it are lost.

        Args:
            seq: The `seq` of the next event.
        """
        self.last_seq = seq - 1

    def begin_unannounced(self) -> None:
        """Treat the run as running, although its executor has not emitted `run_started`."""
        self.phase = Phase.RUNNING

    def forget_tool(self, call: str) -> None:
        """Remove an open tool call, whose start is not relayed.

        Args:
            call: The `tool_call_id` of the call.
        """
        del self.open_tools[call]
        self.parents.pop(call, None)

    def _check_identity(self, event_type: str, run_id: str | None, session_id: str | None) -> None:
        if event_type == "run_started":
            self.run_id = self.run_id or run_id
            self.session_id = self.session_id or session_id
        before, self.unnamed = self.unnamed, None
        may_be_unnamed = event_type == "run_started" or (event_type == "failure" and before is not None)
        unnamed = None
        for name, expected, found in (("run_id", self.run_id, run_id), ("session_id", self.session_id, session_id)):
            if found == expected:
                continue
            if found is not None or not may_be_unnamed:
                raise WrongRun(f"{name} is {shown(found)}, expected {shown(expected)}")
            unnamed = unnamed or name
        if before is not None and unnamed is None:
            raise WrongRun(f"{before} is null, expected {shown(getattr(self, before))}")
        self.unnamed = unnamed

    def _pair(self, event_type: str, event: Mapping[str, Any]) -> None:
        call, request = event.get("tool_call_id"), event.get("request_id")
        match event_type:
            case "tool_started" if call in self.open_tools:
                raise ToolNotPaired(f"tool call {call!r} was started twice")
            case "tool_finished" if call not in self.open_tools:
                raise ToolNotPaired(f"tool call {call!r} was finished but never started")
            case "tool_finished" if call in self.parents.values():
                raise ToolNotPaired(f"tool call {call!r} was finished before a tool call that is part of it")
            case "input_requested" if request in self.requests:
                raise InputNotPaired(f"request {request!r} was made twice")
            case "input_resolved" if not self.requests.get(str(request)):
                raise InputNotPaired(f"request {request!r} was resolved but is not open")
            case "result" | "failure" if self.open_tools:
                raise ToolNotPaired(f"tool call {next(iter(self.open_tools))!r} was never finished")
            case "result" | "failure" if self.open_requests:
                raise InputNotPaired(f"request {self.open_requests[0]!r} was never resolved")
        note_calls(event, self.open_tools, self.requests)
        match event:
            case {"event_type": "tool_started", "tool_call_id": part, "parent_tool_call_id": str(parent)}:
                self.parents[part] = parent
            case {"event_type": "tool_finished"}:
                self.parents.pop(str(call), None)

"""What may follow what in the life of a run (SPEC 5.1), and what its receiver adds to an event of core level."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pydantic import JsonValue

from ao_protocol.errors import REFUSALS, RETRYABLE
from ao_protocol.events import BODIES
from ao_protocol.wire import JsonObject


@dataclass(frozen=True, slots=True)
class KnownOfRun:
    """What the receiver of a run's events knows without them.

    Args:
        run_id: The run of the invocation; None if the invocation named none.
        session_id: The session of the invocation; None if it named none.
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
    """Return an event with the defaults of SPEC 5.2 for the fields that it leaves out.

    Nothing that is present is changed, right or wrong, and null counts as present. An event that lacks nothing is
    returned as it is, the same object.

    Args:
        document: The event as it was read.
        known: What the receiver knows of the run.
        seq: The number that the event has if it names none.
        timestamp: When the line was read, RFC 3339 in UTC.
        open_tools: Names of the tool calls that have not finished, by `tool_call_id`.
    """
    event_type = document.get("event_type")
    if document.keys() >= _ENVELOPE and isinstance(event_type, str) and event_type not in _WITH_DEFAULTS:
        return document
    envelope = {"session_id": known.session_id, "run_id": known.run_id, "seq": seq, "timestamp": timestamp}
    missing: dict[str, Any] = {name: value for name, value in envelope.items() if name not in document}
    added = _missing_of_type(document, known, missing.get("seq", document.get("seq")), open_tools)
    if not missing and not added:
        return document
    # The envelope comes first, as in events that were written whole.
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
    """Where a run stands, seen from outside."""

    INVOKED = "invoked"
    RUNNING = "running"
    ENDED = "ended"


_WHILE_RUNNING: Final = sorted(BODIES.keys() - {"run_started", "result", "failure"})
VENDOR: Final = "_vendor"
"""Stands in the table for every event type with a vendor's prefix."""

TRANSITIONS: Final[dict[Phase, dict[str, Phase]]] = {
    Phase.INVOKED: {"run_started": Phase.RUNNING},
    Phase.RUNNING: {
        **dict.fromkeys((*_WHILE_RUNNING, VENDOR), Phase.RUNNING),
        "result": Phase.ENDED,
        "failure": Phase.ENDED,
    },
    Phase.ENDED: {},
}
_OF_TOOLS: Final = frozenset({"tool_started", "tool_finished", "result", "failure"})
"""What begins or ends a tool call, or must not come while one is open."""


class LifecycleError(ValueError):
    """The events of a run, each valid by itself, do not make a run."""


@dataclass(eq=False)
class EventOutOfOrder(LifecycleError):
    """A valid event arrived in a phase that does not allow it."""

    phase: Phase
    event_type: str

    def __str__(self) -> str:
        return f"{self.event_type!r} is not allowed while the run is {self.phase}"


@dataclass(eq=False)
class SequenceBroken(LifecycleError):
    """`seq` did not go on by one."""

    expected: int
    found: int

    def __str__(self) -> str:
        return f"seq is {self.found}, expected {self.expected}"


@dataclass(eq=False)
class WrongRun(LifecycleError):
    """An event names another run or session than the one it belongs to."""

    name: str
    expected: str | None
    found: str | None

    def __str__(self) -> str:
        return f"{self.name} is {self.found!r}, expected {self.expected!r}"


@dataclass(eq=False)
class ToolNotPaired(LifecycleError):
    """A tool call was finished without a start, started twice, or left open at the end of the run."""

    tool_call_id: str
    fault: str

    def __str__(self) -> str:
        return f"tool call {self.tool_call_id!r} {self.fault}"


@dataclass(eq=False)
class EndedWithoutTerminal(LifecycleError):
    """The stream ended and the run had not."""

    phase: Phase

    def __str__(self) -> str:
        return f"no result and no failure came; the run was {self.phase}"


def advance(phase: Phase, event_type: str) -> Phase:
    """Return the phase after an event.

    Raises:
        EventOutOfOrder: the table has no such transition.
    """
    kind = VENDOR if event_type.startswith("_") else event_type
    try:
        return TRANSITIONS[phase][kind]
    except KeyError:
        raise EventOutOfOrder(phase, event_type) from None


@dataclass(slots=True)
class RunLifecycle:
    """Follows the events of one run: order, `seq`, identity and the pairing of tool calls.

    `run_id` and `session_id` are those of the invocation; None where it had none, and then the first event's
    count. An executor that could not read the invocation has null in their place (AOX-043): in `run_started`, and in
    the `failure` that alone may follow. A call that raises has not changed the state, but for `seq`, which goes on
    from the event received, and for `unnamed`.
    """

    run_id: str | None
    session_id: str | None
    phase: Phase = Phase.INVOKED
    last_seq: int = 0
    open_tools: dict[str, str] = field(default_factory=dict)
    unnamed: str | None = None
    """`run_id` or `session_id` behind a `run_started` with null in its place, until the next event has come."""

    def receive(self, event: Mapping[str, Any]) -> None:
        """Take the next event.

        Args:
            event: A valid one (`check_event`), as the flat object that it is on the wire.

        Raises:
            LifecycleError: the leaf says which rule was broken.
        """
        expected, seq = self.last_seq + 1, int(event["seq"])
        self.last_seq = seq
        if seq != expected:
            raise SequenceBroken(expected, seq)
        event_type = event["event_type"]
        following = advance(self.phase, event_type)
        if self.unnamed is not None or event["run_id"] != self.run_id or event["session_id"] != self.session_id:
            self._check_identity(event_type, event["run_id"], event["session_id"])
        if event_type in _OF_TOOLS:
            self._pair_tools(event_type, event)
        self.phase = following

    def end(self) -> None:
        """Say that the stream ended.

        Raises:
            EndedWithoutTerminal: before a terminal event.
        """
        if self.phase is not Phase.ENDED:
            raise EndedWithoutTerminal(self.phase)

    def expect(self, seq: int) -> None:
        """Go on with an event of this number: those that are missing before it are lost."""
        self.last_seq = seq - 1

    def begin_unannounced(self) -> None:
        """Take the run as begun, whose executor has not said `run_started`."""
        self.phase = Phase.RUNNING

    def forget_tool(self, call: str) -> None:
        """Take back the start of a tool call, which nobody hears of."""
        del self.open_tools[call]

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
                raise WrongRun(name, expected, found)
            unnamed = unnamed or name
        if before is not None and unnamed is None:
            raise WrongRun(before, getattr(self, before), None)
        self.unnamed = unnamed

    def _pair_tools(self, event_type: str, event: Mapping[str, Any]) -> None:
        if event_type == "tool_started":
            call = event["tool_call_id"]
            if call in self.open_tools:
                raise ToolNotPaired(call, "was started twice")
            self.open_tools[call] = event["tool_name"]
        elif event_type == "tool_finished":
            call = event["tool_call_id"]
            if call not in self.open_tools:
                raise ToolNotPaired(call, "was finished but never started")
            del self.open_tools[call]
        elif self.open_tools:
            raise ToolNotPaired(next(iter(self.open_tools)), "was never finished")

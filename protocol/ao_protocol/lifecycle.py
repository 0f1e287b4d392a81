"""What may follow what in the life of a run (SPEC 5.1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ao_protocol.events import BODIES, Event, Failure, Result, RunStarted, ToolFinished, ToolStarted


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


_NOT_BY_ITSELF: Final = frozenset({"run_started", "tool_started", "tool_finished", "result", "failure"})
"""Whether these are allowed depends on more than the phase, or they change it."""


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

    def receive(self, event: Event) -> None:
        """Take the next event.

        Raises:
            LifecycleError: the leaf says which rule was broken.
        """
        expected, self.last_seq = self.last_seq + 1, event.envelope.seq
        if event.envelope.seq != expected:
            raise SequenceBroken(expected, event.envelope.seq)
        following = advance(self.phase, event.body.event_type)
        self._check_identity(event)
        self._pair_tools(event)
        self.phase = following

    def follow(self, document: Mapping[str, Any]) -> bool:
        """Take the next event as a document of `plain_event` and return True, or leave everything as it is.

        False says nothing about the event but that `receive` has to judge it.
        """
        if (
            self.phase is not Phase.RUNNING
            or self.unnamed is not None
            or document["seq"] != self.last_seq + 1
            or document["run_id"] != self.run_id
            or document["session_id"] != self.session_id
        ):
            return False
        event_type = document["event_type"]
        if event_type in _NOT_BY_ITSELF and not self._pair_plainly(event_type, document):
            return False
        self.last_seq += 1
        return True

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

    def _pair_plainly(self, event_type: str, document: Mapping[str, Any]) -> bool:
        call = document.get("tool_call_id", "")
        if event_type == "tool_started" and call not in self.open_tools:
            self.open_tools[call] = document["tool_name"]
            return True
        return event_type == "tool_finished" and self.open_tools.pop(call, None) is not None

    def _check_identity(self, event: Event) -> None:
        if isinstance(event.body, RunStarted):
            self.run_id = self.run_id or event.envelope.run_id
            self.session_id = self.session_id or event.envelope.session_id
        before, self.unnamed = self.unnamed, None
        is_refusal = isinstance(event.body, RunStarted) or (isinstance(event.body, Failure) and before is not None)
        unnamed = self._unnamed_in(event, may_be_unnamed=is_refusal)
        if before is not None and unnamed is None:
            raise WrongRun(before, getattr(self, before), None)
        self.unnamed = unnamed

    def _unnamed_in(self, event: Event, *, may_be_unnamed: bool) -> str | None:
        unnamed = None
        for name, expected, found in (
            ("run_id", self.run_id, event.envelope.run_id),
            ("session_id", self.session_id, event.envelope.session_id),
        ):
            if found == expected:
                continue
            if found is not None or not may_be_unnamed:
                raise WrongRun(name, expected, found)
            unnamed = unnamed or name
        return unnamed

    def _pair_tools(self, event: Event) -> None:
        match event.body:
            case ToolStarted(tool_call_id=call, tool_name=name):
                if call in self.open_tools:
                    raise ToolNotPaired(call, "was started twice")
                self.open_tools[call] = name
            case ToolFinished(tool_call_id=call):
                if call not in self.open_tools:
                    raise ToolNotPaired(call, "was finished but never started")
                del self.open_tools[call]
            case Result() | Failure():
                if self.open_tools:
                    raise ToolNotPaired(next(iter(self.open_tools)), "was never finished")

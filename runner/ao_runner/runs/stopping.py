"""How a run comes to its end: who wishes it, how long it may take for what, and an escalation for each cause.

But for the signals, pure: time comes in as a number, and what comes out is the next thing to do.
"""

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final


class Cause(IntEnum):
    """Why a process has to end. A later one outranks an earlier one and starts its own escalation."""

    STDOUT_CLOSED = 1
    DEADLINE = 2
    CANCELLED = 3
    IDLE = 4
    """It lives and gets nowhere."""
    START_TIMEOUT = 5
    STALLED = 6
    TOO_NOISY = 7
    """It writes too much that is no event."""
    ENDED = 8
    """Its terminal event came; all that is left is to leave."""
    KILLED = 9
    FENCED = 10
    """Somebody else may begin the same run soon."""


class Action(StrEnum):
    """What is done in one step."""

    ASK = "ask"
    CLOSE_STDIN = "close_stdin"
    TERMINATE = "terminate"
    KILL = "kill"
    ABANDON = "abandon"


ESCALATION: Final[Mapping[Cause, tuple[Action, ...]]] = {
    Cause.STDOUT_CLOSED: (Action.CLOSE_STDIN, Action.TERMINATE, Action.KILL, Action.ABANDON),
    Cause.DEADLINE: (Action.ASK, Action.CLOSE_STDIN, Action.TERMINATE, Action.KILL, Action.ABANDON),
    Cause.CANCELLED: (Action.ASK, Action.CLOSE_STDIN, Action.TERMINATE, Action.KILL, Action.ABANDON),
    Cause.IDLE: (Action.ASK, Action.CLOSE_STDIN, Action.TERMINATE, Action.KILL, Action.ABANDON),
    Cause.START_TIMEOUT: (Action.TERMINATE, Action.KILL, Action.ABANDON),
    Cause.STALLED: (Action.CLOSE_STDIN, Action.TERMINATE, Action.KILL, Action.ABANDON),
    Cause.TOO_NOISY: (Action.TERMINATE, Action.KILL, Action.ABANDON),
    Cause.ENDED: (Action.CLOSE_STDIN, Action.TERMINATE, Action.KILL, Action.ABANDON),
    Cause.KILLED: (Action.KILL, Action.ABANDON),
    Cause.FENCED: (Action.KILL, Action.ABANDON),
}
"""Ask, close stdin, SIGTERM to the group, SIGKILL to the group, and in the end stop waiting."""


@dataclass(frozen=True, slots=True)
class GracePeriods:
    """How long each step waits for the process to end before the next one."""

    ask_seconds: float = 5.0
    close_stdin_seconds: float = 1.0
    leave_seconds: float = 5.0
    """After a terminal event, instead of `close_stdin_seconds` (SPEC 5: exit within 5 s of it)."""
    terminate_seconds: float = 10.0
    kill_seconds: float = 5.0

    def after(self, action: Action, cause: Cause) -> float:
        """Return how long to wait after an action."""
        match action:
            case Action.ASK:
                return self.ask_seconds
            case Action.CLOSE_STDIN:
                has_nothing_to_do = cause in {Cause.ENDED, Cause.STDOUT_CLOSED}
                return self.leave_seconds if has_nothing_to_do else self.close_stdin_seconds
            case Action.TERMINATE:
                return self.terminate_seconds
            case Action.KILL | Action.ABANDON:
                return self.kill_seconds


@dataclass(slots=True)
class Stopping:
    """Follows the stopping of one process.

    `can_ask` is false for an executor that does not declare the capability `cancel`: its escalations begin lower.
    """

    graces: GracePeriods = field(default_factory=GracePeriods)
    can_ask: bool = True
    cause: Cause | None = None
    due_at: float | None = None
    """When the next step is due; None before a cause, and after the last step."""
    taken: list[Action] = field(default_factory=list)
    """Every action that was due, for the record of the run."""
    _steps: list[Action] = field(default_factory=list)

    def begin(self, cause: Cause, now: float) -> None:
        """Start the escalation of a cause, at once. A cause that ranks no higher than the present one is left out."""
        if self.cause is not None and cause <= self.cause:
            return
        self.cause = cause
        self._steps = [action for action in ESCALATION[cause] if action not in self._skipped()]
        has_been_told_to_leave = cause is Cause.ENDED and Action.CLOSE_STDIN in self.taken
        self.due_at = now + self.graces.leave_seconds if has_been_told_to_leave else now

    def next_action(self, now: float) -> Action | None:
        """Return what is to be done now, once, or None while the process still has time."""
        if self.due_at is None or self.cause is None or now < self.due_at:
            return None
        action = self._steps.pop(0)
        self.taken.append(action)
        self.due_at = now + self.graces.after(action, self.cause) if self._steps else None
        return action

    def _skipped(self) -> set[Action]:
        unaskable = set() if self.can_ask else {Action.ASK}
        # What was done for an earlier cause is not done again, but for the signals.
        return unaskable | ({Action.ASK, Action.CLOSE_STDIN} & set(self.taken))


DEADLINE_MARGIN_SECONDS: Final = 1.0
"""How much longer than its limit a run may take, so that the executor can say `deadline_exceeded` itself."""

START_SECONDS: Final = 10.0
"""From the invocation to `run_started`, where nobody says (SPEC 11.2)."""
DRAIN_SECONDS: Final = 1.0
"""From the end of the process to the end of its pipes, where nobody says."""


@dataclass(frozen=True, slots=True)
class Since:
    """When a run was begun, last heard of, and last got on."""

    begun_at: float
    heard_at: float
    progress_at: float


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the runner waits for what. None is for ever."""

    start_seconds: float = START_SECONDS
    """From the invocation to `run_started` (SPEC 11.2)."""
    run_seconds: float | None = None
    silence_seconds: float | None = None
    """From one event to the next, once a heartbeat has shown that the executor sends them."""
    idle_seconds: float | None = None
    """From one event that is progress to the next. Heartbeats and remarks are none."""
    drain_seconds: float = DRAIN_SECONDS
    """From the end of the process to the end of its pipes, which others may hold open."""

    def of_paused(self, since: Since) -> dict[Cause, float]:
        """Return when a run is stopped for what, while nobody reads what its executor says."""
        if self.run_seconds is None:
            return {}
        return {Cause.DEADLINE: since.begun_at + self.run_seconds + DEADLINE_MARGIN_SECONDS}

    def of_running(self, since: Since, has_started: bool, has_heartbeats: bool) -> dict[Cause, float]:
        """Return when a run is stopped for what, if nothing is heard until then."""
        timers = self.of_paused(since)
        if not has_started:
            timers[Cause.START_TIMEOUT] = since.begun_at + self.start_seconds
        if self.silence_seconds is not None and has_heartbeats:
            timers[Cause.STALLED] = since.heard_at + self.silence_seconds
        if self.idle_seconds is not None:
            timers[Cause.IDLE] = since.progress_at + self.idle_seconds
        return timers


class StopRequests:
    """Counts the wishes to stop one run. The first asks, the second kills."""

    def __init__(self) -> None:
        self.count = 0
        self.reason = "user"
        """Why it was wished first, as the `cancel` line says it (SPEC 4.4)."""
        self.is_fenced = False
        """Whether the run has to end because it is not this process's any more."""
        self._listener: Callable[[], object] | None = None

    def request(self, reason: str = "user") -> None:
        """Wish it, on the thread of the event loop."""
        if not self.count:
            self.reason = reason
        self.count += 1
        if self._listener is not None:
            self._listener()

    def fence(self) -> None:
        """End it without asking: somebody else may begin the same run soon."""
        self.is_fenced = True
        self.request()

    @contextmanager
    def told_to(self, listener: Callable[[], object]) -> Iterator[None]:
        """Have `listener` called for each request inside the `with` block, at once if there was one before."""
        self._listener = listener
        try:
            if self.count > 0:
                listener()
            yield
        finally:
            self._listener = None


@contextmanager
def on_signals(request: Callable[[], None]) -> Iterator[None]:
    """Call `request` for each Ctrl-C and SIGTERM, and for a hang-up. Inside the `with` block they do nothing else.

    A hang-up counts once, since a terminal that closes sends several, and not at all where it is ignored (nohup).
    Only on the main thread, and while its event loop runs.
    """
    loop = asyncio.get_running_loop()
    hang_ups = 0

    def hang_up() -> None:
        nonlocal hang_ups
        hang_ups += 1
        if hang_ups == 1:
            request()

    handlers = {signal.SIGINT: request, signal.SIGTERM: request}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        handlers[signal.SIGHUP] = hang_up
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)

"""Supervise one run of an executor process from its invocation to its end, without blocking.

It connects a child, a conversation and an escalation: ready descriptors and due times go in, events come out. All runs
share one event loop and one thread. How a process is stopped, and after how much silence, is pure logic: time is passed
in as a number, and the result is the next action.
"""

import asyncio
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from ao_protocol.control_lines import Cancel
from ao_protocol.framing import encode_line
from ao_protocol.wire import JsonObject
from ao_runner.processes.spawn import STDERR_TAIL_BYTES, Child, Tail, read_available
from ao_runner.run_events import Relayed
from ao_runner.runs.conversation import Conversation
from ao_runner.runs.input_requests import InputRequests
from ao_runner.runs.outcome import Cause, ProcessEnded
from ao_runner.runs.run_request import DRAIN_SECONDS, START_SECONDS, GracePeriods

if TYPE_CHECKING:
    from ao_runner.runs.attempt import Sink


class Action(StrEnum):
    """One step of stopping a process."""

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
"""Ask, close stdin, SIGTERM to the group, SIGKILL to the group, and finally stop waiting."""


@dataclass(slots=True)
class Stopping:
    """Tracks the stopping of one process.

    `can_ask` is false for an executor without the capability `cancel`: its escalations skip that step.
    """

    grace_periods: GracePeriods = field(default_factory=GracePeriods)
    can_ask: bool = True
    cause: Cause | None = None
    due_at: float | None = None
    """The time of the next step; None before a cause and after the last step."""
    taken: list[Action] = field(default_factory=list)
    """Every action that was due, for the record of the run."""
    _steps: list[Action] = field(default_factory=list)

    def begin(self, cause: Cause, now: float) -> None:
        """Start the escalation of a cause immediately. Ignore a cause that does not outrank the current one."""
        if self.cause is not None and cause <= self.cause:
            return
        self.cause = cause
        self._steps = [action for action in ESCALATION[cause] if action not in self._skipped()]
        has_been_told_to_leave = cause is Cause.ENDED and Action.CLOSE_STDIN in self.taken
        self.due_at = now + self.grace_periods.leave_seconds if has_been_told_to_leave else now

    def next_action(self, now: float) -> Action | None:
        """Return the action that is due now, once, or None if none is due."""
        if self.due_at is None or self.cause is None or now < self.due_at:
            return None
        action = self._steps.pop(0)
        self.taken.append(action)
        self.due_at = now + self._grace_seconds(action) if self._steps else None
        return action

    def _grace_seconds(self, action: Action) -> float:
        grace = self.grace_periods
        if action is Action.CLOSE_STDIN and self.cause in {Cause.ENDED, Cause.STDOUT_CLOSED}:
            return grace.leave_seconds  # the process only has to exit
        return {
            Action.ASK: grace.ask_seconds,
            Action.CLOSE_STDIN: grace.close_stdin_seconds,
            Action.TERMINATE: grace.terminate_seconds,
        }.get(action, grace.kill_seconds)

    def _skipped(self) -> set[Action]:
        unaskable = set() if self.can_ask else {Action.ASK}
        # Only signals are repeated if an earlier cause has already taken the step.
        return unaskable | ({Action.ASK, Action.CLOSE_STDIN} & set(self.taken))


DEADLINE_MARGIN_SECONDS: Final = 1.0
"""How far a run may exceed its limit, so that the executor can report `deadline_exceeded` itself."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the runner waits for each event. None means no limit."""

    start_seconds: float = START_SECONDS
    """From the invocation to `run_started` (SPEC 11.2)."""
    run_seconds: float | None = None
    silence_seconds: float | None = None
    """From one event to the next, once a heartbeat has shown that the executor sends them."""
    idle_seconds: float | None = None
    """From one event of progress to the next. Heartbeats and log events are not progress."""
    drain_seconds: float = DRAIN_SECONDS
    """From the end of the process to the end of its pipes, which other processes may hold open."""


NO_PROGRESS: Final = frozenset({"heartbeat", "log"})


@dataclass(slots=True)
class Supervision:
    """Await `perform` once. `cancel` and `kill` may be called from elsewhere on the loop.

    The caller owns the child. With `stays`, the process may outlive the run: if it is still alive after the terminal
    event, `has_stayed` is true at the end, and the child can perform another run.
    """

    child: Child
    conversation: Conversation
    sink: "Sink"
    stopping: Stopping = field(default_factory=Stopping)
    timeouts: Timeouts = field(default_factory=Timeouts)
    stderr: Tail = field(default_factory=lambda: Tail(STDERR_TAIL_BYTES))
    stays: bool = False
    inputs: InputRequests | None = None
    """Answers the requests of the run; None if the executor was told that nobody does."""
    cancel_reason: str = "user"
    exited_at: float | None = None
    has_stayed: bool = False
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    _over: asyncio.Future[None] = field(init=False)
    _timer: asyncio.TimerHandle | None = None
    _open_streams: set[int] = field(default_factory=set)
    _watches_stdin: bool = False
    _is_paused: bool = False
    _has_run_ended: bool = False
    _begun_at: float = 0.0
    _heard_at: float = 0.0
    _progress_at: float = 0.0
    _drain_by: float | None = None

    def __post_init__(self) -> None:
        self._over = self._loop.create_future()

    async def perform(self) -> None:
        """Relay events, and return when the run is over and its process is reaped.

        The child's stdin must already hold the invocation or turn. Every error on the way is raised here; the owner of
        the child then ends it.
        """
        self._begun_at = self._heard_at = self._progress_at = self._loop.time()
        self._open_streams = {self.child.stdout_fd, self.child.stderr_fd}
        self._loop.add_reader(self.child.stdout_fd, self._guarded, self._on_stdout)
        self._loop.add_reader(self.child.stderr_fd, self._guarded, self._on_stderr)
        self._loop.add_reader(self.child.exit_fd, self._guarded, self._on_exit)
        try:
            self._guarded(self._watch_stdin)
            with nullcontext() if self.inputs is None else self.inputs.sent_by(self._send_answer):
                await self._over
        finally:
            self._let_go()

    def cancel(self, reason: str) -> None:
        """Ask the executor to stop, with a reason, and escalate if it does not."""
        self.cancel_reason = reason
        self.kill(Cause.CANCELLED)

    def kill(self, cause: Cause = Cause.KILLED) -> None:
        """Begin the escalation of a cause; the default cause kills the process immediately."""
        self._guarded(lambda: self.stopping.begin(cause, self._loop.time()))

    def _send_answer(self, line: JsonObject) -> None:
        def send() -> None:
            self.child.stdin.send(encode_line(line))
            self._watch_stdin()

        self._guarded(send)

    def ending(self, stderr_tail: str) -> ProcessEnded:
        """Return how the process ended, once it is over."""
        return ProcessEnded(
            exit_code=self.child.exit_code,
            cause=self.stopping.cause,
            was_signalled=not {Action.TERMINATE, Action.KILL}.isdisjoint(self.stopping.taken),
            was_killed=Action.KILL in self.stopping.taken,
            problems=tuple(self.conversation.problems),
            stderr_tail=stderr_tail,
            limit_seconds=self.timeouts.run_seconds,
            long_event_bytes=self.conversation.max_line_bytes if self.conversation.has_long_event else None,
        )

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step and pass its error to `perform`, since the loop would only log it."""
        if self._over.done():
            return
        try:
            step()
            self._do_what_is_due()
        except BaseException as error:  # noqa: BLE001  # raised again by perform
            if not self._over.done():
                self._over.set_exception(error)

    def _do_what_is_due(self) -> None:
        """Do everything that is due and set the timer. If a due time moved later, the timer fires early and resets."""
        while (earliest := self._due_at()) is not None and earliest <= self._loop.time():
            self._on_time()
        if earliest is None:
            return
        if self._timer is not None:
            if self._timer.when() <= earliest:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(earliest, self._on_timer)

    def _due_at(self) -> float | None:
        if self._over.done():
            return None
        due = [at for at in (*self._timers().values(), self.stopping.due_at, self._drain_by) if at is not None]
        return min(due, default=None)

    def _on_timer(self) -> None:
        self._timer = None
        self._guarded(lambda: None)

    def _on_time(self) -> None:
        now = self._loop.time()
        is_listening = not self._is_paused and self.child.stdout_fd in self._open_streams
        if is_listening and any(at <= now for at in self._timers().values()):
            # A delayed runner must not mistake its own silence for the executor's.
            self._on_stdout()
        for cause, at in self._timers().items():
            if at <= now:
                self.stopping.begin(cause, now)
        while not self._over.done() and (action := self.stopping.next_action(now)) is not None:
            self._act(action)
        if not self._over.done() and self._drain_by is not None and self._drain_by <= now:
            self._finish()

    def _timers(self) -> dict[Cause, float]:
        """Return the time at which each cause begins; none if the process is being stopped or has ended."""
        if self._over.done() or self.exited_at is not None or self.stopping.cause is not None:
            return {}
        timeouts, timers = self.timeouts, dict[Cause, float]()
        if timeouts.run_seconds is not None:
            timers[Cause.DEADLINE] = self._begun_at + timeouts.run_seconds + DEADLINE_MARGIN_SECONDS
        if self._is_paused:
            return timers  # the runner itself does not read
        if not self.conversation.has_started:
            timers[Cause.START_TIMEOUT] = self._begun_at + timeouts.start_seconds
        if timeouts.silence_seconds is not None and self.conversation.has_heartbeats:
            timers[Cause.STALLED] = self._heard_at + timeouts.silence_seconds
        if timeouts.idle_seconds is not None and not self.conversation.has_open_requests:
            timers[Cause.IDLE] = self._progress_at + timeouts.idle_seconds
        return timers

    def _on_stdout(self) -> None:
        chunk = read_available(self.child.stdout_fd)
        if chunk is None:
            return
        if chunk:
            self._take(chunk)
        else:
            self._close_stream(self.child.stdout_fd)
        if self.sink.is_full and not self._over.done() and self.child.stdout_fd in self._open_streams:
            self._pause()

    def _take(self, chunk: bytes) -> None:
        taken_before = self.conversation.event_count
        items = self.conversation.receive(chunk)
        # Output that is not an event is no sign of life.
        if self.conversation.event_count > taken_before or self.conversation.is_within_an_event:
            self._heard_at = self._loop.time()
        is_too_noisy = self.conversation.is_too_noisy
        self._relay(items)
        if is_too_noisy and self.stopping.cause is None:
            self.stopping.begin(Cause.TOO_NOISY, self._loop.time())

    def _relay(self, items: Iterable[Relayed]) -> None:
        if batch := list(items):
            self.sink.relay(batch)
            if self.inputs is not None:
                self._note_requests(self.inputs, batch)
            if self.timeouts.idle_seconds is not None and any(item.event_type not in NO_PROGRESS for item in batch):
                self._progress_at = self._heard_at
        if self.conversation.terminal is not None and not self._has_run_ended:
            self._has_run_ended = True
            if self.stays and self.exited_at is None and set(self.stopping.taken) <= {Action.ASK}:
                self.has_stayed = True
                self._over.set_result(None)
            else:
                self.stopping.begin(Cause.ENDED, self._loop.time())

    def _pause(self) -> None:
        """Leave the output in the pipe, so that the executor has to wait, until the sink has room."""
        self._is_paused, self._drain_by = True, None
        self._loop.remove_reader(self.child.stdout_fd)
        self.sink.when_room(lambda: self._guarded(self._resume))

    def _resume(self) -> None:
        self._is_paused = False
        if self.exited_at is not None:
            self._drain_from(self._loop.time())
        self._heard_at = self._progress_at = self._loop.time()
        if self.child.stdout_fd in self._open_streams:
            self._loop.add_reader(self.child.stdout_fd, self._guarded, self._on_stdout)

    def _on_stderr(self) -> None:
        chunk = read_available(self.child.stderr_fd)
        if chunk:
            self.stderr.feed(chunk)
        elif chunk is not None:
            self._close_stream(self.child.stderr_fd)

    @staticmethod
    def _note_requests(inputs: InputRequests, batch: list[Relayed]) -> None:
        """Start the time of new requests. Their events are already stored, so that anybody can answer them."""
        for item in batch:
            if item.event_type == "input_requested":
                inputs.opened(str(item.document["request_id"]))
            elif item.event_type == "input_resolved":
                inputs.closed(str(item.document["request_id"]))

    def _on_stdin(self) -> None:
        self.child.stdin.write_pending()
        if self._watches_stdin and not self.child.stdin.wants_to_write:
            self._loop.remove_writer(self.child.stdin.fd)
            self._watches_stdin = False

    def _on_exit(self) -> None:
        self._loop.remove_reader(self.child.exit_fd)
        self.exited_at = self._loop.time()
        # The dead leader still holds the id of the group, so the signal reaches no other process.
        self.child.signal_group(signal.SIGKILL)
        self._close_stdin()  # only now: the unread part cannot be read any more
        self._drain_from(self.exited_at)
        if not self._open_streams:
            self._finish()

    def _drain_from(self, at: float) -> None:
        """Start the time limit for the pipes of an ended process, unless the sink has no room for their contents."""
        self._drain_by = None if self._is_paused else at + self.timeouts.drain_seconds

    def _act(self, action: Action) -> None:
        match action:
            case Action.ASK:
                told = {Cause.DEADLINE: "deadline", Cause.IDLE: "idle"}
                reason = told.get(self.stopping.cause or Cause.ENDED, self.cancel_reason)
                self.child.stdin.send(encode_line(Cancel(reason=reason).model_dump()))
                self._watch_stdin()
            case Action.CLOSE_STDIN:
                self._close_stdin()
            case Action.TERMINATE:
                self.child.signal_group(signal.SIGTERM)
            case Action.KILL:
                self.child.signal_group(signal.SIGKILL)
            case Action.ABANDON:
                self.child.cut()
                self._finish()

    def _close_stream(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._open_streams.remove(fd)
        if fd == self.child.stdout_fd:
            self._relay(self.conversation.end_of_stream())
            if self.exited_at is None:
                self.stopping.begin(Cause.STDOUT_CLOSED, self._loop.time())
        if self.exited_at is not None and not self._open_streams:
            self._finish()

    def _finish(self) -> None:
        if self.child.stdout_fd in self._open_streams:
            self._open_streams.remove(self.child.stdout_fd)
            self._relay(self.conversation.end_of_stream())
        self.child.reap()
        self._over.set_result(None)

    def _let_go(self) -> None:
        """Stop watching the child's descriptors; their owner closes them."""
        if self._timer is not None:
            self._timer.cancel()
        for fd in (self.child.stdout_fd, self.child.stderr_fd, self.child.exit_fd):
            self._loop.remove_reader(fd)
        if not self.has_stayed:
            self._close_stdin()
        elif self._watches_stdin:
            self._loop.remove_writer(self.child.stdin.fd)

    def _watch_stdin(self) -> None:
        if self.child.stdin.wants_to_write and not self._watches_stdin:
            self._loop.add_writer(self.child.stdin.fd, self._guarded, self._on_stdin)
            self._watches_stdin = True

    def _close_stdin(self) -> None:
        if self._watches_stdin:
            self._loop.remove_writer(self.child.stdin.fd)
            self._watches_stdin = False
        self.child.stdin.close()

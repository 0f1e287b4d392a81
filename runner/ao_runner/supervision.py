"""One executor process from its invocation to its reaping, without ever blocking.

It ties a child, a conversation and a ladder together: descriptors that are ready and times that are due go in,
events come out. Many of them can share one selector and one thread.
"""

import selectors
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ao_protocol.control import Cancel
from ao_protocol.framing import encode_line
from ao_runner.conversation import Conversation, Relayed
from ao_runner.outcome import ProcessEnded
from ao_runner.spawn import Child, Tail, read_available
from ao_runner.stopping import Action, Cause, Stopping

STDERR_TAIL_BYTES: Final = 64 * 1024
DEADLINE_MARGIN_SECONDS: Final = 1.0
"""How much longer than its limit a run may take, so that the executor can say `deadline_exceeded` itself."""

Handler: TypeAlias = Callable[[], Iterable[Relayed]]
"""What a selector's key carries: call it when the descriptor is ready."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the runner waits for what. None is for ever."""

    start_seconds: float = 10.0
    """From the start of the process to `run_started` (SPEC 11.2)."""
    run_seconds: float | None = None
    silence_seconds: float | None = None
    """From one event to the next, once a heartbeat has shown that the executor sends them."""
    drain_seconds: float = 1.0
    """From the end of the process to the end of its pipes, which others may hold open."""


@dataclass
class Supervision:
    """Let it begin, call the handler of each key that is ready and `on_time`, until `is_over`.

    The selector and the child are its caller's; at the end it has taken its own descriptors out of the selector.
    """

    child: Child
    conversation: Conversation
    selector: selectors.BaseSelector
    stopping: Stopping = field(default_factory=Stopping)
    patience: Patience = field(default_factory=Patience)
    clock: Callable[[], float] = time.monotonic
    stderr: Tail = field(default_factory=lambda: Tail(STDERR_TAIL_BYTES))
    cancel_reason: str = "user"
    is_over: bool = False
    exited_at: float | None = None

    def __post_init__(self) -> None:
        self._watches_stdin = False

    def begin(self, invocation_line: bytes) -> None:
        """Start to read, and send the invocation as fast as the child takes it."""
        now = self._heard_at = self.clock()
        self._start_by = now + self.patience.start_seconds
        limit = self.patience.run_seconds
        self._finish_by = None if limit is None else now + limit + DEADLINE_MARGIN_SECONDS
        self._drain_by: float | None = None
        self._open_streams = {self.child.stdout_fd, self.child.stderr_fd}
        self._watch(self.child.stdout_fd, self._on_stdout)
        self._watch(self.child.stderr_fd, self._on_stderr)
        self._watch(self.child.exit_fd, self._on_exit)
        self._send(invocation_line)

    def cancel(self, reason: str = "user") -> None:
        """Ask the executor to stop; if it does not, it is made to."""
        self.cancel_reason = reason
        self.stopping.begin(Cause.CANCELLED, self.clock())

    def kill(self) -> None:
        """End it now."""
        self.stopping.begin(Cause.KILLED, self.clock())

    def seconds_to_wait(self) -> float | None:
        """Return after how long `on_time` wants to be called; None for: when a descriptor is ready."""
        due = [at for at in (*self._timers().values(), self.stopping.due_at, self._drain_by) if at is not None]
        return max(0.0, min(due) - self.clock()) if due else None

    def on_time(self) -> Iterator[Relayed]:
        """Do what is due."""
        now = self.clock()
        for cause, at in self._timers().items():
            if at <= now:
                self.stopping.begin(cause, now)
        while not self.is_over and (action := self.stopping.next_action(now)) is not None:
            yield from self._act(action)
        if self._drain_by is not None and self._drain_by <= now:
            yield from self._finish()

    def ending(self) -> ProcessEnded:
        """Return how the process ended, once it is over."""
        return ProcessEnded(
            exit_code=self.child.exit_code,
            cause=self.stopping.cause,
            was_signalled=not {Action.TERMINATE, Action.KILL}.isdisjoint(self.stopping.taken),
            was_killed=Action.KILL in self.stopping.taken,
            problems=tuple(self.conversation.problems),
            stderr_tail=self.stderr.text(),
            limit_seconds=self.patience.run_seconds,
        )

    def _timers(self) -> dict[Cause, float]:
        """Return what would begin a ladder, and when. A run that is being stopped or has ended waits for nothing."""
        if self.exited_at is not None or self.stopping.cause is not None:
            return {}
        timers: dict[Cause, float] = {}
        if self._finish_by is not None:
            timers[Cause.DEADLINE] = self._finish_by
        if not self.conversation.has_started:
            timers[Cause.START_TIMEOUT] = self._start_by
        if self.patience.silence_seconds is not None and self.conversation.has_heartbeats:
            timers[Cause.STALLED] = self._heard_at + self.patience.silence_seconds
        return timers

    def _on_stdout(self) -> Iterator[Relayed]:
        if self.child.stdout_fd not in self._open_streams:
            return
        chunk = read_available(self.child.stdout_fd)
        if chunk is None:
            return
        had_ended = self.conversation.terminal is not None
        if chunk:
            self._heard_at = self.clock()
            yield from self.conversation.receive(chunk)
        else:
            yield from self._close_stream(self.child.stdout_fd)
        if self.conversation.terminal is not None and not had_ended:
            self.stopping.begin(Cause.ENDED, self.clock())

    def _on_stderr(self) -> Iterator[Relayed]:
        if self.child.stderr_fd not in self._open_streams:
            return
        chunk = read_available(self.child.stderr_fd)
        if chunk:
            self.stderr.feed(chunk)
        elif chunk is not None:
            yield from self._close_stream(self.child.stderr_fd)

    def _on_stdin(self) -> Iterable[Relayed]:
        self.child.stdin.write_pending()
        if self._watches_stdin and not self.child.stdin.wants_to_write:
            self.selector.unregister(self.child.stdin.fd)
            self._watches_stdin = False
        return ()

    def _on_exit(self) -> Iterator[Relayed]:
        if self.is_over:
            return
        self.selector.unregister(self.child.exit_fd)
        self.exited_at = self.clock()
        self._close_stdin()
        # The dead leader still holds the group's id, so nobody else can be hit.
        self.child.signal_group(signal.SIGKILL)
        self._drain_by = self.exited_at + self.patience.drain_seconds
        if not self._open_streams:
            yield from self._finish()

    def _act(self, action: Action) -> Iterator[Relayed]:
        match action:
            case Action.ASK:
                self._send(encode_line(Cancel(reason=self._reason()).model_dump()))
            case Action.CLOSE_STDIN:
                self._close_stdin()
            case Action.TERMINATE:
                self.child.signal_group(signal.SIGTERM)
            case Action.KILL:
                self.child.signal_group(signal.SIGKILL)
            case Action.ABANDON:
                yield from self._finish()

    def _reason(self) -> str:
        return "deadline" if self.stopping.cause is Cause.DEADLINE else self.cancel_reason

    def _close_stream(self, fd: int) -> Iterator[Relayed]:
        self.selector.unregister(fd)
        self._open_streams.remove(fd)
        if fd == self.child.stdout_fd:
            yield from self.conversation.end_of_stream()
            if self.exited_at is None:
                self.stopping.begin(Cause.STDOUT_CLOSED, self.clock())
        if self.exited_at is not None and not self._open_streams:
            yield from self._finish()

    def _finish(self) -> Iterator[Relayed]:
        self.is_over = True
        if self.child.stdout_fd in self._open_streams:
            yield from self.conversation.end_of_stream()
        for stream in self._open_streams:
            self.selector.unregister(stream)
        self._open_streams.clear()
        self._close_stdin()
        if self.exited_at is None:
            self.selector.unregister(self.child.exit_fd)
        self.child.reap()

    def _send(self, data: bytes) -> None:
        self.child.stdin.send(data)
        if self.child.stdin.wants_to_write and not self._watches_stdin:
            self.selector.register(self.child.stdin.fd, selectors.EVENT_WRITE, self._on_stdin)
            self._watches_stdin = True

    def _close_stdin(self) -> None:
        if self._watches_stdin:
            self.selector.unregister(self.child.stdin.fd)
            self._watches_stdin = False
        self.child.stdin.close()

    def _watch(self, fd: int, handler: Handler) -> None:
        self.selector.register(fd, selectors.EVENT_READ, handler)


def drive(supervision: Supervision) -> Iterator[list[Relayed]]:
    """Drive one supervision to its end and yield what each turn brought.

    Other descriptors may stand in the selector, each with a handler.
    """
    while not supervision.is_over:
        batch = [item for key, _ in supervision.selector.select(supervision.seconds_to_wait()) for item in key.data()]
        batch.extend(supervision.on_time())
        if batch:
            yield batch

"""The port between a worker and whoever hands out runs and stores events. It knows no transport.

A run is handed out as an attempt with a number. What a worker says of it carries that number, so that a coordinator
can tell it from what an earlier worker says who lost the run and does not know it yet. Every call may be repeated
after a lost answer: events and terminals are known by run, attempt and `seq` for ever.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

from ao_protocol.wire import JsonObject
from ao_runner.errors import RunnerError
from ao_runner.run_events import EventBatch as EventBatch  # noqa: PLC0414  # a part of the port
from ao_runner.run_events import RunKey
from ao_runner.store.records import Run, RunRecord, Session
from ao_runner.store.worker_table import Fleet


@dataclass(frozen=True, slots=True)
class Assignment:
    """A run that is handed to this worker, and all that it needs."""

    key: RunKey
    session: Session
    run: Run
    lease_seconds: float | None = None
    """How long the run belongs to this worker after `claim` returned, and after each heartbeat; None where it is never
    given to anybody else."""
    is_resolved: bool = False
    """Whether the coordinator has filled in the blueprint's placeholders, all but those of the runner."""
    first_parameters: JsonObject | None = None
    """Those of the session's first run, where this one is a resume and they are known."""
    queued_seconds: float = 0.0
    """How long the run has waited, as far as the coordinator knows."""
    terminate_seconds: float | None = None
    """How long its executor may take to end after SIGTERM; None for the time that is usual."""


@dataclass(frozen=True, slots=True)
class InputAnswer:
    """The answer that counts to a request of a run (SPEC 8.3)."""

    run_id: str
    request_id: str
    answer: JsonObject


@dataclass(frozen=True, slots=True)
class Orders:
    """What a coordinator wants of a worker now. An order may come before the answer to the `claim` of its run."""

    cancel_runs: frozenset[str] = frozenset()
    """Runs that have to end. One that the worker does not hold yet is asked to when it does."""
    cancel_sessions: frozenset[str] = frozenset()
    """Sessions whose run, whichever the worker holds now, has to end, and whose idle process has to leave."""
    lost: frozenset[RunKey] = frozenset()
    """Attempts that are not this worker's any more."""
    answers: tuple[InputAnswer, ...] = ()
    """Answers to requests of runs that the worker holds. The same answer may come again."""
    drain: bool = False
    """Take no more runs, and leave when those that go on have ended."""


class Coordinator(Protocol):
    """Hands out runs, takes events. A `with` block owns its connections and tells it that the worker leaves.

    Where it cannot be reached a call raises `CoordinatorUnavailable`, and the worker tries again for as long as it
    takes; nothing is lost meanwhile. No call waits for another one of the same worker.

    Implementations inherit what most of them have in common.
    """

    refused_lines: int = 0
    """How many lines were no runs, where runs come as lines."""
    hands_on: bool = True
    """Whether another worker gets a run that `release` gives back. If not, a worker that drains performs its runs."""

    async def __aenter__(self) -> Self:
        """Announce the worker.

        Raises:
            CoordinatorUnavailable: it cannot be reached now.
            CoordinatorUnusable: it never will do.
        """

    async def __aexit__(self, *_: object) -> None:
        """Say goodbye."""

    async def claim(self, slots: int) -> Sequence[Assignment]:
        """Wait for runs and take at most so many. Empty after a while without any: ask again.

        A `claim` that is cancelled has taken nothing. The worker performs every run that it is given, side by side, so
        the coordinator hands out no second run of a session while one goes on.
        """

    async def started(self, key: RunKey) -> None:
        """Say that the run begins. Nothing else is said of it before this has returned.

        Raises:
            LeaseLost: it must not begin.
        """

    async def events(self, batch: EventBatch) -> int:
        """Hand over events and return the `seq` through which they are kept there, for good.

        Events that are there already are left out, also after the run has ended. A smaller `seq` than the last one
        means that the rest is to be sent again; at least the first event has to be kept, or the call raises. The
        terminal event never is among them.

        `events` and `terminal` are also called for runs that a dead worker left behind, without `claim`, `heartbeat` or
        `release`.

        Raises:
            LeaseLost: the attempt counts no more; its events are wanted no longer.
            Refused: the first of these events will never be taken.
        """

    async def terminal(self, key: RunKey, seq: int, line: bytes, *, stays: bool = False) -> None:
        """Hand over the terminal event, after all others are acknowledged. The run ends with it, once.

        `stays` says that the process waits for the session's next run; `session_left` says when it no longer does.

        Raises:
            LeaseLost: the run has ended otherwise, or is somebody else's.
            Refused: it will never be taken. A short `failure` with the same `seq` is handed over in its place.
        """

    async def heartbeat(self, held: Sequence[RunKey], outbox_seconds: float = 0.0) -> Orders:
        """Keep the leases of what is held, and return what is wanted.

        `outbox_seconds` is the age of the oldest event that is not delivered yet, for whoever watches workers.
        """

    async def orders(self) -> Orders:
        """Wait for orders that come by themselves. Empty after a while without any: ask again."""

    async def decide(self, key: RunKey, request_id: str, answer: JsonObject) -> JsonObject:
        """Record an answer to a request, unless there is one, and return the one that counts.

        It may be called before the event of the request is delivered: then the answer counts. By default this one
        counts, because no answers of other people are passed on.
        """
        return answer

    def drain(self) -> None:
        """Take note that this worker claims no more runs; those that it holds go on. By default, do nothing."""
        return

    async def has_unclaimed(self) -> bool:
        """Return, after `drain`, whether `claim` still has runs for this worker. By default, it has none."""
        return False

    async def release(self, key: RunKey, record: RunRecord | None) -> None:
        """Let go of a run: with its record after its end, with None to give back one that never began.

        The record may belong to an attempt that was lost. A run that `started` refused is not released.
        """

    async def session_left(self, session_id: str) -> None:
        """Say that no process waits for a session's next run any more. It may be said of any session.

        By default, do nothing.

        Raises:
            CoordinatorUnavailable: not now; call again.
        """
        return

    async def fleet(self) -> Fleet | None:
        """Return the load that all workers share; None where it is not known."""
        return None


@dataclass(eq=False)
class CoordinatorUnavailable(RunnerError):
    """It does not answer, or says that it cannot now."""

    place: str
    reason: str
    retry_after_seconds: float | None = None
    is_damaged: bool = False
    """Whether it stays so until a person mends it."""

    def __str__(self) -> str:
        return f"coordinator {self.place} is not available: {self.reason}"


class CoordinatorUnusable(RunnerError):
    """It can be reached and will never do: another version, no permission, no coordinator at all."""

    def __init__(self, place: str, reason: str, advice: str) -> None:
        super().__init__(f"coordinator {place} cannot be used: {reason}; {advice}")


class LeaseLost(RunnerError):
    """An attempt at a run is not this worker's any more."""

    def __init__(self, key: RunKey, reason: str) -> None:
        super().__init__(f"attempt {key.attempt} of run {key.run_id} no longer belongs to this worker: {reason}")
        self.reason = reason


class Refused(RunnerError):
    """A coordinator refuses something for good, whatever the reason that it gives."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"the coordinator refuses {what}: {reason}")
        self.reason = reason


MAX_RETRY_AFTER_SECONDS: Final = 300.0
"""For so long at most a worker keeps quiet because it was asked to."""


@dataclass(slots=True)
class Backoff:
    """How long to wait before the next try: longer each time, up to a cap, and by chance: many do not come at once.

    Full jitter, as in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015). `chance` returns 0 to 1.
    """

    first_seconds: float = 0.2
    longest_seconds: float = 15.0
    chance: Callable[[], float] = random.random
    tries: int = 0

    def next_seconds(self, at_least: float | None = None) -> float:
        """Return how long to wait now; `at_least` is what the other side has asked for, which has a cap of its own."""
        longest = min(self.longest_seconds, self.first_seconds * float(2**self.tries))
        self.tries = min(self.tries + 1, 30)
        return max(min(at_least or 0.0, MAX_RETRY_AFTER_SECONDS), longest * self.chance())

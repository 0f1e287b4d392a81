"""The runs that a worker holds, from the claim until the coordinator has all their events, and their leases.

Heartbeats prolong leases. If they fail, every run is ended before another worker may begin it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from ao_protocol.events import Terminal
from ao_runner.coordinators.port import Assignment, Coordinator, CoordinatorUnavailable, Orders
from ao_runner.errors import RunnerError
from ao_runner.run_events import RunKey
from ao_runner.runs.input_requests import InputRequests
from ao_runner.runs.lost_runs import RunSummary
from ao_runner.runs.run_request import StopRequests
from ao_runner.store.ownership import uptime_seconds
from ao_runner.worker.log import WorkerLog, log_mishap
from ao_runner.worker.spooling import SpooledJournal

Phase = Literal["claimed", "running", "delivering"]
"""In the phase of delivery the process has ended and the record exists."""

MOST_EARLY_CANCELS: Final = 1000
REMEMBERED: Final = 10_000
"""How many of the last ended runs are remembered, with their last attempt."""


@dataclass(slots=True, eq=False)
class HeldRun:
    """A run that the worker holds."""

    assignment: Assignment
    journal: SpooledJournal
    stops: StopRequests = field(default_factory=StopRequests)
    phase: Phase = "claimed"
    inputs: InputRequests | None = None
    """Its requests to a person, if its profile lets it ask."""
    ends_session: bool = False
    """Whether the process has to exit with this run, although the profile keeps it for the session."""
    terminal: Terminal | None = None
    """How the run ended: its terminal event, or the failure that replaced a refused one."""

    @property
    def key(self) -> RunKey:
        """The key of the run's attempt."""
        return self.assignment.key

    @property
    def summary(self) -> RunSummary:
        """The identity of its events, as far as it is known before the first one."""
        return RunSummary(session_id=self.assignment.run.session_id)

    @property
    def takes_a_slot(self) -> bool:
        """Whether the run has, or will have, a process."""
        return self.phase != "delivering"


@dataclass(slots=True)
class HeldRuns:
    """The held runs, and a notification when one of them changes."""

    runs: dict[RunKey, HeldRun] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _cancelled_early: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """Cancelled runs that are not held: the response to a claim may be under way. Only the latest are kept."""

    _ended: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def __iter__(self) -> Iterator[HeldRun]:
        return iter(list(self.runs.values()))

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def in_slots(self) -> int:
        """How many runs have a process."""
        return sum(held.takes_a_slot for held in self.runs.values())

    def add(self, held: HeldRun) -> None:
        """Hold one more run, and stop it if it was cancelled before."""
        self.runs[held.key] = held
        if held.key.run_id in self._cancelled_early:
            del self._cancelled_early[held.key.run_id]
            held.stops.request()
        self.tell_change()

    def cancel(self, run_ids: Collection[str], session_ids: Collection[str]) -> None:
        """Stop runs, given by run or session id. Fenced runs are stopped already.

        A run that is not held yet is stopped when it is; for a session id it is not, because it may be a later run.
        """
        for held in self:
            run = held.assignment.run
            held.ends_session = held.ends_session or run.session_id in session_ids
            if not held.stops.is_fenced and (run.run_id in run_ids or run.session_id in session_ids):
                held.stops.request()
        for run_id in set(run_ids) - {key.run_id for key in self.runs}:
            self._cancelled_early[run_id] = None
        while len(self._cancelled_early) > MOST_EARLY_CANCELS:
            self._cancelled_early.popitem(last=False)

    def of_session(self, session_id: str) -> list[HeldRun]:
        """Return the runs of a session."""
        return [held for held in self if held.assignment.run.session_id == session_id]

    def has_ended(self, key: RunKey) -> bool:
        """Return whether an attempt, or a later one of the same run, has ended here."""
        return self._ended.get(key.run_id, 0) >= key.attempt

    def note_end(self, key: RunKey) -> None:
        """Remember that an attempt has ended."""
        self._ended[key.run_id] = max(key.attempt, self._ended.pop(key.run_id, 0))
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def drop(self, key: RunKey) -> None:
        """Remove the run."""
        self.runs.pop(key, None)
        self.tell_change()

    def tell_change(self) -> None:
        """Wake the waiters of `changed`."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait until a run is added, removed or changes its phase."""
        await self._changed.wait()


BEATS_PER_LEASE: Final = 3
TRIES_PER_LEASE: Final = 10
"""How many pauses, and as many retries of the same length, fit into a lease after a failed heartbeat."""
FENCE_AT: Final = 0.9
"""The part of a lease after which a worker that cannot prolong it has ended its runs."""
USUAL_BEAT_SECONDS: Final = 10.0
"""The interval of heartbeats if no run has a lease."""


@dataclass(slots=True)
class Leases:
    """The leases of a worker's runs. `obey` receives the orders of heartbeats; `fence` ends all runs.

    `outbox_seconds` returns the age of the oldest undelivered event, which heartbeats report. Time is the machine's
    uptime including suspension, as coordinators count it.
    """

    coordinator: Coordinator
    held: HeldRuns
    log: WorkerLog
    obey: Callable[[Orders], None]
    fence: Callable[[str], None]
    outbox_seconds: Callable[[], float]
    uptime: Callable[[], float] = uptime_seconds
    _kept_at: float = 0.0
    _is_failing: bool = False

    async def keep(self) -> None:
        """Send heartbeats. Does not return."""
        self._kept_at = self.uptime()
        while True:
            await self._beat()
            await self._wait()

    async def _beat(self) -> None:
        sent_at = self.uptime()
        try:
            async with asyncio.timeout(self._beat_seconds()):
                held = [held.key for held in self.held]
                orders = await self.coordinator.heartbeat(held, self.outbox_seconds())
        except (CoordinatorUnavailable, TimeoutError) as error:
            self._fail(str(error) or "it did not answer in time")
        except RunnerError:
            raise
        except Exception as error:  # noqa: BLE001  # invalid data ends one run at most
            log_mishap(self.log, "a heartbeat failed by an internal error of the worker", "", error)
            self._fail(repr(error))
        else:
            self._is_failing = False
            self._kept_at = sent_at
            self.obey(orders)

    async def _wait(self) -> None:
        """Wait for the next heartbeat. A run that is added meanwhile may make it earlier."""
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        while (left := began_at + self._beat_seconds() - loop.time()) > 0:
            has_no_lease = self._lease_seconds() is None
            try:
                async with asyncio.timeout(left):
                    await self.held.changed()
            except TimeoutError:
                return
            if has_no_lease:
                self._kept_at = self.uptime()  # the lease of a claimed run begins now

    def _beat_seconds(self) -> float:
        lease = self._lease_seconds()
        if lease is None:
            return USUAL_BEAT_SECONDS
        return lease / (TRIES_PER_LEASE if self._is_failing else BEATS_PER_LEASE)

    def _lease_seconds(self) -> float | None:
        """Return the shortest lease."""
        leases = (held.assignment.lease_seconds for held in self.held)
        return min((lease for lease in leases if lease is not None), default=None)

    def _fail(self, reason: str) -> None:
        self._is_failing = True
        lease = self._lease_seconds()
        missed = 0.0 if lease is None else self.uptime() - self._kept_at
        # The time until the next try has failed, too: a pause, and the try itself.
        if lease is not None and missed + 2 * self._beat_seconds() > lease * FENCE_AT:
            self.fence(f"no heartbeat for {missed:.1f} s of a lease of {lease:g} s: {reason}")

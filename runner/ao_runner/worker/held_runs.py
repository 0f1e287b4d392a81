"""The runs that a worker holds, from the claim until the coordinator has all of each, and their leases.

Leases are kept by heartbeats. Where those fail, every run is ended before somebody else may begin it.
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
from ao_runner.runs.lost_runs import RunSummary
from ao_runner.runs.run_request import StopRequests
from ao_runner.store.run_queue import uptime_seconds
from ao_runner.worker.log import Log, log_mishap
from ao_runner.worker.spooling import SpooledJournal

Phase = Literal["claimed", "running", "delivering"]
"""While it is delivered, its process is gone and its record is there."""

MOST_EARLY_CANCELS: Final = 1000
REMEMBERED: Final = 10_000
"""So many of the last runs are known after their end, with the last attempt at each."""


@dataclass(slots=True, eq=False)
class HeldRun:
    """One of them."""

    assignment: Assignment
    journal: SpooledJournal
    stops: StopRequests = field(default_factory=StopRequests)
    phase: Phase = "claimed"
    ends_session: bool = False
    """Whether the process has to leave with this run, though the profile lets it stay for the session."""
    terminal: Terminal | None = None
    """How it has ended; where the coordinator refuses its own terminal event, the failure in its place."""

    @property
    def key(self) -> RunKey:
        """Which attempt at which run it is."""
        return self.assignment.key

    @property
    def summary(self) -> RunSummary:
        """What is known of its events before the first of them."""
        return RunSummary(session_id=self.assignment.run.session_id)

    @property
    def takes_a_slot(self) -> bool:
        """Whether it has, or will have, a process."""
        return self.phase != "delivering"


@dataclass(slots=True)
class HeldRuns:
    """All of them, and a bell for whoever waits until one of them gets on."""

    runs: dict[RunKey, HeldRun] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _cancelled_early: OrderedDict[str, None] = field(default_factory=OrderedDict)
    """Runs that were cancelled and are not held: the answer to a claim may be on its way. The latest are kept."""

    _ended: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def __iter__(self) -> Iterator[HeldRun]:
        return iter(list(self.runs.values()))

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def in_slots(self) -> int:
        """How many have a process."""
        return sum(held.takes_a_slot for held in self.runs.values())

    def add(self, held: HeldRun) -> None:
        """Hold one more, and ask it to stop where it was cancelled before it came."""
        self.runs[held.key] = held
        if held.key.run_id in self._cancelled_early:
            del self._cancelled_early[held.key.run_id]
            held.stops.request()
        self.tell_change()

    def cancel(self, run_ids: Collection[str], session_ids: Collection[str]) -> None:
        """Ask runs to stop, by their own names or those of their sessions; fenced ones are stopped already.

        A run that is not held is asked as soon as it is. The run of a session is not: it may be a later one.
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
        """Return those of a session."""
        return [held for held in self if held.assignment.run.session_id == session_id]

    def has_ended(self, key: RunKey) -> bool:
        """Tell whether an attempt, or a later one at the same run, has ended here."""
        return self._ended.get(key.run_id, 0) >= key.attempt

    def note_end(self, key: RunKey) -> None:
        """Remember that an attempt has ended."""
        self._ended[key.run_id] = max(key.attempt, self._ended.pop(key.run_id, 0))
        if len(self._ended) > REMEMBERED:
            self._ended.popitem(last=False)

    def drop(self, key: RunKey) -> None:
        """Hold it no longer."""
        self.runs.pop(key, None)
        self.tell_change()

    def tell_change(self) -> None:
        """Wake whoever waits in `changed`."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait until there is one more, one less, or one in another phase."""
        await self._changed.wait()


BEATS_PER_LEASE: Final = 3
TRIES_PER_LEASE: Final = 10
"""After a heartbeat that failed: how many pauses, and as many tries of the same length, fit into a lease."""
FENCE_AT: Final = 0.9
"""The part of a lease by which a worker that cannot prolong it has ended its runs itself."""
USUAL_BEAT_SECONDS: Final = 10.0
"""Where nothing has a lease."""


@dataclass(slots=True)
class Leases:
    """The leases of a worker's runs. `obey` gets the orders that heartbeats bring; `fence` has to end all runs.

    Time is the machine's uptime with its sleep, as coordinators count it, not what this process was awake for.
    """

    coordinator: Coordinator
    held: HeldRuns
    log: Log
    obey: Callable[[Orders], None]
    fence: Callable[[str], None]
    uptime: Callable[[], float] = uptime_seconds
    _kept_at: float = 0.0
    _is_failing: bool = False

    async def keep(self) -> None:
        """Beat for ever."""
        self._kept_at = self.uptime()
        while True:
            await self._beat()
            await self._wait()

    async def _beat(self) -> None:
        sent_at = self.uptime()
        try:
            async with asyncio.timeout(self._beat_seconds()):
                orders = await self.coordinator.heartbeat([held.key for held in self.held])
        except (CoordinatorUnavailable, TimeoutError) as error:
            self._fail(str(error) or "it did not answer in time")
        except RunnerError:
            raise
        except Exception as error:  # noqa: BLE001  # odd data ends one run at most
            log_mishap(self.log, "a heartbeat failed by an internal error of the worker", "", error)
            self._fail(repr(error))
        else:
            self._is_failing = False
            self._kept_at = sent_at
            self.obey(orders)

    async def _wait(self) -> None:
        """Wait for the time of the next beat; a run that comes meanwhile may bring it nearer."""
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
                self._kept_at = self.uptime()  # what is claimed has its lease from now on

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
        # What it takes until the next try has failed, too: a pause, and the try itself.
        if lease is not None and missed + 2 * self._beat_seconds() > lease * FENCE_AT:
            self.fence(f"no heartbeat for {missed:.1f} s of a lease of {lease:g} s: {reason}")

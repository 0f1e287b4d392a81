"""The runs that a worker holds: from the claim until the coordinator has all of each."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from ao_protocol.events import Terminal
from ao_runner.coordinators.port import Assignment
from ao_runner.run_events import RunKey
from ao_runner.runs.lost_runs import RunSummary
from ao_runner.runs.run_request import StopRequests
from ao_runner.worker.spooling import SpooledJournal

Phase = Literal["claimed", "running", "delivering"]
"""While it is delivered, its process is gone and its record is there."""

MOST_EARLY_CANCELS: Final = 1000


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
    def synopsis(self) -> RunSummary:
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


REMEMBERED: Final = 10_000


@dataclass(slots=True)
class RecentRuns:
    """Knows the last attempt at each of the last runs."""

    _attempts: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def add(self, key: RunKey) -> None:
        """Remember that an attempt has ended."""
        self._attempts[key.run_id] = max(key.attempt, self._attempts.pop(key.run_id, 0))
        if len(self._attempts) > REMEMBERED:
            self._attempts.popitem(last=False)

    def knows(self, key: RunKey) -> bool:
        """Tell whether that attempt, or a later one, has ended."""
        return self._attempts.get(key.run_id, 0) >= key.attempt

"""The runs that a worker holds: from the claim until the coordinator has all of each."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from ao_runner.coordinators.port import Assignment
from ao_runner.interrupts import StopRequests
from ao_runner.run_key import RunKey
from ao_runner.worker.spooling import SpooledJournal

Phase = Literal["claimed", "running", "delivering"]


@dataclass(slots=True, eq=False)
class HeldRun:
    """One of them."""

    assignment: Assignment
    journal: SpooledJournal
    stops: StopRequests = field(default_factory=StopRequests)
    phase: Phase = "claimed"
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when its process is gone and its record is there."""

    @property
    def key(self) -> RunKey:
        """Which attempt at which run it is."""
        return self.assignment.key

    @property
    def takes_a_slot(self) -> bool:
        """Whether it has, or will have, a process."""
        return self.phase != "delivering"


@dataclass(slots=True)
class HeldRuns:
    """All of them, and a bell for whoever waits until one of them gets on."""

    runs: dict[RunKey, HeldRun] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __iter__(self) -> Iterator[HeldRun]:
        return iter(list(self.runs.values()))

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def in_slots(self) -> int:
        """How many have a process."""
        return sum(held.takes_a_slot for held in self.runs.values())

    def add(self, held: HeldRun) -> None:
        """Hold one more."""
        self.runs[held.key] = held
        self.tell_change()

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

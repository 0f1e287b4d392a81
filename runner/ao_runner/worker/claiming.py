"""Claim runs only while this worker has a free slot and the machine has enough resources."""

import asyncio
import resource
import shutil
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ao_runner.coordinators.port import Assignment, Backoff, Coordinator, CoordinatorUnavailable
from ao_runner.errors import RunnerError
from ao_runner.worker.held_runs import HeldRuns
from ao_runner.worker.log import WorkerLog, log_mishap
from ao_runner.worker.spooling import Spooler

DESCRIPTORS_PER_RUN: Final = 8
"""Descriptors of a run: three pipes, the connection to its lifeline, and some while it starts."""
SPARE_DESCRIPTORS: Final = 32
"""Descriptors for the store, the outbox, connections and logs."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Free memory that a run needs to begin, in bytes."""

    memory_bytes: int = 256 * 1024 * 1024
    disk_bytes: int = 256 * 1024 * 1024


def raise_descriptor_limit() -> None:
    """Raise the limit of descriptors of this process to its hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def lacking(folder: Path, needs: Needs, runs: int, more: int = 1) -> str | None:
    """Return, as a sentence, what `more` runs lack beside `runs` others; None if they may begin."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SPARE_DESCRIPTORS + (runs + more) * DESCRIPTORS_PER_RUN
    if allowed != resource.RLIM_INFINITY and wanted > allowed:
        return f"descriptors: {runs + more} runs need {wanted}, the limit is {allowed} (ulimit -n)"
    free = free_memory_bytes()
    if free is not None and free < needs.memory_bytes * more:
        return f"memory: {free >> 20} MiB are free, {needs.memory_bytes * more >> 20} MiB are needed"
    try:
        left = shutil.disk_usage(folder).free
    except OSError as error:
        return f"disk: {folder} cannot be looked at: {error.strerror}"
    if left < needs.disk_bytes:
        return f"disk: {left >> 20} MiB are free below {folder}, {needs.disk_bytes >> 20} MiB are needed"
    return None


def free_memory_bytes() -> int | None:
    """Return the available memory of this machine; None if the system does not report it."""
    if sys.platform != "linux":
        return None
    try:
        lines = Path("/proc/meminfo").read_bytes().splitlines()
    except OSError:
        return None  # all descriptors are in use at this moment
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(b"MemAvailable:")), None)


MOST_RUNS: Final = 1 << 20
LOOK_AGAIN_SECONDS: Final = 1.0
"""How often a worker checks whether a lacking resource is available."""
IDLE_SECONDS: Final = 2.0
"""With no run held and none claimed for this long, the worker is idle."""


@dataclass(slots=True)
class Claiming:
    """Claims runs from a coordinator until `draining` is set and the coordinator has no more for this worker.

    `hurry` ends that at once.
    """

    coordinator: Coordinator
    spooler: Spooler
    held: HeldRuns
    folder: Path
    log: WorkerLog
    concurrency: int
    needs: Needs
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    _lack: str | None = None

    async def claim_runs(self, take: Callable[[Assignment], None], is_idle: Callable[[], bool] | None) -> None:
        """Pass every claimed run to `take`. With `is_idle`, return once no run comes and it returns true.

        Raises:
            CoordinatorUnavailable: with `is_idle` only: nothing can be claimed until a person repairs something.
        """
        backoff = Backoff()
        while not self.draining.is_set() or (not self.hurry.is_set() and await self.coordinator.has_unclaimed()):
            if (slots := self._free_slots()) == 0:
                await self.pause(LOOK_AGAIN_SECONDS)
                continue
            try:
                assignments = await self._claim(slots, is_idle)
            except CoordinatorUnavailable as error:
                if error.is_damaged and is_idle is not None and is_idle():
                    raise
                self.log.warning("no runs can be claimed; trying again", reason=error.reason)
                await self.pause(backoff.next_seconds(error.retry_after_seconds))
                continue
            except RunnerError:
                raise
            except Exception as error:  # noqa: BLE001  # invalid data ends one run at most
                log_mishap(self.log, "a claim failed by an internal error of the worker", "", error)
                await self.pause(backoff.next_seconds())
                continue
            backoff = Backoff()
            for assignment in assignments:
                take(assignment)
            if is_idle is not None and not assignments and is_idle():
                return

    @property
    def _leaving(self) -> asyncio.Event:
        """The event of the next request to leave."""
        return self.hurry if self.draining.is_set() else self.draining

    def _free_slots(self) -> int:
        """Return how many runs may be claimed now, and log what more of them would lack."""
        slots, lack = min(self.concurrency, MOST_RUNS) - self.held.in_slots, None
        if not slots:
            return 0
        if self._lacking(slots) is not None:
            # If n more runs fit, fewer fit too, so not every number has to be tried.
            slots = bisect_left(range(slots), True, key=lambda fewer: self._lacking(fewer + 1) is not None)
            lack = None if slots else self._lacking(1)
        if slots and not self.spooler.has_room:
            slots, lack = 0, "room in the outbox: the coordinator takes no events, or too slowly"
        if lack is not None and lack != self._lack:
            self.log.warning("taking no more runs", lacking=lack)
        self._lack = lack
        return slots

    def _lacking(self, slots: int) -> str | None:
        return lacking(self.folder, self.needs, self.held.in_slots, slots)

    async def _claim(self, slots: int, is_idle: Callable[[], bool] | None) -> Sequence[Assignment]:
        """Claim, until a request to leave or, with `is_idle`, until the worker has waited long enough."""
        claiming = asyncio.ensure_future(self.coordinator.claim(slots))
        ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._leaving.wait())]
        if is_idle is not None:
            ends.append(asyncio.ensure_future(self._idle(is_idle)))
        try:
            await asyncio.wait({claiming, *ends}, return_when=asyncio.FIRST_COMPLETED)
            return await claiming if claiming.done() else ()
        finally:
            for future in (claiming, *ends):
                future.cancel()

    async def _idle(self, is_idle: Callable[[], bool]) -> None:
        """Wait until the worker has been idle for a while."""
        while not is_idle():
            await self.pause(LOOK_AGAIN_SECONDS)
        await asyncio.sleep(IDLE_SECONDS)

    async def pause(self, seconds: float) -> None:
        """Wait until a run changes its phase, the worker is requested to leave, or the time is up."""
        waiting = [asyncio.ensure_future(self.held.changed()), asyncio.ensure_future(self._leaving.wait())]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in waiting:
                future.cancel()

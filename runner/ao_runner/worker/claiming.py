"""Claiming: runs are asked for only while this worker has a slot for them, and the machine has what they need."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ao_runner.coordinators.port import Assignment, Coordinator, CoordinatorUnavailable
from ao_runner.outbox import Outbox
from ao_runner.worker.admission import Needs, lacking
from ao_runner.worker.backoff import Backoff
from ao_runner.worker.held import HeldRuns
from ao_runner.worker.log import Log

LOOK_AGAIN_SECONDS: Final = 1.0
"""So often a worker looks whether what a run lacked is there now."""


@dataclass(slots=True)
class Claiming:
    """Asks a coordinator for runs until `draining` is set."""

    coordinator: Coordinator
    outbox: Outbox
    held: HeldRuns
    folder: Path
    log: Log
    concurrency: int
    needs: Needs
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    _lack: str | None = None

    async def claim_runs(self, take: Callable[[Assignment], None], *, until_idle: bool) -> None:
        """Hand every run that is claimed to `take`. With `until_idle`, return once there is none and nothing runs."""
        backoff = Backoff()
        while not self.draining.is_set():
            if not self._may_claim():
                await self._wait(LOOK_AGAIN_SECONDS)
                continue
            try:
                assignments = await self._claim()
            except CoordinatorUnavailable as error:
                self.log.warning("no runs can be claimed; trying again", reason=error.reason)
                await self._wait(backoff.next_seconds(error.retry_after_seconds))
                continue
            backoff = Backoff()
            for assignment in assignments:
                take(assignment)
            if until_idle and not assignments and not len(self.held):
                return

    def _may_claim(self) -> bool:
        if self.held.in_slots >= self.concurrency:
            return False
        lack = lacking(self.folder, self.needs, self.held.in_slots)
        if not self.outbox.has_room:
            lack = "room in the outbox: the coordinator takes no events, or too slowly"
        if lack != self._lack and lack is not None:
            self.log.warning("taking no more runs", lacking=lack)
        self._lack = lack
        return lack is None

    async def _claim(self) -> Sequence[Assignment]:
        """Claim, or give that up when the worker is to leave."""
        claiming = asyncio.ensure_future(self.coordinator.claim(self.concurrency - self.held.in_slots))
        draining = asyncio.ensure_future(self.draining.wait())
        try:
            await asyncio.wait({claiming, draining}, return_when=asyncio.FIRST_COMPLETED)
            return await claiming if claiming.done() else ()
        finally:
            claiming.cancel()
            draining.cancel()

    async def _wait(self, seconds: float) -> None:
        """Wait until a run gets on, the worker is to leave, or the time is up."""
        waiting = [asyncio.ensure_future(self.held.changed()), asyncio.ensure_future(self.draining.wait())]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in waiting:
                future.cancel()

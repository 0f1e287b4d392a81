"""Leases: kept by heartbeats, and where those fail, every run is ended before somebody else may begin it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ao_runner.coordinators.port import Coordinator, CoordinatorUnavailable, Orders
from ao_runner.errors import RunnerError
from ao_runner.store.run_queue import uptime_seconds
from ao_runner.worker.held_runs import HeldRuns
from ao_runner.worker.log import Log, log_mishap

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

    def _fail(self, reason: str) -> None:
        self._is_failing = True
        self._fence_if_due(reason)

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

    def _fence_if_due(self, reason: str) -> None:
        lease = self._lease_seconds()
        missed = 0.0 if lease is None else self.uptime() - self._kept_at
        # What it takes until the next try has failed, too: a pause, and the try itself.
        if lease is not None and missed + 2 * self._beat_seconds() > lease * FENCE_AT:
            self.fence(f"no heartbeat for {missed:.1f} s of a lease of {lease:g} s: {reason}")

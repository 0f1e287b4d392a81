"""The workers that use the store through this server, each behind the coordinator that local workers use, too."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ao_runner.coordinators.port import Assignment, CoordinatorUnavailable
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.run_events import RunKey
from ao_runner.store.ownership import MAX_LEASE_SECONDS, uptime_seconds
from ao_runner.store.worker_table import Offer
from ao_server.store_access import StoreAccess


@dataclass(eq=False)
class JoinedWorker:
    """A worker and its coordinator."""

    coordinator: StoreCoordinator
    heard_at: float = field(default_factory=uptime_seconds)
    _claim_id: str = ""
    _claiming: asyncio.Task[Sequence[Assignment]] | None = None

    def claiming(self, claim_id: str, slots: int) -> "asyncio.Task[Sequence[Assignment]]":
        """Return the task of a claim; the same one for the same id, so that its answer can be asked for again."""
        if self._claiming is None or self._claiming.cancelled() or claim_id != self._claim_id:
            self._claim_id = claim_id
            self._claiming = asyncio.create_task(self.coordinator.claim(slots))
        return self._claiming

    async def leave(self) -> None:
        """Return the runs of a claim whose answer was lost, and those that never began, and leave."""
        if (task := self._claiming) is not None:
            task.cancel()
            with suppress(asyncio.CancelledError, CoordinatorUnavailable):
                for assignment in await task:
                    await self.coordinator.release(assignment.key, None)
        await self.coordinator.__aexit__()


class JoinedWorkers:
    """The workers by name. A server that is started again knows none, and each joins again."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._workers: dict[str, JoinedWorker] = {}

    async def join(self, offer: Offer, held: Sequence[RunKey]) -> None:
        """Add a worker, or replace what is known of it, and forget those that are silent for long."""
        coordinator = StoreCoordinator(self._access.shared, offer, tell, held)
        await coordinator.__aenter__()
        self._workers[offer.owner] = JoinedWorker(coordinator)
        for worker_id in [name for name, one in self._workers.items() if _is_silent(one)]:
            del self._workers[worker_id]

    def find(self, worker_id: str) -> JoinedWorker | None:
        """Return a worker that makes a call; None if it is not known, or not any more."""
        worker = self._workers.get(worker_id)
        if worker is None or _is_silent(worker):
            return None
        worker.heard_at = uptime_seconds()
        return worker

    async def leave(self, worker_id: str) -> None:
        """Remove a worker."""
        if (worker := self._workers.pop(worker_id, None)) is not None:
            await worker.leave()


def _is_silent(worker: JoinedWorker) -> bool:
    return uptime_seconds() - worker.heard_at > MAX_LEASE_SECONDS


def tell(sentence: str) -> None:
    """Write a sentence about the store to the server's log."""
    sys.stderr.write(f"ao: {sentence}\n")

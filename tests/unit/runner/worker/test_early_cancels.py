"""A cancel that overtakes the answer to the claim of its run."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from ao_runner.coordinators.port import Assignment, Coordinator, Orders
from ao_runner.run_events import RunKey
from ao_runner.store.ownership import notify
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.worker.metrics import Metrics, WatchedCoordinator
from tests.unit.runner.worker.working import submit, work_off_one


class SlowToAnswerClaims(WatchedCoordinator):
    """Any coordinator whose answer to a claim arrives when the worker has obeyed a cancel of that very run."""

    def __init__(self, inner: Coordinator, home: Path) -> None:
        super().__init__(inner, Metrics())
        self._home = home
        self.cancels = 0
        self._was_obeyed = asyncio.Event()

    async def claim(self, slots: int) -> Sequence[Assignment]:
        assignments = await super().claim(slots)
        for assignment in assignments:
            with SqliteStore(self._home) as store:
                store.runs.request_stop(assignment.run.run_id)
            notify(self._home)
            await self._was_obeyed.wait()
        return assignments

    async def orders(self) -> Orders:
        if self.cancels:
            self._was_obeyed.set()
        return self._counted(await super().orders())

    async def heartbeat(self, held: Sequence[RunKey], outbox_seconds: float = 0.0) -> Orders:
        return self._counted(await super().heartbeat(held, outbox_seconds))

    def _counted(self, orders: Orders) -> Orders:
        self.cancels += len(orders.cancel_runs)
        return orders


def test_a_run_that_is_cancelled_while_it_is_being_claimed_is_cancelled(tmp_path: Path) -> None:
    submit(tmp_path, "leaves_when_asked")
    slow: list[SlowToAnswerClaims] = []

    def watch(coordinator: Coordinator) -> Coordinator:
        slow.append(SlowToAnswerClaims(coordinator, tmp_path))
        return slow[0]

    work_off_one(tmp_path, [], watch)

    assert slow[0].cancels == 1
    with SqliteStore(tmp_path) as store:
        assert [state.run.status for state in store.runs.states()] == ["cancelled"]

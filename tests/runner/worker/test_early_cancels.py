"""A cancel that overtakes the answer to the claim of its run."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ao_runner.coordinators.port import Assignment, Coordinator, EventBatch, Orders, RunKey
from ao_runner.store.ownership import notify
from ao_runner.store.records import RunRecord
from ao_runner.store.store import Store
from tests.runner.worker.working import submit, work_off_one


@dataclass
class SlowToAnswerClaims:
    """Any coordinator whose answer to a claim arrives when the worker has obeyed a cancel of that very run."""

    inner: Coordinator
    home: Path
    cancels: int = 0
    _was_obeyed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.inner.__aexit__(*details)

    async def claim(self, slots: int) -> Sequence[Assignment]:
        assignments = await self.inner.claim(slots)
        for assignment in assignments:
            with Store(self.home) as store:
                store.request_stop(assignment.run.run_id)
            notify(self.home)
            await self._was_obeyed.wait()
        return assignments

    async def orders(self) -> Orders:
        if self.cancels:
            self._was_obeyed.set()
        return self._counted(await self.inner.orders())

    async def heartbeat(self, held: Sequence[RunKey]) -> Orders:
        return self._counted(await self.inner.heartbeat(held))

    async def started(self, key: RunKey) -> None:
        await self.inner.started(key)

    async def events(self, batch: EventBatch) -> int:
        return await self.inner.events(batch)

    async def terminal(self, key: RunKey, seq: int, line: bytes, *, stays: bool = False) -> None:
        await self.inner.terminal(key, seq, line, stays=stays)

    async def session_left(self, session_id: str) -> None:
        await self.inner.session_left(session_id)

    def drain(self) -> None:
        self.inner.drain()

    async def release(self, key: RunKey, record: RunRecord | None) -> None:
        await self.inner.release(key, record)

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
    with Store(tmp_path) as store:
        assert [state.run.status for state in store.list_states()] == ["cancelled"]

"""How long a worker waits before it tries again."""

import asyncio
from pathlib import Path

import pytest

from ao_runner.coordinators.port import Backoff, CoordinatorUnavailable
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.outbox.outbox import Outbox
from ao_runner.store.opening import StorePlace
from ao_runner.store.worker_table import Offer
from ao_runner.worker.delivery import Delivery
from ao_runner.worker.log import open_log


def test_it_waits_longer_each_time_up_to_a_cap() -> None:
    backoff = Backoff(first_seconds=1, longest_seconds=5, chance=lambda: 1.0)

    assert [backoff.next_seconds() for _ in range(5)] == [1, 2, 4, 5, 5]


@pytest.mark.parametrize(("asked", "waited"), [(0.0, 0.5), (60.0, 60.0), (300.0, 300.0), (1e9, 300.0)])
def test_it_waits_as_long_as_it_is_asked_to_but_not_for_ever(asked: float, waited: float) -> None:
    assert Backoff(first_seconds=1, chance=lambda: 0.5).next_seconds(asked) == waited


async def test_a_worker_that_hurries_does_not_wait_out_what_it_was_asked_to(tmp_path: Path) -> None:
    hurry, tries = asyncio.Event(), []

    async def call() -> None:
        tries.append(1)
        asyncio.get_running_loop().call_soon(hurry.set)
        raise CoordinatorUnavailable("place", "busy", retry_after_seconds=300)

    with Outbox(tmp_path / "outbox") as outbox:
        coordinator = StoreCoordinator(StorePlace(tmp_path), Offer("owner"))
        delivery = Delivery(coordinator, outbox, tmp_path, open_log("json", colours=False))
        with pytest.raises(CoordinatorUnavailable):
            await delivery.persist(call, unless=hurry)
    assert len(tries) == 2

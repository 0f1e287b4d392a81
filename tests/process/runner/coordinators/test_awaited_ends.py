"""Servers hear at once of the ends for which somebody waits."""

import asyncio
from dataclasses import replace
from pathlib import Path

from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.store.deliveries import GivenUp, Webhook
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import own_runs, own_wakeup
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.store import Store
from ao_runner.store.worker_table import Offer
from tests.process.runner.coordinators.lines import result

BOUND_SECONDS = 100.0


def queue(store: Store, run: Run) -> None:
    store.sessions.add(Session(run.session_id, timestamp(), "echo", "echo", "/project", {"name": "greeter"}))
    store.queue.add(replace(run, profile="echo"))


def test_a_worker_wakes_servers_at_an_end_that_a_webhook_waits_for(tmp_path: Path) -> None:
    async def story() -> None:
        with own_runs(tmp_path) as owner, StorePlace(tmp_path).open() as store:
            queue(store, Run("run_1", "ses_1", "start", {"prompt": "Hi"}, timestamp()))
            store.webhooks.add(Webhook("hook", "http://127.0.0.1", "", "2026"))
            async with StoreCoordinator(StorePlace(tmp_path), Offer(owner)) as coordinator:
                (assignment,) = await coordinator.claim(1)
                await coordinator.started(assignment.key)
                with own_wakeup(tmp_path, "server") as server:
                    woken = asyncio.create_task(server.wait(2 * BOUND_SECONDS))
                    await asyncio.sleep(0)
                    await coordinator.terminal(assignment.key, 1, result(1))
                    async with asyncio.timeout(BOUND_SECONDS):
                        await woken

    asyncio.run(story())


def test_an_end_is_awaited_by_callbacks_of_its_own_and_of_its_children(store: Store) -> None:
    for number, mode in ((1, None), (2, "async_callback"), (3, "sync")):
        run = Run(f"run_{number}", f"ses_{number}", "start", {}, timestamp(), "queued", parent_session_id="ses_1",
                  execution_mode=mode)  # type: ignore[arg-type]  # one of the modes  # fmt: skip
        queue(store, run)
    assert [store.deliveries.is_end_awaited(f"run_{number}") for number in (1, 2, 3)] == [False, True, False]
    store.runs.end("run_2", "completed", timestamp(), None)
    with store.transaction():
        store.deliveries.announce_ends(timestamp())
    assert store.deliveries.is_end_awaited("run_1")
    store.deliveries.put_off("callback", "ses_1", ["run_2"], None, "it is gone")
    assert not store.deliveries.is_end_awaited("run_1")
    assert store.deliveries.given_up("2026") == [GivenUp("callback", "ses_1", "run_2", "it is gone")]
    assert store.deliveries.given_up("2026", "run_1") == []

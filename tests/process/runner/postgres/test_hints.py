"""Heartbeats cost one row, notifications are hints, and a run holds no transaction open."""

import asyncio
from collections.abc import Sequence

import psycopg

from ao_runner.store.deliveries import Webhook
from ao_runner.store.opening import StorePlace
from ao_runner.worker.held_runs import USUAL_BEAT_SECONDS
from tests.process.executors.driver import wait_until
from tests.process.runner.cli.calling import Ao
from tests.process.runner.coordinators.lines import batch, result, said
from tests.process.runner.postgres.acting import (
    SECONDS,
    begin,
    cancel,
    coordinating,
    counted,
    opened,
    started,
    submit,
    working,
)

NOWHERE = "postgresql://ao@127.0.0.1:1/nothing"


def test_a_heartbeat_of_a_thousand_runs_writes_one_row(place: StorePlace) -> None:
    written = ("n_tup_ins", "n_tup_upd", "n_tup_del")
    with opened(place) as store:
        begin(store, "worker", *(f"run_{number}" for number in range(1000)))
        with store.transaction():
            before = [counted(store, table, *written) for table in ("runs", "workers")]
            kept = store.workers.renew_leases("worker", 60)
            after = [counted(store, table, *written) for table in ("runs", "workers")]

    assert kept == {(f"run_{number}", 1) for number in range(1000)}
    assert after[0] == before[0]
    assert sum(after[1]) == sum(before[1]) + 1


def test_a_worker_without_runs_is_there_between_its_heartbeats_however_short_the_lease_of_a_run(
    place: StorePlace,
) -> None:
    left = "SELECT extract(epoch FROM lease_until - clock_timestamp()) FROM workers"
    with opened(place) as store:
        store.workers.renew_leases("worker", 0.5)
        idle = store.fetch(left)[0][0]
        begin(store, "worker", "run_1", lease_seconds=0.5)
        claimed = store.fetch(left)[0][0]
        store.workers.renew_leases("worker", 0.5)
        renewed = store.fetch(left)[0][0]

    assert idle > 2 * USUAL_BEAT_SECONDS
    assert claimed <= 0.5
    assert renewed <= 0.5


def test_a_run_holds_no_transaction_open(ao: Ao, place: StorePlace) -> None:
    open_before = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'ao'"
        " AND xact_start < %s"
    )
    with working(ao, place.url), psycopg.connect(place.url, autocommit=True) as watcher:
        run = submit(ao, place.url)
        now = watcher.execute("SELECT clock_timestamp()").fetchone()
        wait_until(lambda: watcher.execute(open_before, now).fetchone() == (0,), SECONDS)
        cancel(ao, place.url, run)


def test_without_any_notification_runs_are_claimed_and_cancelled(ao: Ao, place: StorePlace) -> None:
    with working(ao, place.url, AO_STORE_DIRECT=NOWHERE):
        run = submit(ao, place.url)
        cancel(ao, place.url, run)


def heard(listener: "psycopg.Connection[tuple[object, ...]]", place: StorePlace) -> Sequence[str]:
    """Return the notifications that have come, up to one that is sent now."""
    with psycopg.connect(place.url, autocommit=True) as sender:
        sender.execute("SELECT pg_notify('ao_store', 'the last one')")
    found: list[str] = []
    for notification in listener.notifies():
        if notification.payload == "the last one":
            return found
        found.append(notification.payload)
    raise AssertionError("the listener was closed")


def test_a_queued_run_an_order_and_an_awaited_end_notify_and_events_do_not(ao: Ao, place: StorePlace) -> None:
    async def perform() -> None:
        async with coordinating(place, "worker") as coordinator:
            assignment = await started(coordinator)
            for seq in range(1, 50):
                await coordinator.events(batch(seq, said(seq, "x"), run=assignment.key.run_id))
            await coordinator.heartbeat([assignment.key])
            await coordinator.terminal(assignment.key, 50, result(50))

    with psycopg.connect(place.url, autocommit=True) as listener, opened(place) as store:
        listener.execute("LISTEN ao_store")
        ao("submit", "agent.yaml", "-p", "x", "--profile", "echo", AO_STORE=place.url)
        assert heard(listener, place) == [""]
        asyncio.run(perform())
        assert heard(listener, place) == []
        store.webhooks.add(Webhook("hook", "http://127.0.0.1", "", "2026"))
        ao("submit", "agent.yaml", "-p", "x", "--profile", "echo", AO_STORE=place.url)
        assert heard(listener, place) == [""]
        asyncio.run(perform())
        assert heard(listener, place) == [""]
        begin(store, "other", "run_1")
        ao("cancel", "run_1", AO_STORE=place.url)
        assert heard(listener, place) == [""]


def test_two_workers_of_one_host_have_different_names(ao: Ao, place: StorePlace) -> None:
    with opened(place) as store:
        with working(ao, place.url, AO_HOST="pod"), working(ao, place.url, AO_HOST="pod"):
            wait_until(lambda: len(store.workers.living()) == 2, SECONDS)
        with working(ao, place.url, AO_HOST="pod"):
            wait_until(lambda: len(store.workers.living()) == 3, SECONDS)

        assert store.fetch("SELECT DISTINCT host FROM workers") == [("pod",)]
        assert len({owner.pid for owner in store.workers.living().values()}) == 3

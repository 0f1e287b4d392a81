"""What a worker counts and measures, and how it is asked for."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ao_runner.coordinators.port import CoordinatorUnavailable, EventBatch, Orders
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.outbox.outbox import Outbox
from ao_runner.run_events import RunKey
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.worker_table import Offer
from ao_runner.worker.held_runs import HeldRuns
from ao_runner.worker.metrics import (
    MOST_CONNECTIONS,
    MOST_VALUES,
    CannotListen,
    Exposition,
    Metrics,
    Watched,
    WatchedCoordinator,
)
from ao_runner.worker.worker import Worker
from tests.postgres_server import PostgresServer
from tests.unit.runner.worker.working import MINIATURES, submit, work_off_one

SECONDS = 100.0


async def ask(port: int, path: str, method: str = "GET", hosts: str = "Host: localhost\r\n") -> tuple[int, str]:
    """Return the status and the body of an answer; `hosts` is the request's headers."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{method} {path} HTTP/1.1\r\n{hosts}\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
    return int(head.split()[1]), body


def samples(text: str) -> dict[str, float]:
    """Return the values of an exposition by name and labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def exposed(metrics: Metrics, trouble: str | None = None, path: str = "/metrics") -> tuple[int, str]:
    async def serve_and_ask() -> tuple[int, str]:
        async with Exposition(metrics, lambda: trouble).served(0) as port:
            return await ask(port, path)

    return asyncio.run(serve_and_ask())


def test_a_run_is_counted_and_measured(tmp_path: Path) -> None:
    metrics = Metrics()
    text = ""

    def look(worker: Worker) -> None:
        nonlocal text
        from prometheus_client import generate_latest

        metrics.watch(Watched(worker.held, worker.outbox, 1000, 4, lambda: {"parked": 2}))
        text = generate_latest(metrics.registry).decode()

    submit(tmp_path, "prints_garbage")
    work_off_one(tmp_path, [metrics], lambda inner: WatchedCoordinator(inner, metrics), look)

    found = samples(text)
    profile = MINIATURES / "prints_garbage.py"
    assert found[f"ao_worker_runs_total{{error_type=,outcome=completed,profile={profile}}}"] == 1
    assert found["ao_worker_claims_total"] == 1
    assert found["ao_worker_launches_total{launched=cold}"] == 1
    assert found["ao_worker_protocol_problems_total"] > 0
    assert found["ao_worker_events_relayed_total"] == found["ao_worker_events_delivered_total"] > 0
    for name in ("queue", "spawn", "first_event", "run"):
        assert found[f"ao_worker_{name}_seconds_count"] == 1
    assert found["ao_worker_slots"] == 4
    assert found["ao_worker_waiting_processes{how=parked}"] == 2
    assert found["ao_worker_outbox_open_runs"] == 0
    assert found["ao_worker_outbox_oldest_event_age_seconds"] == 0
    assert found["ao_worker_coordinator_up"] == 1
    assert found["process_start_time_seconds"] > 0


def test_what_waits_in_the_outbox_is_shown_with_its_age(tmp_path: Path) -> None:
    metrics = Metrics()
    with Outbox(tmp_path) as outbox:
        outbox.append(RunKey("run_1", 1), 1, [b'{"timestamp":"2020-01-01T00:00:00Z"}', b"{}"])
        outbox.append(RunKey("run_2", 1), 1, [b'{"timestamp":"2026-01-01T00:00:00Z"}'])
        outbox.sync()
        metrics.watch(Watched(HeldRuns(), outbox, 1000, 4))

        found = samples(exposed(metrics)[1])

    assert found["ao_worker_outbox_open_runs"] == 2
    assert found["ao_worker_outbox_bytes"] > 0
    assert found["ao_worker_outbox_oldest_event_age_seconds"] > 5 * 365 * 86400


class _Away(StoreCoordinator):
    """A coordinator that cannot be reached; nothing of it is opened."""

    async def events(self, batch: EventBatch) -> int:
        raise CoordinatorUnavailable("somewhere", "it is away")

    async def orders(self) -> Orders:
        return Orders()


def test_a_coordinator_that_is_away_is_down_and_one_that_was_not_asked_is_not_up(tmp_path: Path) -> None:
    metrics = Metrics()
    watched = WatchedCoordinator(_Away(StorePlace(tmp_path), Offer("me")), metrics)

    with pytest.raises(CoordinatorUnavailable):
        asyncio.run(watched.events(EventBatch(RunKey("run_1", 1), 1, [b"{}"])))
    asyncio.run(watched.orders())

    found = samples(exposed(metrics)[1])
    assert found["ao_worker_coordinator_failures_total{call=events}"] == 1
    assert found["ao_worker_coordinator_up"] == 0
    assert found["ao_worker_events_delivered_total"] == 0


def test_runs_are_counted_by_the_labels_that_the_operator_names(tmp_path: Path) -> None:
    metrics = Metrics(labels=["team", "cost.centre"])
    submit(tmp_path, "prints_garbage", labels={"team": "docs", "ticket": "77"})
    work_off_one(tmp_path, [metrics], lambda inner: WatchedCoordinator(inner, metrics))

    (counted,) = [one for one in samples(exposed(metrics)[1]) if one.startswith("ao_worker_runs_total")]
    assert "label_cost_centre=,label_team=docs," in counted
    assert "77" not in counted


def test_more_profiles_than_a_hundred_are_counted_together(tmp_path: Path) -> None:
    metrics = Metrics()

    names = {metrics.bounded(f"profile {number}") for number in range(MOST_VALUES + 50)}

    assert len(names) == MOST_VALUES + 1
    assert "other" in names
    assert metrics.bounded("profile 7") == "profile 7"


@pytest.mark.parametrize(
    ("trouble", "path", "status"),
    [
        (None, "/healthz", 200),
        ("draining", "/healthz", 503),
        ("draining", "/metrics", 200),
        (None, "/metrics?x=1", 200),
        (None, "/", 404),
    ],
)
def test_health_is_told_by_the_status(trouble: str | None, path: str, status: int) -> None:
    assert exposed(Metrics(), trouble, path)[0] == status


async def test_nothing_but_get_is_answered_and_endless_requests_are_hung_up_on() -> None:
    async with Exposition(Metrics(), lambda: None).served(0) as port:
        assert (await ask(port, "/metrics", "POST"))[0] == 405
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x" * 100_000)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        ("Host: localhost:9464\r\n", 200),
        ("HOST:LocalHost\r\n", 200),
        ("Host: 127.0.0.1:1\r\n", 200),
        ("Host: [::1]\r\n", 200),
        ("", 200),
        ("Host: evil.example:9464\r\n", 421),
        ("Host: localhost.evil.example\r\n", 421),
        ("Host: 127.0.0.1.evil.example\r\n", 421),
        ("Host: localhost\r\nHost: evil.example\r\n", 421),
        ("Host:\r\n", 421),
        ("Host : evil.example\r\n", 421),
        (" Host: evil.example\r\n", 421),
    ],
)
async def test_a_page_that_reaches_the_port_by_a_name_of_its_own_learns_nothing(hosts: str, status: int) -> None:
    async with Exposition(Metrics(), lambda: None).served(0) as port:
        assert [(await ask(port, path, hosts=hosts))[0] for path in ("/metrics", "/healthz")] == [status] * 2


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: loc"], ids=["nothing", "half a head"])
async def test_connections_that_ask_nothing_silence_nobody(sent: bytes) -> None:
    async with Exposition(Metrics(), lambda: None).served(0) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        for _, writer in silent:
            writer.write(sent)
        assert [(await ask(port, "/healthz"))[0] for _ in range(3)] == [200] * 3
        kept = MOST_CONNECTIONS - 1  # the three that were answered have gone
        await asyncio.wait([asyncio.ensure_future(reader.read()) for reader, _ in silent[:-kept]])
        for _, writer in silent:
            writer.close()


async def test_a_port_that_is_taken_is_named() -> None:
    exposition = Exposition(Metrics(), lambda: None)
    async with exposition.served(0) as port:
        with pytest.raises(CannotListen, match=rf"127\.0\.0\.1:{port}: .*choose another --metrics-port, or 0"):
            await exposition.served(port).__aenter__()


async def ask_for_the_fleet(port: int) -> dict[str, float]:
    """Ask until the store has answered in time."""
    async with asyncio.timeout(SECONDS):
        while "ao_fleet_workers" not in (found := samples((await ask(port, "/metrics"))[1])):
            pass
    return found


def test_the_load_of_the_whole_store_is_told(place: StorePlace) -> None:
    session = Session("ses_1", timestamp(), "x", "/bin/x", "/project", {"name": "agent"})
    with place.open() as store:
        store.runs.begin(Run("run_1", "ses_1", "start", {}, timestamp()), "another", session)
        store.sessions.add(replace(session, session_id="ses_2"))
        for number, since in (2, "2026-01-01T00:00:00.000Z"), (3, timestamp()):
            store.queue.add(replace(Run(f"run_{number}", "ses_2", "start", {}, since, "queued"), profile="idle"))
    metrics = Metrics()

    async def look() -> dict[str, float]:
        with own_runs(place.home, ["served"]) as owner:
            async with StoreCoordinator(place, Offer(owner, ("served",))) as coordinator:
                metrics.watch_fleet(coordinator.fleet)
                async with Exposition(metrics, lambda: None).served(0) as port:
                    return await ask_for_the_fleet(port)

    found = asyncio.run(look())

    assert found["ao_fleet_workers"] == 1
    assert found["ao_fleet_queued_runs{profile=idle}"] == 2
    assert found["ao_fleet_running_runs{profile=}"] == 1
    assert found["ao_fleet_oldest_queued_seconds{profile=idle}"] > 24 * 3600


def test_a_store_that_does_not_answer_delays_neither_the_loop_nor_the_other_metrics(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    place = StorePlace(tmp_path, postgres.new_database())
    metrics = Metrics()

    async def look() -> tuple[dict[str, float], int, dict[str, float]]:
        async with StoreCoordinator(place, Offer("worker")) as coordinator:
            metrics.watch_fleet(coordinator.fleet)
            async with Exposition(metrics, lambda: None).served(0) as port:
                with psycopg.connect(place.url) as other:
                    other.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
                    asked = asyncio.create_task(ask(port, "/metrics"))
                    health, _ = await ask(port, "/healthz")
                    during = samples((await asked)[1])
                return during, health, await ask_for_the_fleet(port)

    during, health, after = asyncio.run(look())

    assert health == 200
    assert "ao_worker_claims_total" in during
    assert "ao_fleet_workers" not in during
    assert after["ao_fleet_workers"] == 1

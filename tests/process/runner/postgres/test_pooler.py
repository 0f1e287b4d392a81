"""pgbouncer in transaction mode: everything works through it, and notifications come by a direct connection."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from ao_runner.diagnosis import judge_server
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.opening import StorePlace
from ao_runner.store.postgres_notifications import missing_notifications
from ao_runner.store.postgres_operations import look
from tests.pgbouncer import Pooler
from tests.postgres_server import PostgresServer
from tests.process.executors.driver import wait_until
from tests.process.runner.cli.calling import Ao
from tests.process.runner.postgres.acting import (
    SECONDS,
    begin,
    cancel,
    claim,
    echo,
    expire,
    ids,
    opened,
    seqs_of,
    submit,
    working,
)
from tests.process.runner.postgres.test_hints import NOWHERE

DIRECT = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN ao_store'"


@pytest.fixture(scope="module")
def pooler(postgres: PostgresServer) -> Iterator[Pooler]:
    with Pooler(postgres) as started:
        yield started


@pytest.fixture
def pooled(pooler: Pooler, place: StorePlace) -> StorePlace:
    """The store as it is through the pooler."""
    return StorePlace(place.home, pooler.pooled(place.url))


def test_processes_that_open_an_empty_database_through_a_pooler_create_its_tables(pooled: StorePlace) -> None:
    def open_it(_: int) -> int:
        with opened(pooled) as store:
            return len(store.sessions.all())

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(open_it, range(6))) == [0] * 6


def test_runs_are_performed_and_cancelled_through_a_pooler(ao: Ao, place: StorePlace, pooled: StorePlace) -> None:
    with (
        working(ao, pooled.url, AO_STORE_DIRECT=place.url),
        working(ao, pooled.url, AO_STORE_DIRECT=place.url),
        psycopg.connect(place.url, autocommit=True) as watcher,
    ):
        wait_until(lambda: watcher.execute(DIRECT).fetchone() == (2,), SECONDS)
        assert echo(ao, pooled.url) == "hi\n"
        for run in [submit(ao, pooled.url) for _ in range(6)]:
            cancel(ao, pooled.url, run)


def test_a_worker_without_a_direct_address_says_once_that_it_polls_and_what_to_set(ao: Ao, pooled: StorePlace) -> None:
    def told() -> list[str]:
        events = [json.loads(line)["event"] for line in (ao.folder / "log").read_text().splitlines()]
        return [event for event in events if "notifications" in event]

    with working(ao, pooled.url):
        wait_until(lambda: len(told()) > 0, SECONDS)
        assert echo(ao, pooled.url) == "hi\n"

    (sentence,) = told()
    assert "AO_STORE is probably the address of a pooler" in sentence
    assert "every 1 s" in sentence
    assert "867 ms" in sentence
    assert "Set AO_STORE_DIRECT" in sentence


def test_a_check_of_the_store_reports_missing_notifications(
    place: StorePlace, pooled: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(place):
        assert look(place).polling is None
    (told,) = [one for one in judge_server("x", look(pooled)) if one.verdict == "note"]
    assert "Set AO_STORE_DIRECT" in told.text
    monkeypatch.setenv("AO_STORE_DIRECT", place.url)
    assert look(pooled).polling is None


def test_a_direct_address_that_does_not_answer_or_is_of_another_database_is_reported(
    postgres: PostgresServer, pooled: StorePlace
) -> None:
    of_another = asyncio.run(missing_notifications(pooled.url, postgres.new_database()))
    assert of_another is not None
    assert of_another.startswith("AO_STORE_DIRECT is probably the address of a pooler, or of another database")
    nowhere = asyncio.run(missing_notifications(pooled.url, NOWHERE))
    assert nowhere is not None
    assert nowhere.startswith("listening failed: connection")


def test_a_dead_worker_is_swept_and_late_writes_are_refused_through_a_pooler(pooled: StorePlace) -> None:
    with opened(pooled) as store, opened(pooled) as other:
        begin(store, "dead", "run_1", "run_2")
        store.events.add_of_attempt("run_1", 1, 1, [b'{"seq":1}'])
        expire(store, "dead")

        assert fail_lost_runs(other) == ["run_1", "run_2"]
        assert seqs_of(store, "run_1") == [1, 2]
        (refused,) = store.commit_together([lambda: store.events.add_of_attempt("run_1", 1, 3, [b'{"seq":3}'])])
        assert "is not held by this worker" in str(refused)


def test_a_pooler_that_lost_its_server_is_a_server_that_does_not_answer(pooled: StorePlace, place: StorePlace) -> None:
    with opened(pooled, patience_seconds=SECONDS) as store, psycopg.connect(place.url, autocommit=True) as operator:
        begin(store, "worker", "run_1")
        operator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

        assert [state.run.run_id for state in store.runs.states("running")] == ["run_1"]
        assert ids(claim(store, "worker")) == []

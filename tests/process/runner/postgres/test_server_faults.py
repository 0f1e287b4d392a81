"""A server that is killed, restarted, full, read-only or out of connections: nothing is lost and nothing is doubled."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

from ao_runner.coordinators.port import CoordinatorUnavailable
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.run_events import RunKey
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.opening import StorePlace
from tests.postgres_server import PostgresServer, require_server
from tests.process.executors.driver import wait_until
from tests.process.runner.cli.calling import Ao
from tests.process.runner.coordinators.lines import batch, result, said
from tests.process.runner.postgres.acting import (
    SECONDS,
    cancel,
    coordinating,
    echo,
    enqueue,
    opened,
    persist,
    seqs_of,
    started,
    submit,
    working,
)

RUNS, BATCHES, KILLS = 20, 30, 3


@pytest.fixture
def place(server: PostgresServer, tmp_path: Path) -> StorePlace:
    return StorePlace(tmp_path, server.new_database())


class Killing:
    """A worker that performs runs at once while its server is killed again and again."""

    def __init__(self, place: StorePlace, server: PostgresServer) -> None:
        self._place = place
        self._server = server
        self._acknowledged = 0
        self._reached = [asyncio.Event() for _ in range(KILLS)]

    async def perform_all(self) -> None:
        async with coordinating(self._place, "worker") as coordinator, asyncio.TaskGroup() as group:
            for assignment in await coordinator.claim(RUNS):
                group.create_task(self._perform(coordinator, assignment.key))
            group.create_task(self._kill())

    async def _perform(self, coordinator: StoreCoordinator, key: RunKey) -> None:
        run = key.run_id
        await persist(lambda: coordinator.started(key))
        for seq in range(1, 2 * BATCHES, 2):
            events = batch(seq, said(seq, "x", run=run), said(seq + 1, "y", run=run), run=run)
            assert await persist(partial(coordinator.events, events)) == seq + 1
            self._acknowledged += 1
            for reached in self._reached[: self._acknowledged * (KILLS + 1) // (RUNS * BATCHES)]:
                reached.set()
        await persist(lambda: coordinator.terminal(key, 2 * BATCHES + 1, result(2 * BATCHES + 1, run=run)))

    async def _kill(self) -> None:
        for reached in self._reached:
            await reached.wait()
            await asyncio.to_thread(self._server.stop, signal.SIGKILL)
            await asyncio.to_thread(self._server.start)


def test_a_server_that_is_killed_in_batches_loses_and_doubles_nothing(
    server: PostgresServer, place: StorePlace
) -> None:
    with opened(place) as store:
        for number in range(RUNS):
            enqueue(store, f"run_{number}")

    asyncio.run(Killing(place, server).perform_all())

    with opened(place) as store:
        assert {state.run.status for state in store.runs.states()} == {"completed"}
        for number in range(RUNS):
            assert seqs_of(store, f"run_{number}") == list(range(1, 2 * BATCHES + 2))


def test_a_run_goes_on_while_the_server_is_restarted(ao: Ao, server: PostgresServer, place: StorePlace) -> None:
    with working(ao, place.url):
        run = submit(ao, place.url)
        server.stop()
        server.start()
        cancel(ao, place.url, run)

    with opened(place) as store:
        assert seqs_of(store, run) == [1, 2]
        assert [state.attempt for state in store.runs.find(run)] == [1]


def logged(ao: Ao, words: str) -> bool:
    return words in (ao.folder / "log").read_text()


def test_a_worker_that_starts_before_its_server_waits_for_it(ao: Ao, server: PostgresServer, place: StorePlace) -> None:
    server.stop()
    with working(ao, place.url):
        wait_until(lambda: logged(ao, "coordinator is not available; trying again"), SECONDS)
        server.start()
        assert echo(ao, place.url) == "hi\n"


def test_a_server_without_a_free_connection_is_waited_for_by_workers_and_named_to_people(
    ao: Ao, place: StorePlace
) -> None:
    with working(ao, place.url), ExitStack() as others:
        with suppress(psycopg.OperationalError):
            while True:
                others.enter_context(psycopg.connect(place.url))
        refused = ao("runs", AO_STORE=place.url)
        others.close()
        assert echo(ao, place.url) == "hi\n"

    assert refused.exit_code == 1
    assert "too many clients" in refused.stderr


def set_read_only(place: StorePlace, value: str) -> None:
    """Let new transactions of all connections read only, as those of a standby do."""
    with psycopg.connect(place.url, autocommit=True) as operator:
        operator.execute("SET default_transaction_read_only = off")
        operator.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
        operator.execute("SELECT pg_reload_conf()")
    with psycopg.connect(place.url, autocommit=True) as watcher:
        query = "SELECT current_setting('default_transaction_read_only')"
        wait_until(lambda: watcher.execute(query).fetchone() == (value,), SECONDS)


def test_a_server_that_only_reads_is_read_at_once_and_written_when_it_can_be(ao: Ao, place: StorePlace) -> None:
    async def perform() -> None:
        async with coordinating(place, "worker") as coordinator:
            key = (await started(coordinator)).key
            await coordinator.events(batch(1, said(1, "a")))
            set_read_only(place, "on")
            with pytest.raises(CoordinatorUnavailable, match="read-only"):
                await coordinator.events(batch(2, said(2, "b")))
            with pytest.raises(CoordinatorUnavailable, match="read-only"):
                await coordinator.heartbeat([key])
            with opened(place, patience_seconds=1e9) as reader:
                assert fail_lost_runs(reader) == []
                assert seqs_of(reader, "run_1") == [1]
            refused = await asyncio.to_thread(
                lambda: ao("submit", "agent.yaml", "-p", "x", "--profile", "echo", AO_STORE=place.url)
            )
            assert (refused.exit_code, "read-only transaction" in refused.stderr) == (1, True)
            set_read_only(place, "off")
            await persist(lambda: coordinator.events(batch(2, said(2, "b"))))
            await persist(lambda: coordinator.terminal(key, 3, result(3)))

    with opened(place) as store:
        enqueue(store, "run_1")
        asyncio.run(perform())
        assert seqs_of(store, "run_1") == [1, 2, 3]


@pytest.fixture
def small_disk() -> Iterator[StorePlace]:
    """A database whose tables are on a disk of a few megabytes, which only the server sees."""
    require_server()
    user = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    ids = (f"--map-user={user.pw_uid}", f"--map-group={user.pw_gid}")
    unshare = ("unshare", "--user", *ids, "--keep-caps", "--mount", "sh", "-c")
    with tempfile.TemporaryDirectory(prefix="ao-small-") as disk:
        shutil.chown(disk, user.pw_uid, user.pw_gid)
        mount = f"mount -t tmpfs -o size=24m,mode=0700 none {disk}"
        tried = subprocess.run(
            [*unshare, mount], user=user.pw_uid, check=False, cwd="/", capture_output=True, text=True
        )
        if tried.returncode:
            pytest.skip(f"the user of the server cannot mount a small disk here: {tried.stderr.strip()}")
        with PostgresServer(starter=(*unshare, f'{mount} && exec "$0" "$@"')) as small:
            with psycopg.connect(small.url("postgres"), autocommit=True) as operator:
                operator.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
                operator.execute("CREATE DATABASE small TABLESPACE small")
            yield StorePlace(Path(disk), small.url("small"))


def test_a_full_disk_of_the_server_delays_events_and_loses_none(small_disk: StorePlace) -> None:
    async def perform() -> None:
        async with coordinating(small_disk, "worker") as coordinator:
            key = (await started(coordinator)).key
            with psycopg.connect(small_disk.url, autocommit=True) as operator:
                operator.execute("CREATE TABLE filler AS SELECT 'x' AS x")
                with suppress(psycopg.errors.DiskFull):
                    while True:
                        operator.execute("INSERT INTO filler SELECT repeat('x', 900) FROM generate_series(1, 1000)")
                large = said(1, os.urandom(500_000).hex())
                with pytest.raises(CoordinatorUnavailable, match="No space left on device"):
                    await coordinator.events(batch(1, large))
                operator.execute("DROP TABLE filler")
            await persist(lambda: coordinator.events(batch(1, large)))
            await persist(lambda: coordinator.terminal(key, 2, result(2)))

    with opened(small_disk) as store:
        enqueue(store, "run_1")
        asyncio.run(perform())
        assert seqs_of(store, "run_1") == [1, 2]


def test_an_error_of_the_database_delays_events_and_ends_no_run(place: StorePlace) -> None:
    async def perform() -> None:
        async with coordinating(place, "worker") as coordinator:
            assert await coordinator.claim(1)
            with opened(place) as store:
                store.write("ALTER TABLE events RENAME TO elsewhere")
                with pytest.raises(CoordinatorUnavailable, match='relation "events" does not exist'):
                    await coordinator.events(batch(1, said(1, "a")))
                store.write("ALTER TABLE elsewhere RENAME TO events")
            assert await coordinator.events(batch(1, said(1, "a"))) == 1

    with opened(place) as store:
        enqueue(store, "run_1")
    asyncio.run(perform())

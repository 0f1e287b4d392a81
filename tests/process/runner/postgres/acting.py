"""What the tests of the PostgreSQL store do: queue runs, be or start a worker, and wait for another connection."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from ao_runner.coordinators.port import Assignment, Coordinator, CoordinatorUnavailable
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.store.opening import StorePlace
from ao_runner.store.postgres_store import PostgresStore
from ao_runner.store.records import Run, Session
from ao_runner.store.store import Store
from ao_runner.store.store_errors import RowDamaged
from ao_runner.store.worker_table import ClaimedRun, Offer
from tests.process.executors.driver import wait_until
from tests.process.fork_server import start_ao
from tests.process.runner.cli.calling import Ao, miniature

NOW = "2026-01-01T00:00:00.000Z"
SECONDS = 60.0


@contextmanager
def opened(place: StorePlace, patience_seconds: float = 0.25) -> Iterator[PostgresStore]:
    """Open the store as another process would."""
    with place.open(patience_seconds) as store:
        assert isinstance(store, PostgresStore)
        yield store


def enqueue(store: Store, run_id: str, session_id: str | None = None) -> None:
    """Queue a run, of a session of its own or of one that may exist."""
    session_id = session_id or f"ses_of_{run_id}"
    if not store.fetch("SELECT 1 FROM sessions WHERE session_id = ?", (session_id,)):
        store.sessions.add(Session(session_id, NOW, "echo", "echo", "/project", {"name": "greeter"}))
    store.queue.add(replace(Run(run_id, session_id, "start", {"prompt": "hi"}, NOW), profile="echo"))


def claim(
    store: Store,
    owner: str,
    slots: int = 100,
    lease_seconds: float = 60,
    on_damaged: Callable[[RowDamaged, Any], None] = lambda _, __: None,
) -> list[ClaimedRun]:
    """Claim runs of any profile."""
    with store.transaction():
        return store.queue.claim(Offer(owner, lease_seconds=lease_seconds), slots, on_damaged)


def begin(store: Store, owner: str, *run_ids: str, lease_seconds: float = 60) -> None:
    """Let an owner perform runs of sessions of their own."""
    for run_id in run_ids:
        enqueue(store, run_id)
    with store.transaction():
        for claimed in claim(store, owner, len(run_ids), lease_seconds):
            store.queue.begin(claimed.run.run_id, claimed.attempt, NOW)


def add_history(store: Store, runs: int) -> None:
    """Add runs that have ended, one of each session."""
    store.write(
        "INSERT INTO sessions (session_id, created_at, executor_name, executor_path, project_dir, blueprint,"
        " executor_config, is_simulated, agent_name)"
        " SELECT 'old_' || n, '', 'echo', 'echo', '/', '{}', '{}', 0, 'greeter' FROM generate_series(1, ?) AS n",
        (runs,),
    )
    store.write(
        "INSERT INTO runs (run_id, session_id, mode, parameters, started_at, status, owner, queued_at, profile,"
        " metadata) SELECT 'old_' || n, 'old_' || n, 'start', repeat('x', 300), '', 'completed', 'old', '', 'echo',"
        " '{}' FROM generate_series(1, ?) AS n",
        (runs,),
    )


def ids(claimed: list[ClaimedRun]) -> list[str]:
    return [one.run.run_id for one in claimed]


def counted(store: Store, table: str, *counters: str) -> list[int]:
    """Return statistics of this connection about a table, up to now in this transaction."""
    statement = f"SELECT {', '.join(counters)} FROM pg_stat_xact_user_tables WHERE relname = ?"  # noqa: S608  # own
    return list(store.fetch(statement, (table,))[0])


def expire(store: Store, owner: str) -> None:
    """Let the lease of an owner end."""
    store.write("UPDATE workers SET lease_until = clock_timestamp() - interval '1 s' WHERE worker_id = ?", (owner,))


def lines_of(store: Store, run_id: str) -> list[str]:
    (state,) = store.runs.find(run_id)
    return [event.line for event in store.events.of_session(state.run.session_id, run_id=run_id)]


def seqs_of(store: Store, run_id: str) -> list[int]:
    return [json.loads(line)["seq"] for line in lines_of(store, run_id)]


def await_blocked(url: str, number: int = 1) -> None:
    """Wait until so many connections to a database wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with psycopg.connect(url, autocommit=True) as watcher:
        wait_until(lambda: watcher.execute(query).fetchone() == (number,), SECONDS)


@asynccontextmanager
async def coordinating(place: StorePlace, owner: str, told: list[str] | None = None) -> AsyncIterator[StoreCoordinator]:
    """Be a worker's end of the coordinator."""
    said = [] if told is None else told
    async with StoreCoordinator(place, Offer(owner), said.append) as coordinator:
        yield coordinator


async def started(coordinator: Coordinator) -> Assignment:
    """Claim a run and begin it."""
    while not (runs := await coordinator.claim(1)):
        pass
    await coordinator.started(runs[0].key)
    return runs[0]


async def persist(call: Callable[[], Any]) -> Any:
    """Call the coordinator until it is available."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                return await call()
            except CoordinatorUnavailable:
                await asyncio.sleep(0.05)


@contextmanager
def working(ao: Ao, store: str, *options: str, **variables: str) -> Iterator[None]:
    """Keep a worker working until the end of the block. Its log is the file `log` of the host."""
    environment = ao.environment() | {"AO_STORE": store} | variables
    argv = ["worker", "--log-format", "json", *options]
    with (ao.folder / "log").open("a") as log:
        worker = start_ao(argv, cwd=ao.folder, env=environment, stderr=log)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(SECONDS)


def submit(ao: Ao, store: str) -> str:
    """Submit a run that works until it is cancelled, and wait until a worker has begun it."""
    profile = miniature("leaves_when_asked")
    run = ao("submit", "agent.yaml", "-p", "x", "--profile", profile, AO_STORE=store).stdout.strip()
    wait_until(lambda: "run_started" in ao("events", run, AO_STORE=store).stdout, SECONDS)
    return run


def cancel(ao: Ao, store: str, run: str) -> None:
    """Cancel a run and wait until it has ended."""
    ao("cancel", run, AO_STORE=store)
    wait_until(lambda: ao("result", run, AO_STORE=store).exit_code == 130, SECONDS)


def echo(ao: Ao, store: str) -> str:
    """Submit a run that says hi, and return what it has said."""
    return ao("submit", "agent.yaml", "-p", "hi", "--profile", "echo", "--wait", AO_STORE=store).stdout


def ao_at(folder: Path) -> Ao:
    """Return the command line of a host."""
    folder.mkdir(exist_ok=True)
    ao = Ao(folder)
    ao.write("agent.yaml", "name: agent\n")
    return ao

"""Claims and durable events a second with SQLite and with PostgreSQL, and how they grow with the number of workers.

usage: python -m tests.benchmarks.many_hosts [--claims N] [--slots K] [--events M] [--batch B]

Prints JSON. N claimed runs and M stored events are shared by 1, 2, 4 and 8 processes; each has the coordinator of a
worker, claims for K free slots at a time, and stores batches of B events of 200 bytes for ten runs side by side. Both
stores sync each commit to the same disk. The processes and the server share the cores of one machine, so the growth is
that of a server whose workers take its processor; on machines of their own they would take none of it.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Final, TypeVar

from ao_runner.coordinators.port import Backoff, CoordinatorUnavailable, EventBatch
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.run_events import RunKey
from ao_runner.runs.run_request import new_run_id, new_session_id
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Offer, QueuedRun, Run, Session, timestamp
from tests.postgres_server import PostgresServer

PROCESSES: Final = (1, 2, 4, 8)
RUNS: Final = 10
"""Runs for which a process stores events side by side."""
SPARE_RUNS: Final = 200
"""Queued runs that nobody claims, so that the last claims find some that no other process has locked."""

Returned = TypeVar("Returned")
Seconds = tuple[float, float, float, float]
"""When the claims of a process began and ended, and when its events did."""


async def persist(call: Callable[[], Awaitable[Returned]]) -> Returned:
    """Call a coordinator, again if it is not available: as a worker does."""
    backoff = Backoff()
    while True:
        try:
            return await call()
        except CoordinatorUnavailable as error:
            await asyncio.sleep(backoff.next_seconds(error.retry_after_seconds))


async def store_events(coordinator: StoreCoordinator, key: RunKey, batches: int, lines: list[bytes]) -> None:
    for number in range(batches):
        batch = EventBatch(key, 1 + number * len(lines), lines)
        await persist(lambda batch=batch: coordinator.events(batch))  # type: ignore[misc]


async def perform(place: StorePlace, owner: str, share: argparse.Namespace, barrier: Barrier) -> Seconds:
    """Claim and store a share of the work, each when all processes are ready."""
    lines = [b'{"event_type":"message","text":"%s"}' % (b"x" * 162)] * share.batch
    keys: list[RunKey] = []
    async with StoreCoordinator(place, Offer(owner)) as coordinator:
        await asyncio.to_thread(barrier.wait)
        claims_began = time.monotonic()
        while len(keys) < share.claims:
            slots = min(share.slots, share.claims - len(keys))
            keys += [assignment.key for assignment in await persist(lambda slots=slots: coordinator.claim(slots))]  # type: ignore[misc]
        claims_ended = time.monotonic()
        await asyncio.to_thread(barrier.wait)
        events_began = time.monotonic()
        batches = share.events // (RUNS * share.batch)
        await asyncio.gather(*[store_events(coordinator, key, batches, lines) for key in keys[:RUNS]])
        return claims_began, claims_ended, events_began, time.monotonic()


def work(place: StorePlace, share: argparse.Namespace, barrier: Barrier, results: "Queue[Seconds]") -> None:
    with own_runs(place.home) as owner:
        results.put(asyncio.run(perform(place, owner, share, barrier)))


def measure(place: StorePlace, processes: int, given: argparse.Namespace) -> tuple[float, float]:
    """Return the claims and the events a second of some processes with an empty store."""
    with place.open() as store, store.transaction():
        for _ in range(given.claims + SPARE_RUNS):
            session = Session(new_session_id(), timestamp(), "x", "x", "/", {"name": "agent"})
            store.add_session(session)
            run = Run(new_run_id(), session.session_id, "start", {"prompt": "hi"}, timestamp(), "queued")
            store.enqueue(QueuedRun(run, "x"))
    share = argparse.Namespace(
        claims=given.claims // processes, events=given.events // processes, slots=given.slots, batch=given.batch
    )
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes), context.Queue()
    workers = [context.Process(target=work, args=(place, share, barrier, results)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=100) for _ in workers]
    for worker in workers:
        worker.join()
    claims_began, claims_ended, events_began, events_ended = zip(*found, strict=True)
    claims, events = share.claims * processes, share.events // (RUNS * share.batch) * RUNS * share.batch * processes
    return claims / (max(claims_ended) - min(claims_began)), events / (max(events_ended) - min(events_began))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--claims", type=int, default=2000)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--events", type=int, default=160_000)
    parser.add_argument("--batch", type=int, default=100)
    given = parser.parse_args()
    figures: dict[str, dict[str, dict[int, int]]] = {"claims_per_second": {}, "events_per_second": {}}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(PostgresServer(fsync="on"))
        for engine in ("sqlite", "postgres"):
            for processes in PROCESSES:
                home = folder / f"{engine}-{processes}"
                place = StorePlace(home) if engine == "sqlite" else StorePlace(home, server.new_database())
                claims, events = measure(place, processes, given)
                figures["claims_per_second"].setdefault(engine, {})[processes] = round(claims)
                figures["events_per_second"].setdefault(engine, {})[processes] = round(events)
    about = {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **{name: getattr(given, name) for name in ("claims", "slots", "events", "batch")},
    }
    print(json.dumps(about | figures, indent=2))


if __name__ == "__main__":
    main()

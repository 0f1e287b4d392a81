"""Claims and durable events a second with SQLite and with PostgreSQL, and how they grow with the number of workers.

usage: python -m tests.benchmarks.many_hosts [--seconds S] [--slots K] [--batch B]

Prints JSON. 1, 2, 4 and 8 processes, each with the coordinator of a worker, claim from a queue of 5,000 runs for S
seconds, for K free slots at a time, and then store batches of B events of 200 bytes for S seconds, for ten runs side
by side. Both stores sync each commit to the same disk, and take turns; `disk_syncs_per_second` is its speed after each
turn. The processes and the server share the cores of one machine; workers on machines of their own would leave the
server more of it.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Final, TypeVar

from ao_runner.coordinators.port import Backoff, CoordinatorUnavailable, EventBatch
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.run_events import RunKey
from ao_runner.runs.submission import new_run_id, new_session_id
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.worker_table import Offer
from tests.postgres_server import PostgresServer

PROCESSES: Final = (1, 2, 4, 8)
RUNS: Final = 10
"""Runs for which a process stores events side by side."""
QUEUED_RUNS: Final = 5000
SPARE_RUNS: Final = 200
"""Queued runs that nobody claims, so that the last claims find some that no other process has locked."""

Returned = TypeVar("Returned")
Done = tuple[int, float, float]
"""How much was done, and when it began and ended."""


async def persist(call: Callable[[], Awaitable[Returned]]) -> Returned:
    """Call a coordinator, again if it is not available: as a worker does."""
    backoff = Backoff()
    while True:
        try:
            return await call()
        except CoordinatorUnavailable as error:
            await asyncio.sleep(backoff.next_seconds(error.retry_after_seconds))


async def store_events(coordinator: StoreCoordinator, key: RunKey, lines: list[bytes], until: float) -> int:
    """Store batches of a run until a time, and return the number of events."""
    stored = 0
    while time.monotonic() < until:
        batch = EventBatch(key, stored + 1, lines)
        stored = await persist(lambda batch=batch: coordinator.events(batch))  # type: ignore[misc]
    return stored


async def perform(place: StorePlace, owner: str, share: argparse.Namespace, barrier: Barrier) -> tuple[Done, Done]:
    """Claim, and then store events, each when all processes are ready."""
    lines = [b'{"event_type":"message","text":"%s"}' % (b"x" * 162)] * share.batch
    keys: list[RunKey] = []
    async with StoreCoordinator(place, Offer(owner)) as coordinator:
        await asyncio.to_thread(barrier.wait)
        began = time.monotonic()
        while time.monotonic() < began + share.seconds and len(keys) < share.most_claims:
            keys += [assignment.key for assignment in await persist(lambda: coordinator.claim(share.slots))]
        claims = (len(keys), began, time.monotonic())
        await asyncio.to_thread(barrier.wait)
        began = time.monotonic()
        storing = [store_events(coordinator, key, lines, began + share.seconds) for key in keys[:RUNS]]
        return claims, (sum(await asyncio.gather(*storing)), began, time.monotonic())


def work(place: StorePlace, share: argparse.Namespace, barrier: Barrier, results: "Queue[tuple[Done, Done]]") -> None:
    with own_runs(place.home) as owner:
        results.put(asyncio.run(perform(place, owner, share, barrier)))


def measure(place: StorePlace, processes: int, given: argparse.Namespace) -> tuple[int, int]:
    """Return the claims and the events a second of some processes with an empty store."""
    with place.open() as store, store.transaction():
        for _ in range(QUEUED_RUNS):
            session = Session(new_session_id(), timestamp(), "x", "x", "/", {"name": "agent"})
            store.sessions.add(session)
            run = Run(new_run_id(), session.session_id, "start", {"prompt": "hi"}, timestamp(), "queued")
            store.queue.add(replace(run, profile="x"))
    share = argparse.Namespace(**vars(given), most_claims=(QUEUED_RUNS - SPARE_RUNS) // processes)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes), context.Queue()
    workers = [context.Process(target=work, args=(place, share, barrier, results)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    found = [results.get(timeout=100) for _ in workers]
    for worker in workers:
        worker.join()
    claims, events = zip(*found, strict=True)
    return per_second(claims), per_second(events)


def per_second(shares: Sequence[Done]) -> int:
    seconds = max(ended for _, _, ended in shares) - min(began for _, began, _ in shares)
    return round(sum(done for done, _, _ in shares) / seconds)


def disk_syncs(folder: Path) -> int:
    """Return how often a second 8 KiB can be appended to a file and synced."""
    count, began = 100, time.monotonic()
    with (folder / "synced").open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(bytes(8192))
            os.fdatasync(file.fileno())
    return round(count / (time.monotonic() - began))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--batch", type=int, default=100)
    given = parser.parse_args()
    names = ("claims_per_second", "events_per_second", "disk_syncs_per_second")
    figures: dict[str, dict[str, dict[int, int]]] = {name: {"sqlite": {}, "postgres": {}} for name in names}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(PostgresServer(fsync="on"))
        for processes in PROCESSES:
            for engine in ("sqlite", "postgres"):
                home = folder / f"{engine}-{processes}"
                place = StorePlace(home) if engine == "sqlite" else StorePlace(home, server.new_database())
                found = (*measure(place, processes, given), disk_syncs(folder))
                for name, figure in zip(names, found, strict=True):
                    figures[name][engine][processes] = figure
    about = {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **{name: getattr(given, name) for name in ("seconds", "slots", "batch")},
    }
    print(json.dumps(about | figures, indent=2))


if __name__ == "__main__":
    main()

"""How tests have a worker work: in this process, on a real store, with real executors, until one run has ended."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ao_protocol.events import Terminal
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import Coordinator
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.outbox.outbox import Outbox
from ao_runner.runs.attempt import ColdLauncher
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.worker_table import Offer
from ao_runner.worker.assignment import Host
from ao_runner.worker.held_runs import HeldRun
from ao_runner.worker.log import open_log
from ao_runner.worker.observers import Observer
from ao_runner.worker.worker import Worker

MINIATURES = Path(__file__).parents[3] / "miniatures"
SECONDS = 100.0


class _StopAfterOne(Observer):
    worker: Worker

    def run_ended(self, held: HeldRun, terminal: Terminal) -> None:
        self.worker.stop()


def submit(
    home: Path, miniature: str, metadata: JsonObject | None = None, labels: Mapping[str, str] | None = None
) -> None:
    """Put a run of a miniature into the queue."""
    executor = str(MINIATURES / f"{miniature}.py")
    session = Session("ses_1", timestamp(), executor, executor, str(home), {"name": "agent"}, profile=executor)
    with SqliteStore(home) as store:
        store.sessions.add(session)
        run = Run("run_1", "ses_1", "start", {"prompt": "hello"}, timestamp(), "queued")
        store.queue.add(replace(run, profile=executor, metadata=metadata or {}, labels=labels or {}))


def work_off_one(
    home: Path,
    observers: Sequence[Observer],
    watch: Callable[[Coordinator], Coordinator] = lambda coordinator: coordinator,
    look: Callable[[Worker], None] = lambda _: None,
) -> None:
    """Have a worker perform one run and leave; `look` is called when it has left, before its outbox is closed."""

    async def work() -> None:
        with ExitStack() as stack:
            owner = stack.enter_context(own_runs(home))
            stop = _StopAfterOne()
            worker = stop.worker = Worker(
                coordinator=watch(StoreCoordinator(StorePlace(home), Offer(owner))),
                outbox=stack.enter_context(Outbox(home / "outbox")),
                folder=home,
                launcher=ColdLauncher(),
                host=Host(home, os.environ),
                log=open_log("json", colours=False),
                observers=[*observers, stop],
            )
            async with asyncio.timeout(SECONDS):
                await worker.work()
            look(worker)

    asyncio.run(work())

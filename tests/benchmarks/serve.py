"""What one `ao serve` carries: clients and workers over HTTP, and readers of event streams.

usage: python -m tests.benchmarks.serve [--seconds S] [--clients C] [--readers N] [--postgres]

Prints JSON. C clients (100) add a run each second for S seconds (60), and 20 workers of the leased API take them, store
ten events of each and end it. `dispatch_ms` is the time from the request of a client to the run at its worker. Then N
readers (1,000) follow 50 sessions, whose workers store an event every second: `delivery_ms` is the time from storing to
reading, and `reader_kib` the growth of the server's memory for each reader. Clients, workers, readers and the server
share the cores of one machine; executors are not part of it.
"""

import argparse
import asyncio
import json
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx

from ao_runner.coordinators.http.leased import LeasedCoordinator
from ao_runner.coordinators.port import Assignment, EventBatch
from ao_runner.store.worker_table import Offer
from tests.postgres_server import PostgresServer

WORKERS: Final = 20
EVENTS: Final = 10
SESSIONS: Final = 50
SLOTS: Final = 10
AGENT: Final = {"name": "bench", "description": "Does nothing"}


@dataclass
class Measured:
    """When each run was asked for and taken, and how often it was taken and ended."""

    asked: dict[str, float] = field(default_factory=dict)
    taken: dict[str, list[float]] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)


def lines_of(assignment: Assignment, first_seq: int, bodies: Sequence[dict[str, Any]]) -> list[bytes]:
    """Return events of a run as lines."""
    ids = {"session_id": assignment.session.session_id, "run_id": assignment.key.run_id}
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return [
        json.dumps({"schema_version": "3.0", **ids, "seq": seq, "timestamp": now, **body}).encode()
        for seq, body in enumerate(bodies, first_seq)
    ]


STARTED: Final = {
    "event_type": "run_started", "executor": {"name": "bench", "version": "1"}, "executor_session_id": None
}  # fmt: skip
RESULT: Final = {"event_type": "result", "result_text": "done", "result_data": None, "stop_reason": "end_turn"}


def message(text: str) -> dict[str, Any]:
    """Return a message of the agent."""
    blocks = [{"type": "text", "text": text}]
    return {"event_type": "message", "message_id": text[-20:], "role": "assistant", "content": blocks}


async def perform(coordinator: LeasedCoordinator, assignment: Assignment, measured: Measured) -> None:
    """Do what a worker does for a run, without an executor."""
    key = assignment.key
    await coordinator.started(key)
    bodies = [STARTED, *(message("x" * 200) for _ in range(EVENTS - 1))]
    await coordinator.events(EventBatch(key, 1, lines_of(assignment, 1, bodies)))
    await coordinator.terminal(key, EVENTS + 1, lines_of(assignment, EVENTS + 1, [RESULT])[0])
    measured.ended[key.run_id] = measured.ended.get(key.run_id, 0) + 1


async def work(url: str, number: int, measured: Measured, stop: asyncio.Event) -> None:
    """Take runs and end them until told to stop."""
    offer = Offer(f"remote-{number}", host=f"host-{number}")
    async with LeasedCoordinator(url, offer) as coordinator, asyncio.TaskGroup() as runs:
        stopping = runs.create_task(stop.wait())
        while not stop.is_set():
            claiming = asyncio.create_task(coordinator.claim(SLOTS))
            await asyncio.wait({claiming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not claiming.done():
                claiming.cancel()
                await asyncio.gather(claiming, return_exceptions=True)
                break
            for assignment in await claiming:
                measured.taken.setdefault(assignment.key.run_id, []).append(time.monotonic())
                runs.create_task(perform(coordinator, assignment, measured))


async def ask(client: httpx.AsyncClient, delay: float, until: float, measured: Measured) -> None:
    """Add a run each second, after a delay and until a time."""
    await asyncio.sleep(delay)
    while time.monotonic() < until:
        began = time.monotonic()
        body = {"type": "start_session", "agent_name": "bench", "parameters": {"prompt": "x"}}
        answer = (await client.post("/runs", json=body)).raise_for_status().json()
        measured.asked[answer["run_id"]] = began
        await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))


async def dispatch(url: str, seconds: float, clients: int) -> dict[str, Any]:
    """Measure the way of runs from clients to workers."""
    measured, stop = Measured(), asyncio.Event()
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits, trust_env=False) as client:
        workers = [asyncio.create_task(work(url, number, measured, stop)) for number in range(WORKERS)]
        until = time.monotonic() + seconds
        await asyncio.gather(*(ask(client, number / clients, until, measured) for number in range(clients)))
        async with asyncio.timeout(60):
            while len(measured.ended) < len(measured.asked):  # noqa: ASYNC110  # the last ones end within a second
                await asyncio.sleep(0.05)
        stop.set()
        await asyncio.gather(*workers)
    waits = sorted((measured.taken[run_id][0] - began) * 1000 for run_id, began in measured.asked.items())
    return {
        "runs": len(measured.asked),
        "lost": sum(run_id not in measured.ended for run_id in measured.asked),
        "doubled": sum(len(times) > 1 for times in measured.taken.values())
        + sum(count > 1 for count in measured.ended.values()),
        "runs_per_second": round(len(measured.asked) / seconds, 1),
        "dispatch_ms": quantiles(waits),
    }


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the maximum."""
    cut = statistics.quantiles(values, n=20)
    return {"p50": round(statistics.median(values), 1), "p95": round(cut[18], 1), "max": round(max(values), 1)}


async def follow(client: httpx.AsyncClient, run_id: str, delays: list[float], counts: list[int]) -> None:
    """Read the stream of a run to its end, and note how late each event came."""
    seen = 0
    async with client.stream("GET", f"/runs/{run_id}/stream") as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                seen += 1
                event = json.loads(line[6:])
                if event["event_type"] == "message":
                    sent = float(event["content"][0]["text"])
                    delays.append((time.monotonic() - sent) * 1000)
    counts.append(seen)


async def streams(url: str, pid: int, readers: int, seconds: float) -> dict[str, Any]:
    """Measure what readers cost, and how late they are."""
    delays: list[float] = []
    counts: list[int] = []
    limits = httpx.Limits(max_connections=readers + 10)
    async with (
        httpx.AsyncClient(base_url=url, timeout=120, limits=limits, trust_env=False) as client,
        LeasedCoordinator(url, Offer("remote-streams", host="host-s")) as coordinator,
    ):
        body = {"type": "start_session", "agent_name": "bench", "parameters": {"prompt": "x"}}
        added = (await client.post("/runs/batch", json={"runs": [body] * SESSIONS})).raise_for_status().json()["runs"]
        held: list[Assignment] = []
        while len(held) < SESSIONS:
            held += await coordinator.claim(SESSIONS - len(held))
        for assignment in held:
            await coordinator.started(assignment.key)
            await coordinator.events(EventBatch(assignment.key, 1, lines_of(assignment, 1, [STARTED])))
        before = memory_kib(pid)
        tasks = [
            asyncio.create_task(follow(client, added[number % SESSIONS]["run_id"], delays, counts))
            for number in range(readers)
        ]
        await asyncio.sleep(10)
        connected = memory_kib(pid)
        rounds = int(seconds)
        for seq in range(2, rounds + 2):
            began = time.monotonic()
            for assignment in held:
                line = lines_of(assignment, seq, [message(str(time.monotonic()))])
                await coordinator.events(EventBatch(assignment.key, seq, line))
            await coordinator.heartbeat([assignment.key for assignment in held])
            await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))
        after = memory_kib(pid)
        for assignment in held:
            await coordinator.terminal(assignment.key, rounds + 2, lines_of(assignment, rounds + 2, [RESULT])[0])
        await asyncio.gather(*tasks)
    return {
        "readers": readers,
        "events_per_second": round(len(delays) / seconds),
        "delivery_ms": quantiles(delays),
        "readers_with_all_events_once": sum(count == rounds + 2 for count in counts),
        "server_mib": round(after / 1024, 1),
        "reader_kib": round((connected - before) / readers, 1),
    }


def memory_kib(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--readers", type=int, default=1000)
    parser.add_argument("--postgres", action="store_true")
    given = parser.parse_args()
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(PostgresServer(fsync="on")).new_database() if given.postgres else "local"
        server = subprocess.Popen(
            [sys.executable, "-m", "ao_runner", "serve", "--no-worker", "--port=0", "--home", home, "--store", store],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        stack.callback(server.wait)
        stack.callback(server.send_signal, signal.SIGTERM)
        assert server.stderr is not None
        url = server.stderr.readline().rpartition(" ")[2].strip()
        httpx.post(f"{url}/agents", json=AGENT, trust_env=False).raise_for_status()
        found: dict[str, Any] = {"machine": platform.machine(), "date": datetime.now(UTC).date().isoformat()}
        found["store"] = "PostgreSQL" if given.postgres else "SQLite"
        found["dispatch"] = asyncio.run(dispatch(url, given.seconds, given.clients))
        found["streams"] = asyncio.run(streams(url, server.pid, given.readers, min(30.0, given.seconds)))
        print(json.dumps(found, indent=2))  # its purpose


if __name__ == "__main__":
    main()

"""How many events a second reach the stand-in: `python -m tests.foreign_coordinator.relaying [SESSIONS]`."""

import asyncio
import json
import subprocess
import sys
import time

from ao_runner.coordinators.http.http_coordinator import HttpCoordinator
from ao_runner.coordinators.http.registration import RunnerIdentity
from ao_runner.coordinators.port import EventBatch
from ao_runner.run_events import RunKey
from tests.foreign_coordinator.server import ForeignCoordinator

EVENTS = 2000


async def serve() -> None:
    async with ForeignCoordinator() as server:
        for index in range(64):
            server.state.enqueue(f"run_{index}", f"ses_{index}")
        server.state.pending.clear()
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def batch_of(index: int, count: int) -> EventBatch:
    text = [{"type": "text", "text": "x" * 100}]
    event = {"event_type": "message", "session_id": f"ses_{index}", "run_id": f"run_{index}", "role": "assistant"}
    rest = {"timestamp": "2026-01-10T12:00:00Z", "message_id": "msg_1", "content": text}
    lines = [json.dumps(event | rest | {"seq": seq}).encode() for seq in range(1, count + 1)]
    return EventBatch(RunKey(f"run_{index}", 1), 1, lines)


async def relay(url: str, sessions: int) -> None:
    identity = RunnerIdentity("host", "/project", "profile", "autonomous", "ao-echo-exec")
    async with HttpCoordinator(url, identity, tell=print) as coordinator:
        batches = [batch_of(index, EVENTS // sessions) for index in range(sessions)]
        began_at, busy_at = time.perf_counter(), time.process_time()
        await asyncio.gather(*map(coordinator.events, batches))
        seconds, busy = time.perf_counter() - began_at, time.process_time() - busy_at
    sent = sum(len(batch.lines) for batch in batches)
    sys.stdout.write(f"{sessions} sessions: {sent / seconds:.0f} events/s, {busy / sent * 1e6:.0f} us of CPU each\n")


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
        return
    command = [sys.executable, "-m", "tests.foreign_coordinator.relaying", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        for sessions in map(int, sys.argv[1:] or ["1", "8"]):
            asyncio.run(relay(url, sessions))
        server.communicate()


if __name__ == "__main__":
    main()

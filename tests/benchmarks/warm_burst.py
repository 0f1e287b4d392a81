"""A burst of echo runs at an HTTP coordinator, with and without `warm`: `python -m tests.benchmarks.warm_burst`.

Prints JSON: by variant the seconds from the arrival of all runs to the last end, round by round in turn, and the
ratio of the medians of warm to plain. `--beside FOLDER` measures another checkout in the same rounds. The coordinator
is the stand-in of the tests. Files should be compiled before: `python -m compileall -q runner executors protocol`.
"""

import argparse
import asyncio
import json
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.benchmarks.http_worker import ENDED, HERE, start_worker
from tests.foreign_coordinator.server import ForeignCoordinator

PROFILES: Final = {"plain": "executor: echo\n", "warm": "executor: echo\nwarm: {size: 4}\n"}
SETTLE_SECONDS: Final = 5.0
"""Until parked processes have imported their modules."""


async def burst(source: Path, variant: str, runs: int, slots: int) -> float:
    """Return how long a fresh worker takes for runs that arrive at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        profile = folder / f"{variant}.yaml"
        profile.write_text(PROFILES[variant])
        async with ForeignCoordinator() as server:
            worker = await start_worker(server.url, folder, profile, slots, source)
            while not server.count("GET /runner/runs"):  # noqa: ASYNC110  # of another process
                await asyncio.sleep(0.05)
            await asyncio.sleep(SETTLE_SECONDS)
            began_at = time.perf_counter()
            for number in range(runs):
                server.state.enqueue(f"run_{number}", f"ses_{number}")
            states = server.state.runs
            while any(run["status"] not in ENDED for run in states.values()):  # noqa: ASYNC110  # of another process
                await asyncio.sleep(0.01)
            seconds = time.perf_counter() - began_at
            worker.send_signal(signal.SIGTERM)
            await worker.wait()
            if bad := [run["run_id"] for run in states.values() if run["status"] != "completed"]:
                sys.exit(f"not completed: {bad}")
            return seconds


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=Path)
    asked = parser.parse_args()
    sources = {"now": HERE} | ({"beside": asked.beside.resolve()} if asked.beside else {})
    seconds: dict[str, list[float]] = {}
    for _ in range(asked.rounds):
        for source, folder in sources.items():
            for variant in PROFILES:
                taken = await burst(folder, variant, asked.runs, asked.slots)
                seconds.setdefault(f"{source} {variant}", []).append(round(taken, 2))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = {name: round(medians[f"{name} warm"] / medians[f"{name} plain"], 2) for name in sources}
    told = {"runs": asked.runs, "slots": asked.slots, "seconds": seconds, "warm_to_plain": ratios}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    asyncio.run(main())

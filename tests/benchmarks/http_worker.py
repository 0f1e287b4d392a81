"""Whether an HTTP coordinator gets exactly one result of each run: `python -m tests.benchmarks.http_worker MEASURE`.

`stops` ends a busy worker with SIGTERM and starts the next one of the same identity at once, while runs keep arriving;
`runs` performs runs that arrive together. Both print JSON: how many runs completed, how many did not, and those with
no result, several results or several starts; they exit with 1 if a run has not exactly one result. `stubborn` has the
coordinator stop runs whose executor ignores `cancel`, the end of stdin and SIGTERM; it prints the seconds until the
coordinator hears of the end, and how many processes live then, by whether the executor declares `cancel`. The
coordinator is the stand-in of the tests, with the times of the real server. Files should be compiled before:
`python -m compileall -q runner executors protocol`. The logs of the workers go to stderr.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections import Counter
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.working import SHELL
from tests.foreign_coordinator.server import ForeignCoordinator
from tests.foreign_coordinator.state import State

PROCESSES: Final = Path("/proc")
HERE: Final = Path(__file__).parents[2]
ENDED: Final = {"completed", "failed", "stopped"}
RESULT: Final = """say result 2 '"result_text":"hi","result_data":null,"stop_reason":"end_turn"'"""
SLOW: Final = f"{SHELL}sleep 0.$(($$ % 7 + 2))\n{RESULT}\n"
STUBBORN: Final = f"{SHELL}trap '' TERM INT HUP\necho $$ > pid\nwhile :; do sleep 1; done\n"
RUNS_A_SECOND: Final = 5.0
STUCK_SECONDS: Final = 60.0
"""A run is lost if no run ends for so long."""


async def start_worker(
    url: str, home: Path, profile: Path, slots: int, source: Path = HERE, log: int | None = asyncio.subprocess.DEVNULL
) -> Process:
    """Start `ao worker` of a checkout, with `home` as its home folder and project folder."""
    packages = os.pathsep.join(str(source / part) for part in ("executors", "protocol", "runner"))
    environment = {**os.environ, "PYTHONPATH": packages, "AO_HOME": str(home)}
    options = ("--coordinator", url, "--profile", str(profile), "--concurrency", str(slots))
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ao_runner", "worker", *options, cwd=home, env=environment, stderr=log
    )


async def until_ended(state: State) -> None:
    """Wait until all runs have ended, or none ends any more."""
    left, since = -1, time.monotonic()
    while (now := sum(run["status"] not in ENDED for run in state.runs.values())) and (
        now != left or time.monotonic() - since < STUCK_SECONDS
    ):
        if now != left:
            left, since = now, time.monotonic()
        await asyncio.sleep(0.05)


def account(state: State) -> dict[str, Any]:
    """Return what the coordinator heard of all runs."""
    said = {run_id: Counter(what for one in run.get("said", []) for what in one) for run_id, run in state.runs.items()}
    results = {
        run["run_id"]: sum(row["event_type"] == "result" for row in state.events.get(run["session_id"], []))
        for run in state.runs.values()
    }
    return {
        "runs": len(state.runs),
        **Counter(run["status"] for run in state.runs.values()),
        "without_result": [run_id for run_id, count in results.items() if not count],
        "several_results": [run_id for run_id, count in results.items() if count > 1],
        "several_starts": [run_id for run_id, counts in said.items() if counts["started"] > 1],
        "several_ends": [run_id for run_id, counts in said.items() if sum(counts[end] for end in ENDED) > 1],
        "errors": sorted({run["error"] for run in state.runs.values() if run["error"]}),
    }


def profile_of(home: Path, script: str) -> Path:
    """Write a script as an executor, and return its profile."""
    (home / "executor").write_text(script)
    (home / "executor").chmod(0o755)
    profile = home / "profile.yaml"
    profile.write_text(f"executor: {home / 'executor'}\n")
    return profile


async def measure_stops(stops: int, slots: int) -> dict[str, Any]:
    """Stop a busy worker again and again; the next one starts while the old one still performs its runs."""
    chance = random.Random(41)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        profile = profile_of(home, SLOW)
        state = State(poll_seconds=30, heartbeat_seconds=60, tick_seconds=0.5)  # the times of the real server
        async with ForeignCoordinator(state) as server, asyncio.TaskGroup() as group:

            async def arrive() -> None:
                for number in range(sys.maxsize):
                    state.enqueue(f"run_{number}", f"ses_{number}")
                    await asyncio.sleep(1 / RUNS_A_SECOND)

            arriving = group.create_task(arrive())
            worker = await start_worker(server.url, home, profile, slots, log=None)
            seconds, held, codes, backlogs = [], [], [], 0
            for _ in range(stops):
                begun = server.count("/started$") + chance.randint(1, 10 * slots)
                while server.count("/started$") < begun:  # noqa: ASYNC110  # of another process
                    await asyncio.sleep(0.01)
                await asyncio.sleep(chance.random() / 3)
                held.append(sum(run["status"] in {"claimed", "running"} for run in state.runs.values()))
                backlogs += bool(state.pending)
                worker.send_signal(signal.SIGTERM)
                stopped_at, old = time.monotonic(), worker
                worker = await start_worker(server.url, home, profile, slots, log=None)
                codes.append(await old.wait())
                seconds.append(time.monotonic() - stopped_at)
            arriving.cancel()
            await until_ended(state)
            worker.send_signal(signal.SIGTERM)
            codes.append(await worker.wait())
        return {
            "stops": stops,
            "of_these_with_a_backlog": backlogs,
            "runs_held_at_a_stop": [min(held), statistics.median(held), max(held)],
            "seconds_to_the_exit": [round(one, 2) for one in (min(seconds), statistics.median(seconds), max(seconds))],
            "exit_codes": Counter(codes),
            **account(state),
        }


async def measure_runs(runs: int, workers: int, slots: int) -> dict[str, Any]:
    """Have workers perform runs of `echo` that arrive together."""
    with tempfile.TemporaryDirectory() as name:
        homes = [Path(name) / str(number) for number in range(workers)]
        profile = Path(name) / "echo.yaml"
        profile.write_text("executor: echo\n")
        state = State(poll_seconds=30, heartbeat_seconds=60, tick_seconds=0.5)  # the times of the real server
        async with ForeignCoordinator(state) as server:
            processes = []
            for home in homes:
                home.mkdir()
                processes.append(await start_worker(server.url, home, profile, slots, log=None))
            while server.count("GET /runner/runs") < workers:  # noqa: ASYNC110  # of another process
                await asyncio.sleep(0.05)
            began_at = time.perf_counter()
            for number in range(runs):
                state.enqueue(f"run_{number}", f"ses_{number}")
            await until_ended(state)
            seconds = time.perf_counter() - began_at
            for process in processes:
                process.send_signal(signal.SIGTERM)
            codes = Counter([await process.wait() for process in processes])
        by_worker = list(Counter(run["runner_id"] for run in state.runs.values()).values())
        told = {"workers": workers, "runs_by_worker": by_worker, "exit_codes": codes, "seconds": round(seconds, 1)}
        return {**told, "runs_a_second": round(runs / seconds, 1), **account(state)}


async def measure_stubborn(script: str, stops: int = 5) -> dict[str, Any]:
    """Stop runs at the coordinator, one after the other, whose executor has to be killed."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        pid, profile = home / "pid", profile_of(home, script)
        state = State(poll_seconds=30, heartbeat_seconds=60, tick_seconds=0.5)  # the times of the real server
        seconds, living = [], 0
        async with ForeignCoordinator(state) as server:
            worker = await start_worker(server.url, home, profile, 4, log=None)
            for number in range(stops):
                state.enqueue(f"run_{number}", f"ses_{number}")
                while not pid.exists() or not pid.read_text():  # noqa: ASYNC110  # of another process
                    await asyncio.sleep(0.01)
                stopped_at = time.monotonic()
                state.stop(f"run_{number}")
                while state.runs[f"run_{number}"]["status"] not in ENDED:  # noqa: ASYNC110  # by another process
                    await asyncio.sleep(0.01)
                seconds.append(round(time.monotonic() - stopped_at, 2))
                living += (PROCESSES / pid.read_text().strip()).exists()
                pid.unlink()
            worker.send_signal(signal.SIGTERM)
            await worker.wait()
        statuses = Counter(run["status"] for run in state.runs.values())
        return {"seconds_to_the_end": sorted(seconds), "living_processes": living, **statuses}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measure", choices=["stops", "runs", "stubborn"])
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--slots", type=int)
    asked = parser.parse_args()
    if asked.measure == "stubborn":
        scripts = {"with_cancel": STUBBORN, "without_cancel": STUBBORN.replace('"cancel":true', '"cancel":false')}
        print(json.dumps({name: await measure_stubborn(script) for name, script in scripts.items()}))
        return
    if asked.measure == "stops":
        told = await measure_stops(asked.stops, asked.slots or 4)
    else:
        told = await measure_runs(asked.runs, asked.workers, asked.slots or 16)
    print(json.dumps({**told, "load_average": round(os.getloadavg()[0], 1)}))
    sys.exit(told.get("completed") != told["runs"] or bool(told["without_result"] or told["several_results"]))


if __name__ == "__main__":
    asyncio.run(main())

"""What a worker needs for a run that does nothing: memory, threads and processor time, with a thousand of them.

usage: python -m tests.benchmarks.idle_runs [--runs N]

Prints JSON. The executor is a shell script that says `run_started` and waits for a line on stdin, so that a thousand of
them fit into a small machine. Memory is what the worker shares with nobody (`Private_*` of `smaps_rollup`), before and
with the runs; lifelines are processes of their own and counted apart.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.working import SHELL, Bench, working

IDLE = (
    SHELL
    + r"""read -r control
error='"type":"cancelled","message":"asked to stop","retryable":false,"side_effects":"none","origin":"caller"'
say failure 2 "\"status\":\"cancelled\",\"error\":{$error}"
exit 130
"""
)
WATCHED_SECONDS = 10.0


def await_running(bench: Bench, runs: int) -> float:
    began = time.monotonic()
    query = "SELECT count(*) FROM runs WHERE status = 'running' AND has_begun"
    started = "SELECT count(*) FROM events"
    while time.monotonic() < began + 300:
        (running,) = bench.store.connection.execute(query).fetchone()
        (events,) = bench.store.connection.execute(started).fetchone()
        if running >= runs and events >= runs:
            return time.monotonic() - began
        time.sleep(0.05)
    raise TimeoutError(f"{running} of {runs} runs run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        executor = Path(folder) / "idle"
        executor.write_text(IDLE)
        executor.chmod(0o700)
        profiles = {"idle": f"executor: {executor}\n"}
        with working(Path(folder) / "home", "--concurrency", str(runs), profiles=profiles) as bench:
            bench.submit("idle", 5)
            await_running(bench, 5)
            before = bench.resident_bytes()
            bench.submit("idle", runs - 5)
            seconds = await_running(bench, runs)
            time.sleep(2)
            after, cpu = bench.resident_bytes(), bench.cpu_seconds()
            time.sleep(WATCHED_SECONDS)
            used = bench.cpu_seconds() - cpu
            threads = bench.threads()
            bench.process.terminate()
            time.sleep(0.5)
            bench.process.terminate()
            exit_code = bench.process.wait(120)
    print(
        json.dumps(
            {
                "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
                "python": platform.python_version(),
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "runs": runs,
                "seconds_until_all_run": round(seconds, 1),
                "worker_bytes_per_run": (after - before) // (runs - 5),
                "worker_mebibytes": round(after / 2**20, 1),
                "threads": threads,
                "idle_cpu_percent": round(100 * used / WATCHED_SECONDS, 2),
                "exit_code_after_cancelling_all": exit_code,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()

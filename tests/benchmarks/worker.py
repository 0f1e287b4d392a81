"""What a worker adds to a run, how soon a submitted run is over, and how a hundred at once fare.

usage: python tests/benchmarks/worker.py [--rounds N]

Prints JSON. `overhead` is a run of `ao-echo-exec` in a real worker, one at a time from the queue to the stored result,
against the same process under a bare Popen; both are medians of runs taken in turn. `submit_to_completed` is the time
from the insertion into the queue until the store says `completed`, for a new process and for a parked one.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.working import Bench, working

ECHO = str(Path(sys.executable).with_name("ao-echo-exec"))
PROFILES = {
    "cold": f"executor: {ECHO}\n",
    "warm": f"executor: {ECHO}\nwarm: {{size: 1}}\n",
}
INVOCATION = (
    b'{"schema_version":"3.0","mode":"start","run_id":"run_1","session_id":"ses_1","parameters":{"prompt":"hi"},'
    b'"agent_blueprint":{"name":"agent"},"control":{"stdin":"open"}}\n'
)
SETTLE_SECONDS = 0.6
"""How long a parked process has to do its imports before the next run."""


def bare_run() -> float:
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    began = time.perf_counter()
    with subprocess.Popen([ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INVOCATION)
        process.stdin.flush()
        for line in process.stdout:
            if b'"event_type":"result"' in line:
                process.stdin.close()
        process.wait()
    return time.perf_counter() - began


def submitted_run(bench: Bench, profile: str) -> float:
    began = time.perf_counter()
    ended = bench.await_end(bench.submit(profile))
    took = time.perf_counter() - began
    assert set(ended.values()) == {"completed"}, ended
    return took


def is_echo(entry: Path) -> bool:
    try:
        return ECHO.encode() in (entry / "cmdline").read_bytes()
    except OSError:
        return False


def median_ms(times: list[float]) -> float:
    return round(statistics.median(times) * 1000, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        with working(Path(folder) / "one", "--concurrency", "1", profiles=PROFILES) as bench:
            for _ in range(2):
                bare_run()
                submitted_run(bench, "cold")
            bare, cold, warm = [], [], []
            for _ in range(rounds):
                bare.append(bare_run())
                cold.append(submitted_run(bench, "cold"))
            in_row = bench.submit("cold", rounds)
            began = time.perf_counter()
            bench.await_end(in_row)
            queued = (time.perf_counter() - began) / rounds
            for _ in range(rounds):
                time.sleep(SETTLE_SECONDS)
                began = time.perf_counter()
                run_ids = bench.submit("warm")
                bench.await_end(run_ids)
                warm.append(time.perf_counter() - began)
        with working(Path(folder) / "many", "--concurrency", "100", profiles=PROFILES) as bench:
            submitted_run(bench, "cold")
            began = time.perf_counter()
            ended = bench.await_end(bench.submit("cold", 100))
            burst = time.perf_counter() - began
        left = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and is_echo(entry)]
    print(
        json.dumps(
            {
                "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
                "python": platform.python_version(),
                "at": datetime.now(UTC).isoformat(timespec="seconds"),
                "bare_popen_ms": median_ms(bare),
                "one_at_a_time_from_a_full_queue_ms": round(queued * 1000, 1),
                "overhead_ratio": round(queued / statistics.median(bare), 2),
                "submit_to_completed_cold_ms": median_ms(cold),
                "submit_to_completed_warm_ms": median_ms(warm),
                "hundred_at_once_seconds": round(burst, 2),
                "hundred_at_once_completed": sum(status == "completed" for status in ended.values()),
                "processes_left": len(left),
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()

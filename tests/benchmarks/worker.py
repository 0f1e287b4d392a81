"""What a worker adds to a run, how soon a submitted run is over, and how a hundred at once fare.

usage: python -m tests.benchmarks.worker [--rounds N]

Prints JSON. `overhead` is a run of `ao-echo-exec` in a real worker, one at a time from the queue to the stored result,
against the same process under a bare Popen; both are medians of runs taken in turn. `submit_to_completed` is the time
from the insertion into the queue until the store says `completed`, for a new process and for a parked one. `hundred`
is the time of a hundred runs at once: of the executor under a bare Popen, in a worker, and in a worker with as many
parked processes.
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
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.working import SHELL, Bench, working

ECHO = str(Path(sys.executable).with_name("ao-echo-exec"))
PROFILES = {
    "cold": f"executor: {ECHO}\n",
    "warm": f"executor: {ECHO}\nwarm: {{size: 1}}\n",
}
HUNDRED_PARKED = {"hundred": f"executor: {ECHO}\nwarm: {{size: 100}}\n"}
INVOCATION = (
    b'{"schema_version":"3.0","mode":"start","run_id":"run_1","session_id":"ses_1","parameters":{"prompt":"hi"},'
    b'"agent_blueprint":{"name":"agent"},"control":{"stdin":"open"}}\n'
)
SHELL_ECHO = (
    SHELL
    + r"""say result 2 '"result_text":"hi","result_data":null,"stop_reason":"end_turn"'
"""
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


def a_hundred_bare() -> float:
    with ThreadPoolExecutor(100) as pool:
        began = time.perf_counter()
        list(pool.map(lambda _: bare_run(), range(100)))
        return round(time.perf_counter() - began, 2)


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


def one_at_a_time(bench: Bench, rounds: int) -> dict[str, float]:
    for _ in range(2):
        bare_run()
        submitted_run(bench, "cold")
    bare, cold, warm = [], [], []
    for _ in range(rounds):
        bare.append(bare_run())
        cold.append(submitted_run(bench, "cold"))
    began = time.perf_counter()
    bench.await_end(bench.submit("cold", rounds))
    queued = (time.perf_counter() - began) / rounds
    for _ in range(rounds):
        time.sleep(SETTLE_SECONDS)
        warm.append(submitted_run(bench, "warm"))
    return {
        "bare_popen_ms": median_ms(bare),
        "one_at_a_time_from_a_full_queue_ms": round(queued * 1000, 1),
        "overhead_ratio": round(queued / statistics.median(bare), 2),
        "submit_to_completed_cold_ms": median_ms(cold),
        "submit_to_completed_warm_ms": median_ms(warm),
        "submit_to_completed_of_a_shell_script_ms": median_ms([submitted_run(bench, "shell") for _ in range(rounds)]),
    }


def a_hundred_at_once(bench: Bench, profile: str) -> float:
    began = time.perf_counter()
    ended = bench.await_end(bench.submit(profile, 100))
    took = time.perf_counter() - began
    assert set(ended.values()) == {"completed"}, ended
    return round(took, 2)


def a_hundred_parked(bench: Bench) -> float:
    """Wait until all are parked and have done their imports: none of them uses the processor any more."""
    submitted_run(bench, "hundred")
    used, until = -1.0, time.monotonic() + 60
    while time.monotonic() < until and used != (used := cpu_seconds_of_all_echoes()):
        time.sleep(SETTLE_SECONDS)
    return a_hundred_at_once(bench, "hundred")


def cpu_seconds_of_all_echoes() -> float:
    seconds = 0.0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_echo(entry):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    figures: dict[str, object] = {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with tempfile.TemporaryDirectory() as folder:
        shell = Path(folder) / "shell-echo"
        shell.write_text(SHELL_ECHO)
        shell.chmod(0o700)
        profiles = {**PROFILES, "shell": f"executor: {shell}\n"}
        with working(Path(folder) / "one", "--concurrency", "1", profiles=profiles) as bench:
            figures |= one_at_a_time(bench, rounds)
        with working(Path(folder) / "many", "--concurrency", "100", profiles=profiles) as bench:
            figures["hundred_bare_seconds"] = a_hundred_bare()
            submitted_run(bench, "cold")
            figures["hundred_at_once_seconds"] = a_hundred_at_once(bench, "cold")
            figures["hundred_shell_scripts_at_once_seconds"] = a_hundred_at_once(bench, "shell")
        with working(Path(folder) / "parked", "--concurrency", "100", profiles=HUNDRED_PARKED) as bench:
            figures["hundred_parked_at_once_seconds"] = a_hundred_parked(bench)
        left = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and is_echo(entry)]
        figures["processes_left"] = len(left)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

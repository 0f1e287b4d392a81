"""How soon an executor says its first word, and `ao` its help, against what Python itself and the imports cost.

usage: python tests/benchmarks/start_up.py [--rounds N]

Prints JSON: milliseconds (median) of each command, and the ratios that matter. The commands are run in turn, round
by round, so that a change in the machine's speed meets all of them.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

INVOCATION = b'{"schema_version":"3.0","mode":"start","parameters":{"prompt":"Hi"},"control":{"stdin":"closed"}}\n'


def installed(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def milliseconds_of(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=bare_environment())
    return (time.perf_counter() - began) * 1000


def milliseconds_to_event(executor: str, event_type: bytes) -> float:
    began = time.perf_counter()
    with subprocess.Popen(
        [installed(executor)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=bare_environment()
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(INVOCATION)
        process.stdin.flush()
        for line in process.stdout:
            if b'"event_type":"' + event_type in line:
                took = (time.perf_counter() - began) * 1000
                process.stdin.close()
                process.stdout.read()
                return took
    raise RuntimeError(f"{executor} ended without {event_type.decode()}")


def bare_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


MEASURED: dict[str, Callable[[], float]] = {
    "python -c pass": lambda: milliseconds_of([sys.executable, "-c", "pass"]),
    "python -c 'import pydantic'": lambda: milliseconds_of([sys.executable, "-c", "import pydantic"]),
    "python -c 'from pydantic import BaseModel'": lambda: milliseconds_of(
        [sys.executable, "-c", "from pydantic import BaseModel"]
    ),
    "echo: first event": lambda: milliseconds_to_event("ao-echo-exec", b"run_started"),
    "echo: result": lambda: milliseconds_to_event("ao-echo-exec", b"result"),
    "claude-code: first event": lambda: milliseconds_to_event("ao-claude-code-exec", b"run_started"),
    "claude-code: describe": lambda: milliseconds_of([installed("ao-claude-code-exec"), "describe"]),
    "ao --help": lambda: milliseconds_of([installed("ao"), "--help"]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[float]] = {name: [] for name in MEASURED}
    for _ in range(rounds):
        for name, measure in MEASURED.items():
            taken[name].append(measure())
    medians = {name: statistics.median(times) for name, times in taken.items()}
    pydantic = medians["python -c 'import pydantic'"]
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.platform(terse=True)}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "rounds": rounds,
        "median_milliseconds": {name: round(median, 1) for name, median in medians.items()},
        "ratios": {
            "echo: first event / import pydantic (aim 1.5)": round(medians["echo: first event"] / pydantic, 2),
            "claude-code: first event / import pydantic (aim 1.5)": round(
                medians["claude-code: first event"] / pydantic, 2
            ),
            "echo: first event / python -c pass": round(medians["echo: first event"] / medians["python -c pass"], 2),
            "echo: result / import pydantic": round(medians["echo: result"] / pydantic, 2),
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

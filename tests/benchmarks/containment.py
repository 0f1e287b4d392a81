"""What it costs to hold a run's processes together: from the start of a program to its end, by each means, and memory.

usage: python tests/benchmarks/containment.py [--rounds N]

Prints JSON. Times are medians of milliseconds, all means played in turn, so that only the ratios to a bare `Popen`
mean much on a busy machine. "asked" is what the runner itself spends before it goes on. Memory is what a watcher has
for itself while a program runs that does nothing.
"""

import argparse
import contextlib
import json
import os
import platform
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from ao_lifeline import tied
from ao_lifeline.lifelines import Lifelines
from ao_runner.processes.containment import lifelines, probe
from ao_runner.processes.spawn import Child

ENVIRONMENT = {"PATH": os.environ["PATH"]}
PROGRAMS = {"true": ["/bin/true"], "a small Python": [sys.executable, "-I", "-S", "-c", "pass"]}
WATCHED = 10

Times = tuple[float, float]
Play = Callable[[list[str]], Times]


def bare(argv: list[str]) -> Times:
    began = time.perf_counter()
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=ENVIRONMENT, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        asked = time.perf_counter()
        process.wait()
        ended = time.perf_counter()
    return asked - began, ended - began


def with_lifeline_of_its_own(argv: list[str]) -> Times:
    return bare(tied(argv))


def with_keeper(held: Lifelines | None) -> Play:
    def play(argv: list[str]) -> Times:
        began = time.perf_counter()
        with Child(argv, ENVIRONMENT, lifeline=held) as child:
            asked = time.perf_counter()
            select.select([child.exit_fd], [], [])
            ended = time.perf_counter()
        return asked - began, ended - began

    return play


def medians(rows: list[Times], reference: list[Times]) -> dict[str, float]:
    asked, whole = (statistics.median(column) * 1000 for column in zip(*rows, strict=True))
    return {
        "asked": round(asked, 2),
        "whole": round(whole, 2),
        "whole, times bare": round(whole / (statistics.median(row[1] for row in reference) * 1000), 2),
    }


def measure(plays: dict[str, Play], argv: list[str], rounds: int) -> dict[str, dict[str, float]]:
    rows: dict[str, list[Times]] = {name: [] for name in plays}
    for number in range(rounds + 2):
        for name, play in plays.items():
            times = play(argv)
            if number >= 2:
                rows[name].append(times)
    return {name: medians(of_one, rows["bare"]) for name, of_one in rows.items()}


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def private_kilobytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def memory() -> dict[str, int]:
    """Return the private memory of each kind of watcher, and of the keeper."""
    report, echo = {}, ["/bin/sh", "-c", "echo; exec sleep 1000"]
    for name, kind in (("a lifeline program each", "process_group"), ("a lifeline of the keeper", "lifeline")):
        others = set(children_of(os.getpid()))
        with lifelines(probe({"AO_CONTAINMENT": kind})) as held, contextlib.ExitStack() as stack:
            for _ in range(WATCHED):
                argv = echo if held else tied(echo)
                child = stack.enter_context(Child(argv, ENVIRONMENT, lifeline=held))
                select.select([child.stdout_fd], [], [])
            watchers = [pid for pid in children_of(os.getpid()) if pid not in others]
            if held:
                report["the keeper"] = private_kilobytes(watchers[0])
                watchers = children_of(watchers[0])
            report[name] = int(statistics.median(map(private_kilobytes, watchers)))
    return report


def first_run_milliseconds() -> float:
    """Return how long the first run takes when the keeper has to be started for it."""
    began = time.perf_counter()
    with Lifelines() as held:
        with_keeper(held)(PROGRAMS["true"])
    return round((time.perf_counter() - began) * 1000, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    rounds = parser.parse_args().rounds
    best = probe({})
    with Lifelines() as held, lifelines(best) as divided:
        plays = {
            "bare": bare,
            "process group": with_keeper(None),
            "a lifeline program each": with_lifeline_of_its_own,
            "keeper": with_keeper(held),
        }
        if best.kind == "cgroup":
            plays["keeper and a cgroup each"] = with_keeper(divided)
        milliseconds = {name: measure(plays, argv, rounds) for name, argv in PROGRAMS.items()}
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} cores",
        "milliseconds": milliseconds,
        "first run with a new keeper, milliseconds": statistics.median(first_run_milliseconds() for _ in range(10)),
        "private kilobytes": memory(),
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

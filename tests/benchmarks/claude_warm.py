"""A run of `ao-claude-code-exec` with an instant model: cold, parked, prepared, and as a turn, against `claude -p`.

usage: python tests/benchmarks/claude_warm.py [--rounds N]

Prints JSON: milliseconds (median) from the dispatch of a run to its `run_started`, to the first request that the model
gets, and to its result; what a process that waits costs in memory and CPU; and the ratio to `claude -p --json-schema`.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ao_executors.claude_code.claude_process import CLAUDE
from ao_model_simulator import ModelSimulator, Script, claude_environment

SCHEMA = {"type": "object", "required": ["severity"], "properties": {"severity": {"enum": ["low", "high"]}}}
ANSWER = {"severity": "low"}
BY_TOOL = {"content": [{"type": "tool_use", "name": "StructuredOutput", "input": ANSWER}]}
STAYING = {"control": {"stdin": "open", "turns": True}}
EXECUTOR = str(Path(sys.executable).with_name("ao-claude-code-exec"))
SETTLE_SECONDS = 2.5
"""Long enough for the imports of a parked process and the boot of a prepared CLI."""
WATCHED_SECONDS = 2.0

Moments = dict[str, float]


class Bench:
    """An executor with its model, and the moments of one run at a time."""

    def __init__(self, model: ModelSimulator, home: Path) -> None:
        self.model, self.home = model, home
        self.process = subprocess.Popen(
            [EXECUTOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(model.url, home)
        )

    def write(self, document: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(document).encode() + b"\n")
        self.process.stdin.flush()

    def run(self, document: dict[str, Any], began: float | None = None) -> Moments:
        """Write a line that begins a run, and return the milliseconds from then, or from `began`, to each moment."""
        began = time.perf_counter() if began is None else began
        moments: Moments = {}
        count = len(self.model.requests) + 1

        def note_request() -> None:
            self.model.wait_for_requests(count, timeout_seconds=30)
            moments["first model request"] = (time.perf_counter() - began) * 1000

        watcher = threading.Thread(target=note_request)
        watcher.start()
        self.write(document)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            moments.setdefault(event["event_type"], (time.perf_counter() - began) * 1000)
            if event["event_type"] in {"result", "failure"}:
                assert event.get("result_data") == ANSWER, event
                break
        watcher.join()
        return {name: moments[name] for name in ("run_started", "first model request", "result")}

    def costs(self) -> Moments:
        """Return what the process and all below it need while they wait."""
        pids = list(tree(self.process.pid))
        before = sum(cpu_seconds(pid) for pid in pids)
        time.sleep(WATCHED_SECONDS)
        used = sum(cpu_seconds(pid) for pid in pids) - before
        return {"megabytes": sum(map(pss_megabytes, pids)), "cpu_percent": 100 * used / WATCHED_SECONDS}


@contextmanager
def bench(home: Path, answers: int = 1) -> Iterator[Bench]:
    """Start an executor; it leaves when the block is left."""
    with ModelSimulator(Script.from_answers([{"json": ANSWER}] * answers)) as model:
        started = Bench(model, home)
        with started.process as process:
            yield started
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)
        model.require_satisfied()


def cold(home: Path) -> Moments:
    began = time.perf_counter()
    with bench(home) as started:
        return started.run(invocation(home), began)


def parked(home: Path) -> Moments:
    with bench(home) as started:
        time.sleep(SETTLE_SECONDS)
        return started.run(invocation(home))


def prepared(home: Path) -> Moments:
    with bench(home) as started:
        prepare(started)
        return started.run(invocation(home))


def prepared_to_stay(home: Path) -> Moments:
    with bench(home) as started:
        prepare(started, STAYING)
        return started.run(invocation(home) | STAYING)


def prepare(started: Bench, control: dict[str, Any] | None = None) -> None:
    known = {name: value for name, value in invocation(started.home).items() if name != "parameters"} | (control or {})
    started.write({"type": "prepare", "invocation": known})
    time.sleep(SETTLE_SECONDS)


def turn(home: Path) -> Moments:
    with bench(home, answers=2) as started:
        started.run(invocation(home) | STAYING)
        return started.run({"type": "turn", "run_id": "run_2", "parameters": {"prompt": "Again."}})


def costs_of_waiting(home: Path) -> dict[str, Moments]:
    """Return what parked, prepared and persistent processes need while they wait."""
    with bench(home, answers=0) as started:
        time.sleep(SETTLE_SECONDS)
        parked_costs = started.costs()
    with bench(home, answers=0) as started:
        prepare(started)
        prepared_costs = started.costs()
    with bench(home) as started:
        started.run(invocation(home) | STAYING)
        time.sleep(SETTLE_SECONDS)
        between_costs = started.costs()
    return {"parked": parked_costs, "prepared": prepared_costs, "between turns": between_costs}


def claude_alone(home: Path) -> Moments:
    """Ask the same with the CLI alone."""
    with ModelSimulator(Script.from_answers([BY_TOOL, {"text": "Done."}])) as model:
        command = [str(CLAUDE.find()), "-p", "Judge.", "--system-prompt", "You judge.", "--setting-sources", ""]
        began = time.perf_counter()
        finished = subprocess.run(
            [*command, "--json-schema", json.dumps(SCHEMA), "--output-format", "json"],
            env=environment(model.url, home),
            cwd=home,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        took = (time.perf_counter() - began) * 1000
        assert json.loads(finished.stdout)["structured_output"] == ANSWER, finished.stdout
    return {"result": took}


def invocation(home: Path) -> dict[str, Any]:
    return {
        "schema_version": "3.0",
        "mode": "start",
        "parameters": {"prompt": "Judge."},
        "project_dir": str(home),
        "agent_blueprint": {"name": "judge", "system_prompt": "You judge.", "output_schema": SCHEMA},
    }


def environment(url: str, home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **claude_environment(url, home)}


def tree(pid: int) -> Iterator[int]:
    yield pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        yield from tree(int(child))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pss_megabytes(pid: int) -> float:
    (line,) = [line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:")]
    return int(line.split()[1]) / 1024


MEASURED: dict[str, Callable[[Path], Moments]] = {
    "cold": cold,
    "parked": parked,
    "prepared": prepared,
    "prepared, asked to stay": prepared_to_stay,
    "next turn": turn,
    "claude -p --json-schema": claude_alone,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[Moments]] = {name: [] for name in MEASURED}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "tmp").mkdir()
        for _ in range(rounds + 1):  # the first round warms the caches and is left out
            for name, measure in MEASURED.items():
                taken[name].append(measure(home))
        waiting = costs_of_waiting(home)
    medians = {
        name: {moment: statistics.median(run[moment] for run in runs[1:]) for moment in runs[0]}
        for name, runs in taken.items()
    }
    alone = medians["claude -p --json-schema"]["result"]
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.platform(terse=True)}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "rounds": rounds,
        "milliseconds from dispatch": rounded(medians),
        "result / claude -p (aim for a warm run: 0.33)": {
            name: round(moments["result"] / alone, 2) for name, moments in medians.items()
        },
        "while it waits": rounded(waiting),
    }
    print(json.dumps(report, indent=2))


def rounded(figures: dict[str, Moments]) -> dict[str, Moments]:
    return {name: {what: round(number, 1) for what, number in row.items()} for name, row in figures.items()}


if __name__ == "__main__":
    main()

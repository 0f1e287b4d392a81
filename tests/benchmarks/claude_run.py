"""A whole run of `ao-claude-code-exec` with an instant model, against `claude -p --json-schema` of the same wheel.

usage: python tests/benchmarks/claude_run.py [--rounds N]

Prints JSON: seconds (median) of both, their ratio, and where the executor's time goes, by its own events.
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

from ao_executors.claude_code.claude_process import CLAUDE
from ao_model_simulator import ModelSimulator, Script, claude_environment

SCHEMA = {
    "type": "object",
    "required": ["severity"],
    "properties": {"severity": {"enum": ["low", "high"]}},
}
ANSWER = {"severity": "low"}
BY_TOOL = {"content": [{"type": "tool_use", "name": "StructuredOutput", "input": ANSWER}]}
EXECUTOR = str(Path(sys.executable).with_name("ao-claude-code-exec"))


def run_executor(home: Path) -> dict[str, float]:
    """Perform a run and return the seconds from its start to each event, and to the exit."""
    with ModelSimulator(Script.from_answers([{"json": ANSWER}])) as model:
        invocation = {
            "schema_version": "3.0",
            "mode": "start",
            "parameters": {"prompt": "Judge."},
            "project_dir": str(home),
            "agent_blueprint": {"name": "judge", "system_prompt": "You judge.", "output_schema": SCHEMA},
        }
        began, moments = time.perf_counter(), {}
        with subprocess.Popen(
            [EXECUTOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(model.url, home)
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(invocation).encode() + b"\n")
            process.stdin.close()
            for line in process.stdout:
                moments[json.loads(line)["event_type"]] = time.perf_counter() - began
        moments["exit"] = time.perf_counter() - began
        model.require_satisfied()
        assert process.returncode == 0, process.returncode
    return moments


def run_claude(home: Path) -> float:
    """Ask the same with the CLI alone and return the seconds it took."""
    with ModelSimulator(Script.from_answers([BY_TOOL, {"text": "Done."}])) as model:
        command = [
            str(CLAUDE.find()),
            "-p",
            "Judge.",
            "--system-prompt",
            "You judge.",
            "--json-schema",
            json.dumps(SCHEMA),
        ]
        began = time.perf_counter()
        finished = subprocess.run(
            [*command, "--output-format", "json", "--setting-sources", ""],
            env=environment(model.url, home),
            cwd=home,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        took = time.perf_counter() - began
        assert json.loads(finished.stdout)["structured_output"] == ANSWER, finished.stdout
    return took


def environment(url: str, home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **claude_environment(url, home)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    ours: list[dict[str, float]] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "tmp").mkdir()
        for _ in range(rounds + 1):  # the first round warms the caches and is left out
            ours.append(run_executor(home))
            theirs.append(run_claude(home))
    del ours[0], theirs[0]
    moments = {name: statistics.median(run[name] for run in ours) for name in ours[0]}
    cli_alone = statistics.median(theirs)
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.platform(terse=True)}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "rounds": rounds,
        "seconds": {"ao-claude-code-exec": round(moments["exit"], 3), "claude -p --json-schema": round(cli_alone, 3)},
        "ratio (aim 1.4 at most)": round(moments["exit"] / cli_alone, 2),
        "seconds from the start to": {name: round(moment, 3) for name, moment in moments.items()},
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

"""A wall clock that jumps by months at every look. What is timed goes by another clock; times of day are only shown."""

import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tests.jumping_clock import build_jumping_clock
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.cli.calling import Ao, miniature


@pytest.fixture(scope="module")
def jumping(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the library that makes a process's clock jump."""
    return build_jumping_clock(tmp_path_factory.mktemp("clock"))


@pytest.mark.parametrize(
    ("name", "options", "exit_code", "end"),
    [
        ("answers_at_once", [], 0, "completed"),
        ("works_for_ever", ["--timeout", "0.2"], 1, "deadline_exceeded"),
    ],
    ids=["a result", "a time limit"],
)
def test_a_run_is_timed_by_a_clock_that_does_not_jump(
    name: str, options: list[str], exit_code: int, end: str, jumping: str, tmp_path: Path
) -> None:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")

    run = ao("run", "agent.yaml", "-p", "x", "--executor", miniature(name), *options, "--events", LD_PRELOAD=jumping)

    events = [json.loads(line) for line in run.stdout.splitlines()]
    assert run.exit_code == exit_code, run.stderr
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert all(datetime.fromisoformat(event["timestamp"]).tzinfo is not None for event in events)
    assert end in ao("sessions", LD_PRELOAD=jumping).stdout
    assert processes_in(tmp_path, 2.0) == []


def test_the_clock_of_the_test_before_does_jump(jumping: str) -> None:
    script = "import time; print(time.time() - time.time())"
    done = subprocess.run(
        [sys.executable, "-c", script], env={"LD_PRELOAD": jumping}, capture_output=True, check=True, timeout=60
    )
    assert abs(float(done.stdout)) > 86400

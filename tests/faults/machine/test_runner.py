"""What becomes of a run when its runner is killed or stopped in the middle of it."""

import json
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.cli.calling import SECONDS, Ao, miniature

EVENTS = 100_000


def flood(ao: Ao, events: int) -> "subprocess.Popen[bytes]":
    """Start an `ao run` whose executor floods events, in a process group of its own."""
    ao.write("agent.yaml", "name: agent\n")
    ao.write("parameters.json", json.dumps({"prompt": "x", "events": events}))
    (ao.folder / "project").mkdir()
    run = ["run", "agent.yaml", "--params", "parameters.json", "--executor", miniature("floods_events"), "--events"]
    return subprocess.Popen(
        ao.argv(*run, "--project-dir", "project"),
        cwd=ao.folder,
        env=ao.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.mark.parametrize("seed", range(2))
def test_what_a_killed_runner_had_told_is_kept_and_the_run_ends_once(seed: int, tmp_path: Path) -> None:
    ao, told = Ao(tmp_path), 0
    with flood(ao, EVENTS) as process:
        assert process.stdout is not None
        until = random.Random(seed).randrange(1, 5000)
        while told < until:
            told = json.loads(process.stdout.readline())["seq"]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(SECONDS)
        assert processes_in(tmp_path / "project", 2.0) == []

    assert ao("result", "last", "--json").document["error"]["type"] == "attempt_lost"
    events = [json.loads(line) for line in ao("events", "last").stdout.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert len(events) > told
    assert [event["event_type"] for event in events if event["event_type"] in {"result", "failure"}] == ["failure"]


def test_a_runner_that_was_stopped_for_a_while_goes_on(tmp_path: Path) -> None:
    ao = Ao(tmp_path)
    with flood(ao, 3000) as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGSTOP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.killpg(process.pid, signal.SIGCONT)
        rest = process.stdout.read().splitlines()
        assert process.wait(SECONDS) == 0

    assert [json.loads(line)["seq"] for line in rest] == list(range(2, 3003))
    assert processes_in(tmp_path / "project", 2.0) == []

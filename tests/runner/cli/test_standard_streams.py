"""`ao` works with whichever of its standard streams closed."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.runner.cli.calling import SECONDS, Ao, miniature


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-", "0<&- 1>&- 2>&-"])
def test_a_run_ends_well_with_closed_streams(tmp_path: Path, closed: str) -> None:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    run = ao.argv("run", "agent.yaml", "-p", "x", "--executor", miniature("answers_at_once"))

    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *run],
        cwd=tmp_path, env=ao.environment(), stdout=subprocess.PIPE, timeout=SECONDS, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (0, b"" if "1>&-" in closed else b"x\n")
    assert ao("result", "last").exit_code == 0


def test_events_for_a_closed_stdout_go_nowhere_else_and_the_worker_says_so(tmp_path: Path) -> None:
    ao = Ao(tmp_path)
    agent = ao.write("agent.yaml", "name: agent\n")
    command = ao.argv("worker", "--coordinator", "stdout", "--profile", miniature("answers_at_once"))

    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 1>&-', "sh", *command],
        cwd=tmp_path, env=ao.environment(), input=json.dumps({"blueprint": str(agent), "prompt": "x"}),
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip

    assert done.returncode == 2
    assert "it is closed" in done.stderr

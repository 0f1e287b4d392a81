"""Nothing that a run has started outlives it, however the runner itself ends."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ao_lifeline
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.cli.calling import Ao, miniature
from tests.process.runner.performing import IMPATIENT, perform

pytestmark = pytest.mark.skipif(not ao_lifeline.IS_THERE, reason="only Linux tells a process of its parent's death")

SECONDS = 100.0


@contextmanager
def running(ao: Ao) -> Iterator[subprocess.Popen[bytes]]:
    """Yield an `ao run` in a group of its own, whose executor and its daemons are up."""
    ao.write("agent.yaml", "name: agent\n")
    (ao.folder / "project").mkdir()
    run = ["run", "agent.yaml", "-p", "x", "--executor", miniature("survives_everything"), "--events"]
    with subprocess.Popen(
        ao.argv(*run, "--project-dir", "project"),
        cwd=ao.folder,
        env=ao.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b"daemons are up" in line:
                break
        yield process


@pytest.mark.requirement("AOX-248")
@pytest.mark.parametrize("whole_group", [False, True], ids=["the runner", "the runner's whole group"])
def test_a_killed_runner_leaves_nobody_behind(tmp_path: Path, whole_group: bool) -> None:
    ao = Ao(tmp_path)
    with running(ao) as process:
        (os.killpg if whole_group else os.kill)(process.pid, signal.SIGKILL)
        process.wait()

        assert processes_in(tmp_path / "project", SECONDS) == []
    lost = ao("result", "last", "--json").document
    assert lost["error"]["type"] == "attempt_lost"


@pytest.mark.requirement("AOX-246")
def test_daemons_of_a_run_end_with_it(tmp_path: Path) -> None:
    performed = perform("survives_everything", tmp_path, stop_on="log", grace_periods=IMPATIENT)

    assert performed.failure.error.type == "cancel_timeout"
    assert performed.record.exit_code == -signal.SIGKILL

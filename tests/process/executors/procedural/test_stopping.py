"""A command that is to end, ends, and takes everything with it."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ao_lifeline import IS_THERE
from tests.process.executors.driver import ExecutorProcess, run, wait_until
from tests.process.executors.procedural.programs import PROCEDURAL, start_of, write_command

SCRIPTS = {
    "obedient": "echo > up; exec sleep 1000",
    "with children": "sleep 1000 & sleep 1000 & echo > up; wait",
    "ignores SIGTERM": "trap '' TERM; echo > up; while true; do sleep 1; done",
    "a daemon that holds stdout": "setsid sleep 1000 & echo > up; wait",
}


@pytest.fixture
def up(tmp_path: Path) -> Path:
    """Make a pipe with a name: reading its one line waits until the command is up."""
    os.mkfifo(tmp_path / "up")
    return tmp_path / "up"


def processes_in(folder: Path) -> list[str]:
    """Return the command lines of the processes that work in a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == folder:
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


@pytest.mark.requirement("AOX-093", "AOX-194", "AOX-196")
@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in SCRIPTS.items()])
def test_sigterm_ends_the_command_and_all_that_it_started(tmp_path: Path, up: Path, script: str) -> None:
    write_command(tmp_path, "tool", script)
    with ExecutorProcess(PROCEDURAL) as executor:
        executor.write_line(start_of(tmp_path, "tool", limits={"cancel_grace_seconds": 1}))
        up.read_text()
        executor.signal(signal.SIGTERM)
        ended = executor.finish()

    assert [event.get("status") for event in ended.events[-2:]] == ["cancelled", "cancelled"]
    assert ended.exit_code == 130
    assert processes_in(tmp_path) == []


def test_a_command_has_time_to_clean_up(tmp_path: Path, up: Path) -> None:
    write_command(tmp_path, "tool", "trap 'touch cleaned; exit' TERM; echo > up; while true; do sleep 0.05; done")
    with ExecutorProcess(PROCEDURAL) as executor:
        executor.write_line(start_of(tmp_path, "tool"))
        up.read_text()
        executor.signal(signal.SIGTERM)
        executor.finish()

    assert (tmp_path / "cleaned").exists()


@pytest.mark.requirement("AOX-194")
@pytest.mark.skipif(not IS_THERE, reason="lifelines, which learn that their parent died, are there on Linux only")
@pytest.mark.parametrize("script", [pytest.param(script, id=name) for name, script in SCRIPTS.items()])
def test_a_killed_executor_leaves_nothing_behind(tmp_path: Path, up: Path, script: str) -> None:
    write_command(tmp_path, "tool", script)
    with ExecutorProcess(PROCEDURAL) as executor:
        executor.write_line(start_of(tmp_path, "tool"))
        up.read_text()
        executor.signal(signal.SIGKILL)
        executor.wait()

        wait_until(lambda: processes_in(tmp_path) == [])


@pytest.mark.requirement("AOX-044")
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"executor_config": {"timeout_seconds": 0.3}}, "executor_config.timeout_seconds (0.3 s)"),
        ({"limits": {"timeout_seconds": 0.3}}, "limits.timeout_seconds (0.3 s)"),
    ],
    ids=["configured", "the run's"],
)
def test_a_command_that_takes_too_long_is_ended(tmp_path: Path, fields: dict[str, Any], named: str) -> None:
    write_command(tmp_path, "tool", "sleep 1000 & sleep 1000")
    ended = run(PROCEDURAL, start_of(tmp_path, "tool", **fields))

    assert ended.error["type"] == "deadline_exceeded"
    assert named in ended.error["message"]
    assert ended.exit_code == 1
    assert processes_in(tmp_path) == []


@pytest.mark.requirement("AOX-193")
def test_a_child_that_is_left_behind_does_not_hold_the_result_up(tmp_path: Path) -> None:
    write_command(tmp_path, "tool", "setsid sleep 1000 & echo '\"done\"'")
    ended = run(PROCEDURAL, start_of(tmp_path, "tool"))

    assert ended.terminal["result_data"] == "done"
    assert processes_in(tmp_path) == []


def test_a_heartbeat_reports_that_a_tool_runs(tmp_path: Path) -> None:
    write_command(tmp_path, "tool", "sleep 0.5")
    ended = run(PROCEDURAL, start_of(tmp_path, "tool", limits={"heartbeat_interval_seconds": 0.1}))

    assert "tool" in {beat["phase"] for beat in ended.of_type("heartbeat")}

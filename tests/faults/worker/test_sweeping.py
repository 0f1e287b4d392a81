"""A killed worker where only the process group holds its runs: the next start ends what it has left."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.faults.worker.working import MINIATURES, Home, until
from tests.process.lifeline.leftovers import processes_in

QUICK = str(MINIATURES / "answers_at_once.py")

pytestmark = pytest.mark.skipif(
    not Path("/proc").exists(), reason="there is no /proc, in which the test looks for processes"
)


@pytest.mark.requirement("AOX-248")
@pytest.mark.parametrize("starts", ["worker", "run"])
def test_what_a_killed_worker_left_in_its_groups_is_ended_by_the_next_start(home: Home, starts: str) -> None:
    temporary = home.folder.parent / "temporary"
    temporary.mkdir()
    environment = home.environment() | {"AO_CONTAINMENT": "process_group", "TMPDIR": str(temporary)}
    runs = [home.submit_to(f"ses_{number}", "x", executor="ignores_sigterm") for number in range(2)]
    with home.worker(env=environment) as worker:
        until(lambda: all(home.events(run_id) for run_id in runs), "they have not begun")
        worker.killed()
    assert len(processes_in(home.project, 0)) == 2
    assert len(list(temporary.iterdir())) == 2
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True) as other:
        (owner,) = (home.folder / "belongings").iterdir()
        (owner / "other").write_text(json.dumps({"leader": other.pid, "began": "earlier"}))
        left = home.call("doctor").stdout

        if starts == "worker":
            home.drained()
        else:
            (home.folder.parent / "agent.yaml").write_text("name: agent\n")
            said = home.call("run", "agent.yaml", "-p", "x", "--executor", QUICK).stderr
            assert "cleaned up after a killed runner: process groups" in said

        assert other.poll() is None
        other.kill()
    assert "a killed runner left process groups" in left
    assert "2 temporary folders" in left
    assert processes_in(home.project, 0) == []
    assert list(temporary.iterdir()) == []


def test_folders_of_a_killed_worker_are_removed_and_those_of_its_neighbour_stay(home: Home) -> None:
    temporary = home.folder.parent / "temporary"
    temporary.mkdir()
    environment = home.environment() | {"TMPDIR": str(temporary)}
    lasting = [str(MINIATURES / f"{name}.py") for name in ("ignores_sigterm", "goes_silent")]
    with (
        home.worker("--profile", lasting[0], env=environment) as neighbour,
        home.worker("--profile", lasting[1], env=environment) as dead,
    ):
        neighbour.heard("worker started")
        dead.heard("worker started")
        first = home.submit_to("ses_1", "x", profile=lasting[0])
        until(lambda: home.events(first), "the first has not begun")
        (kept,) = temporary.iterdir()
        second = home.submit_to("ses_2", "x", profile=lasting[1])
        until(lambda: home.events(second), "the second has not begun")
        assert len(list(temporary.iterdir())) == 2
        dead.killed()

        (home.folder.parent / "agent.yaml").write_text("name: agent\n")
        assert home.call("run", "agent.yaml", "-p", "x", "--executor", QUICK).returncode == 0

        assert list(temporary.iterdir()) == [kept]

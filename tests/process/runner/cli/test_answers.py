"""`ao answer` answers runs of a worker, on its host or elsewhere, and continues those that were parked."""

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.process.fork_server import start_ao
from tests.process.runner.cli.asking import events_of, resolutions_of, tools_of, wait_until_it_asks, write_profile
from tests.process.runner.cli.calling import SECONDS, Ao
from tests.process.server.conftest import Served, wait_for

Work = Callable[[], Any]


@pytest.fixture(params=["local", "remote"])
def work(request: pytest.FixtureRequest, ao: Ao, tmp_path: Path) -> Iterator[Work]:
    """Return what starts a worker: one of the store, or one that reaches it through a server."""
    with ExitStack() as stack:
        arguments: list[str] = []
        environment = ao.environment() | {"AO_PROFILES": str(ao.folder / "profiles")}
        if request.param == "remote":
            server = stack.enter_context(Served(Path(environment["AO_HOME"]), ("--no-worker",)))
            arguments = ["--coordinator", server.url]
            environment |= {"AO_HOME": str(tmp_path / "elsewhere"), "AO_HOST": "elsewhere"}

        @contextmanager
        def start() -> Iterator["subprocess.Popen[bytes]"]:
            argv = ["worker", "--concurrency", "8", *arguments]
            with (tmp_path / "worker.log").open("ab") as log:
                worker = start_ao(argv, cwd=ao.folder, env=environment, stderr=log)
            try:
                yield worker
            finally:
                worker.terminate()
                worker.wait(SECONDS)

        yield start


def submit(ao: Ao, profile: str, *options: str) -> str:
    called = ao("submit", "agent.yaml", "-p", "x", "--profile", profile, "--json", *options)
    assert called.exit_code == 0, called.stderr
    return str(called.document["run_id"])


def ended(ao: Ao, run_id: str) -> dict[str, Any]:
    """Wait for the end of a run and return its row."""

    def look() -> dict[str, Any] | None:
        (run,) = [one for one in ao("runs", "--json").document if one["run_id"] == run_id]
        return run if run["ended_at"] else None

    return dict(wait_for(look))


def test_runs_go_on_as_they_are_answered_and_one_answer_counts(ao: Ao, work: Work) -> None:
    asks = write_profile(ao, "asks", input={"wait_seconds": 3600})
    with work():
        allowed, denied, contested = (submit(ao, asks) for _ in range(3))
        wait_until_it_asks(ao, allowed, denied, contested)
        assert ao("answer", allowed, "--allow").exit_code == 0
        assert ao("answer", denied, "call_1", "--deny").exit_code == 0
        with ThreadPoolExecutor(4) as people:
            calls = people.map(lambda effect: ao("answer", contested, effect), ["--allow", "--deny"] * 2)
            codes = sorted(called.exit_code for called in calls)
        assert [ended(ao, run_id)["status"] for run_id in (allowed, denied, contested)] == ["completed"] * 3

    assert codes == [0, 2, 2, 2]
    assert (resolutions_of(ao, allowed), tools_of(ao, allowed)) == ([("accepted", "person")], ["completed"])
    assert (resolutions_of(ao, denied), tools_of(ao, denied)) == ([("declined", "person")], ["denied"])
    assert len(resolutions_of(ao, contested)) == 1


def test_when_nobody_answers_the_profile_decides_and_a_parked_run_continues_elsewhere(ao: Ao, work: Work) -> None:
    runs = {}
    goes_on = {"name": "Bash", "seconds": 600}  # after the request, so that the cancel comes in time
    script = {"answers": [{"tools": [{"name": "Bash", "ask": True}, goes_on], "text": "Done."}]}
    with work():
        for then in ("deny", "cancel", "park"):
            more = {"config": {"script": script}} if then == "cancel" else {}
            runs[then] = submit(ao, write_profile(ao, then, input={"wait_seconds": 1, "then": then}, **more))
        assert {then: ended(ao, run_id)["status"] for then, run_id in runs.items()} == {
            "deny": "completed", "cancel": "cancelled", "park": "failed",
        }  # fmt: skip
    for run_id in runs.values():
        assert resolutions_of(ao, run_id) == [("expired", "timeout")]
    (waiting,) = ao("inputs", "--json").document
    assert (waiting["run_id"], waiting["is_parked"]) == (runs["park"], True)

    answered = ao("answer", runs["park"], "--allow", "--json").document
    with work():
        assert ended(ao, answered["next_run_id"])["status"] == "completed"

    assert resolutions_of(ao, answered["next_run_id"]) == [("accepted", "person")]
    assert tools_of(ao, answered["next_run_id"]) == ["completed"]
    assert ao("inputs", "--json").document == []


def test_a_kept_and_a_warm_process_ask_in_each_of_their_runs(ao: Ao, work: Work) -> None:
    question = {"command": "ls"}
    asks = write_profile(
        ao, "stays", question, question,
        input={"wait_seconds": 3600}, lifecycle="persistent", warm={"size": 1},
    )  # fmt: skip
    with work():
        first = submit(ao, asks)
        wait_until_it_asks(ao, first)
        assert ao("answer", first, "--allow").exit_code == 0
        ended(ao, first)
        second = str(ao("submit", "--session", first, "-p", "again", "--json").document["run_id"])
        wait_until_it_asks(ao, second)
        assert ao("answer", second, "--deny").exit_code == 0
        ended(ao, second)

    assert (tools_of(ao, first), tools_of(ao, second)) == (["completed"], ["denied"])


@pytest.mark.parametrize("work", ["local"], indirect=True)
def test_the_request_of_a_run_whose_worker_is_killed_is_cancelled(ao: Ao, work: Work) -> None:
    asks = write_profile(ao, "asks", input={"wait_seconds": 3600})
    with work() as worker:
        run_id = submit(ao, asks)
        wait_until_it_asks(ao, run_id)
        worker.kill()
        worker.wait(SECONDS)
    with work():  # ends what the other one has left
        assert ended(ao, run_id)["error_type"] == "attempt_lost"

    assert ao("answer", run_id, "--allow").exit_code == 2
    assert resolutions_of(ao, run_id) == [("cancelled", "policy")]
    assert events_of(ao, run_id)[-1]["error"]["type"] == "attempt_lost"


@pytest.mark.parametrize("work", ["local"], indirect=True)
def test_the_time_of_a_request_is_not_idle_time(ao: Ao, work: Work) -> None:
    slow = write_profile(ao, "slow", input={"wait_seconds": 12}, limits={"idle_seconds": 10})
    with work():
        assert ended(ao, submit(ao, slow))["status"] == "completed"

"""Workers beside each other: who performs what, how much at once, and in which order."""

import json
import resource
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

from tests.faults.worker.working import MINIATURES, NOTING, SECONDS, Home, until


def test_two_workers_perform_each_of_forty_runs_once(home: Home) -> None:
    runs = home.submit(40, "5 0.02")
    with home.worker("--concurrency", "3") as one, home.worker("--concurrency", "3") as other:
        home.finish(one)
        home.finish(other)
    home.check(runs)
    assert home.outcomes() == {"completed": 40}
    assert one.said("run begins") + other.said("run begins") == 40
    assert min(one.said("run begins"), other.said("run begins")) > 0


def test_a_worker_with_profiles_takes_only_their_runs(home: Home) -> None:
    path = str(MINIATURES / f"{NOTING}.py")
    home.folder.mkdir()
    for name in ("mine", "yours"):
        folder = home.folder / "profiles"
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps({"executor": path}))
    mine = home.submit_to("ses_mine", "1 0", profile="mine")
    yours = home.submit_to("ses_yours", "1 0", profile="yours")

    with home.worker("--profile", "mine", "--until-idle") as worker:
        assert worker.left() == 0, worker.other

    states = {state.run.run_id: state.run.status for state in home.states()}
    assert states == {mine: "completed", yours: "queued"}


def test_a_run_of_an_unknown_profile_ends(home: Home) -> None:
    runs = [home.submit_to("ses_1", "1 0", profile="nobody-has-this"), home.submit_to("ses_2", "1 0")]
    home.drained()
    home.check(runs)
    assert home.outcomes() == {"executor_not_found": 1, "completed": 1}


def test_with_few_descriptors_a_worker_takes_what_it_can_and_all_runs_end(home: Home) -> None:
    runs = home.submit(12, "5 0.02")
    with home.worker("--concurrency", "12", preexec_fn=_few_descriptors) as worker:
        worker.heard("taking no more runs")
        home.finish(worker)
    home.check(runs)
    assert home.outcomes() == {"completed": 12}
    assert "ulimit -n" in next(entry["lacking"] for entry in worker.log if "lacking" in entry)


def test_a_worker_that_is_to_perform_more_runs_than_any_machine_can_takes_what_it_can(home: Home) -> None:
    runs = home.submit(3, "5 0")
    home.drained("--concurrency", "1" + "0" * 30)
    home.check(runs)
    assert home.outcomes() == {"completed": 3}


def test_connections_to_the_metrics_that_ask_for_nothing_hold_up_no_run(home: Home) -> None:
    runs = home.submit(6, "5 0.02")
    with home.worker("--metrics-port", "0", preexec_fn=_few_descriptors) as worker, ExitStack() as connections:
        worker.heard("metrics are served")
        address = next(entry["address"] for entry in worker.log if "address" in entry)
        port = int(address.rpartition(":")[2].partition("/")[0])
        for _ in range(64):
            connection = connections.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", port))
        home.finish(worker)
    home.check(runs)
    assert home.outcomes() == {"completed": 6}
    assert worker.other == []


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def test_the_runs_of_one_session_follow_each_other(home: Home) -> None:
    first = home.submit_to("ses_1", "5 0.01")
    second = home.submit_to("ses_1", "5 0", mode="resume")
    third = home.submit_to("ses_1", "5 0", mode="resume")
    with home.worker() as one, home.worker() as other:
        home.finish(one)
        home.finish(other)
    home.check([first, second, third])
    assert home.noted("ses_1.order") == [
        f"{what} {run_id}" for run_id in (first, second, third) for what in ("begin", "end")
    ]


def test_a_log_that_nobody_takes_does_not_stop_a_worker(home: Home) -> None:
    runs = home.submit(2, "5 0")
    with Path("/dev/full").open("wb") as full, home.worker(stderr=full) as worker:
        until(lambda: home.outcomes() == {"completed": 2}, "they do not end")
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(SECONDS) == 0
    home.check(runs)

"""Cancels that come at every moment of a run."""

import pytest

from tests.faults.worker.working import Home, until

LASTING = "100000 0.01"


def test_a_run_that_waits_ends_at_once_and_is_never_performed(home: Home) -> None:
    run_id = home.submit_to("ses_1", LASTING)
    assert home.call("cancel", run_id).returncode == 0
    home.drained()
    home.check([run_id])
    assert home.outcomes() == {"cancelled": 1}
    assert home.noted(f"{run_id}.starts") == []


def test_a_run_that_is_performed_is_asked(home: Home) -> None:
    run_id = home.submit_to("ses_1", LASTING)
    with home.worker() as worker:
        until(lambda: home.flushed(run_id) > 3, "nothing was flushed")
        assert "asked to stop" in home.call("cancel", run_id).stderr
        home.finish(worker)
    home.check([run_id])
    assert home.events(run_id)[-1]["error"]["message"] == "asked because of: user"


def test_the_second_cancel_kills_who_does_not_listen(home: Home) -> None:
    run_id = home.submit_to("ses_1", "hello", "ignores_sigterm")
    with home.worker() as worker:
        until(lambda: home.events(run_id), "it did not start")
        home.call("cancel", run_id)
        assert home.call("cancel", run_id).returncode == 0
        home.finish(worker)
    home.check([run_id])
    assert home.outcomes() == {"cancelled": 1}
    with home.store() as store:
        record = store.runs.find_record(run_id)
    assert record is not None
    assert record.stop_actions[-1] == "kill"


def test_a_run_that_is_over_is_left_alone(home: Home) -> None:
    run_id = home.submit_to("ses_1", "1 0")
    home.drained()
    refused = home.call("cancel", run_id)
    assert refused.returncode == 2
    assert "has already ended" in refused.stderr
    home.check([run_id])


@pytest.mark.parametrize("is_cancelled_first", [True, False], ids=["before", "after"])
def test_a_run_of_a_dead_worker_ends_once_however_it_is_cancelled(home: Home, is_cancelled_first: bool) -> None:
    run_id = home.submit_to("ses_1", "hello", "ignores_sigterm")
    with home.worker() as worker:
        until(lambda: home.events(run_id), "it did not start")
        if is_cancelled_first:
            home.call("cancel", run_id)
        worker.killed()
    if not is_cancelled_first:
        home.call("cancel", run_id)
    home.drained()
    home.check([run_id])
    assert home.outcomes() == {"attempt_lost": 1}

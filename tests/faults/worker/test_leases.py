"""Leases that are lost: the processes are gone, what comes late is refused, the run ends once."""

import signal

import pytest

from tests.faults.worker.working import Home, until
from tests.process.lifeline.leftovers import processes_in

LASTING = "100000 0.01"


@pytest.mark.requirement("AOX-262")
def test_a_worker_whose_store_is_locked_for_longer_than_the_lease_ends_its_runs_before(home: Home) -> None:
    runs = home.submit(2, LASTING)
    with home.worker("--lease", "2") as worker:
        until(lambda: all(home.flushed(run_id) > 3 for run_id in runs), "nothing was flushed")
        with home.locked():
            worker.heard("lease expires", 2)
            assert processes_in(home.project, 30) == []
        home.finish(worker)
    home.check(runs)
    assert home.outcomes() == {"attempt_lost": 2}


def test_a_store_that_is_locked_for_a_moment_costs_nothing(home: Home) -> None:
    runs = home.submit(2, "30 0.01")
    with home.worker() as worker:
        until(lambda: all(home.flushed(run_id) > 3 for run_id in runs), "nothing was flushed")
        with home.locked():
            until(lambda: all(home.flushed(run_id) == 32 for run_id in runs), "they do not go on")
        home.finish(worker)
    home.check(runs)
    assert home.outcomes() == {"completed": 2}


def test_a_worker_that_was_stopped_for_longer_than_its_lease_has_lost_its_runs(home: Home) -> None:
    runs = home.submit(2, LASTING)
    with home.worker("--lease", "1") as stopped:
        until(lambda: all(home.flushed(run_id) > 3 for run_id in runs), "nothing was flushed")
        with home.locked():
            stopped.stopped()  # not while it writes to the store, or nobody else could
        with home.worker("--lease", "1") as other:
            until(lambda: home.outcomes() == {"attempt_lost": 2}, "nobody ended them")
            kept = {run_id: home.events(run_id) for run_id in runs}
            stopped.signal(signal.SIGCONT).heard("run was revoked", 2)
            assert processes_in(home.project, 30) == []
            home.finish(stopped)
            home.finish(other)
    home.check(runs)
    assert {run_id: home.events(run_id) for run_id in runs} == kept

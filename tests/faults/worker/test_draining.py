"""Workers that are told to leave, once, twice, three times."""

import signal

from tests.faults.worker.working import Home, until

LASTING = "100000 0.01"


def test_one_sigterm_lets_twenty_runs_end_and_leaves_the_rest_in_the_queue(home: Home) -> None:
    runs = home.submit(20, "40 0.05")
    with home.worker("--concurrency", "20") as worker:
        worker.heard("run begins", 20)
        late = home.submit_to("ses_late", "1 0")
        assert worker.signal(signal.SIGTERM).left() == 0
    home.check(runs)
    assert home.outcomes() == {"completed": 20, "queued": 1}
    assert home.noted(f"{late}.starts") == []


def test_a_second_sigterm_cancels_what_runs(home: Home) -> None:
    runs = home.submit(8, LASTING)
    with home.worker("--concurrency", "8") as worker:
        until(lambda: all(home.flushed(run_id) > 3 for run_id in runs), "nothing was flushed")
        worker.signal(signal.SIGTERM).heard("draining")
        assert worker.signal(signal.SIGTERM).left() == 130
    home.check(runs)
    assert home.outcomes() == {"cancelled": 8}
    assert home.events(runs[0])[-1]["error"]["message"] == "asked because of: shutdown"


def test_a_third_sigterm_kills_who_does_not_listen(home: Home) -> None:
    runs = home.submit(3, executor="ignores_sigterm")
    with home.worker() as worker:
        worker.heard("run begins", 3)
        until(lambda: all(len(home.events(run_id)) > 0 for run_id in runs), "they did not start")
        worker.signal(signal.SIGTERM).heard("draining")
        worker.signal(signal.SIGTERM).heard("cancelling")
        worker.signal(signal.SIGTERM).heard("killing")
        assert worker.left() == 130
    home.check(runs)
    assert home.outcomes() == {"cancelled": 3}


def test_a_terminal_that_closes_lets_runs_end_however_often_it_says_so(home: Home) -> None:
    runs = home.submit(4, "40 0.05")
    with home.worker("--concurrency", "4") as worker:
        worker.heard("run begins", 4)
        worker.signal(signal.SIGHUP).heard("draining")
        assert worker.signal(signal.SIGHUP).left() == 0
    home.check(runs)
    assert home.outcomes() == {"completed": 4}


def test_a_worker_told_to_leave_while_idle_leaves_at_once(home: Home) -> None:
    with home.worker() as worker:
        worker.heard("worker started")
        assert worker.signal(signal.SIGTERM).left() == 0
    assert worker.other == []

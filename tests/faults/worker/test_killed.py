"""Workers that are killed: what was durable arrives once, every run ends once, nobody is left."""

import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from ao_runner.runs.conversation import MOST_OPEN_TOOLS
from ao_runner.store.ownership import own_runs
from ao_runner.store.worker_table import Offer
from tests.faults.worker.working import MINIATURES, Home, Working, until

LASTING = "100000 0.005"


def kill_worker(worker: Working) -> None:
    worker.killed()


def kill_worker_and_keeper(worker: Working) -> None:
    children = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children")
    (keeper, *_) = children.read_text(encoding="ascii").split()
    worker.signal(signal.SIGSTOP)
    os.kill(int(keeper), signal.SIGKILL)
    worker.killed()


@pytest.mark.requirement("AOX-260")
@pytest.mark.requirement("AOX-261")
@pytest.mark.parametrize(
    "kill",
    [kill_worker, kill_worker_and_keeper],
    ids=["worker", "keeper"],
)
def test_what_was_durable_arrives_once_and_every_run_ends_once(home: Home, kill: Callable[[Working], None]) -> None:
    runs = [*home.submit(4, LASTING), *[home.submit_to(f"ses_{number}", "5 0") for number in range(46)]]
    with home.worker("--concurrency", "4") as worker:
        until(lambda: all(home.flushed(run_id) > 50 for run_id in runs[:4]), "nothing was flushed")
        kill(worker)
    durable = home.durable()
    assert min(durable[run_id] for run_id in runs[:4]) > 10

    next_worker = home.drained("--concurrency", "8")

    home.check(runs, durable)
    assert home.outcomes() == {"attempt_lost": 4, "completed": 46}
    assert next_worker.said("run was lost with its worker") == 4
    last = home.events(runs[0])[-1]
    assert last["error"]["details"] == {"last_seq": last["seq"] - 1}


OPENS_TOOLS_WITHOUT_END = f"""#!{sys.executable}
import signal, sys
sys.path.append({str(MINIATURES)!r})
from speaking import Speaker
speaker = Speaker()
speaker.start()
for number in range({MOST_OPEN_TOOLS} + 200):
    speaker.say("tool_started", tool_call_id=f"t{{number}}", tool_name="Bash")
signal.pause()
"""


def test_of_tools_that_are_opened_without_end_so_many_are_noted_and_closed_when_the_worker_is_killed(
    home: Home,
) -> None:
    executor = home.project / "opens"
    executor.write_text(OPENS_TOOLS_WITHOUT_END)
    executor.chmod(0o755)
    run_id = home.submit_to("ses_1", "hi", profile=str(executor))
    with home.worker() as worker:
        until(lambda: any(event["event_type"] == "log" for event in home.events(run_id)), "nothing is left out")
        worker.killed()

    home.drained()

    kinds = Counter(event["event_type"] for event in home.events(run_id))
    assert (kinds["tool_started"], kinds["tool_finished"]) == (MOST_OPEN_TOOLS, MOST_OPEN_TOOLS)
    assert home.outcomes() == {"attempt_lost": 1}
    home.check([run_id])


# One seed takes seconds; the others repeat it.
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
def test_workers_killed_at_any_moment_lose_nothing_that_was_durable(home: Home, seed: int) -> None:
    chance = random.Random(seed)
    runs = home.submit(50, "30 0.002")
    durable: dict[str, int] = {}
    for _ in range(6):
        with home.worker("--concurrency", "6", "--lease", "5") as worker:
            worker.run_for(chance.uniform(0.3, 1.5)).killed()
        found = home.durable()
        durable = {run_id: max(durable.get(run_id, 0), found[run_id]) for run_id in runs}

    home.drained("--concurrency", "6")

    home.check(runs, durable)
    assert set(home.outcomes()) <= {"completed", "attempt_lost"}


def test_what_a_dead_worker_left_is_delivered_by_one_that_lives(home: Home) -> None:
    runs = home.submit(2, LASTING)
    with home.worker() as dead:
        until(lambda: all(home.flushed(run_id) > 20 for run_id in runs), "nothing was flushed")
        with home.worker() as heir:
            heir.heard("worker started")
            dead.killed()
            durable = home.durable()
            heir.heard("run was lost with its worker", 2)
            until(lambda: home.outcomes() == {"attempt_lost": 2}, "they did not end")
            assert heir.signal(signal.SIGTERM).left() == 0
    home.check(runs, durable)


def test_a_run_that_had_not_begun_is_performed_by_the_next_worker(home: Home) -> None:
    run_id = home.submit_to("ses_1", "3 0")
    with home.store() as store, own_runs(home.folder) as owner:
        store.queue.claim(Offer(owner), 1, print)

    home.drained()

    home.check([run_id])
    assert home.outcomes() == {"completed": 1}

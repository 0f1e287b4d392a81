"""What lies between an event in the outbox and its place in the store."""

import asyncio
import os
import shutil
import signal

from ao_runner.outbox.outbox import OutboxOptions
from ao_runner.processes.containment import lifelines, probe
from ao_runner.runs.attempt import ColdLauncher
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import own_runs
from ao_runner.store.worker_table import Offer
from ao_runner.worker.assignment import Host
from ao_runner.worker.delivery import take_outbox
from ao_runner.worker.worker import Worker
from tests.faults.worker.going_back import GoingBack
from tests.faults.worker.serving import Heard
from tests.faults.worker.working import SECONDS, Home, until


def test_a_worker_killed_between_its_outbox_and_the_store_doubles_nothing(home: Home) -> None:
    runs = home.submit(3, "100000 0.005")
    with home.worker() as worker:
        until(lambda: all(home.flushed(run_id) > 3 for run_id in runs), "nothing was flushed")
        with home.locked():
            stored = {state.run.run_id: state.last_seq for state in home.states()}

            def is_kept() -> bool:
                worker.stopped()
                durable = home.durable()
                worker.signal(signal.SIGCONT)
                return all(durable[run_id] > stored[run_id] for run_id in runs)

            until(is_kept, "the outbox keeps nothing")
            worker.killed()
    durable = home.durable()

    home.drained()

    home.check(runs, durable)
    assert home.outcomes() == {"attempt_lost": 3}


def test_acknowledgements_that_a_crash_has_forgotten_double_nothing(home: Home) -> None:
    runs = home.submit(10, "20 0")
    outbox, before = home.folder / "outboxes/local/0", home.folder.parent / "before"
    with home.worker("--concurrency", "10", "--lease", "600") as worker:
        until(lambda: all(home.flushed(run_id) > 0 for run_id in runs), "nothing was flushed")
        with home.locked():
            until(lambda: all(seq == 23 for seq in home.durable().values()), "they do not end")
            worker.stopped()
            shutil.copytree(outbox, before)
            worker.signal(signal.SIGCONT)
        until(lambda: not home.waiting(), "they do not end")
        worker.killed()
    shutil.rmtree(outbox)
    before.rename(outbox)
    kept = {run_id: home.events(run_id) for run_id in runs}

    heir = home.drained()

    home.check(runs)
    assert {run_id: home.events(run_id) for run_id in runs} == kept
    assert heir.said("run was revoked") == 0


def test_a_coordinator_that_goes_back_in_time_gets_everything_once(home: Home) -> None:
    runs = home.submit(2, "200 0")
    log = Heard()

    async def work() -> None:
        places = home.folder / "outboxes" / "local"
        with (
            own_runs(home.folder) as owner,
            lifelines(probe(os.environ)) as lines,
            take_outbox(places, OutboxOptions()) as outbox,
        ):
            coordinator = GoingBack(StorePlace(home.folder), Offer(owner))
            host = Host(home.folder, os.environ)
            worker = Worker(coordinator, outbox, places, ColdLauncher(lines), host, log, until_idle=True)
            async with asyncio.timeout(SECONDS):
                await worker.work()

    asyncio.run(work())

    home.check(runs)
    assert home.outcomes() == {"completed": 2}
    assert [len(home.events(run_id)) for run_id in runs] == [203, 203]


def test_what_is_left_because_the_store_is_locked_is_delivered_by_the_next_worker(home: Home) -> None:
    run_id = home.submit_to("ses_1", "100 0.01")
    with home.worker("--lease", "600") as worker:
        until(lambda: home.flushed(run_id) > 3, "nothing was flushed")
        with home.locked():
            worker.heard("run ended")
            worker.signal(signal.SIGTERM).heard("draining")
            worker.signal(signal.SIGTERM)
            assert worker.left() == 75
    assert worker.other == ["ao: events of 1 runs are not delivered yet; the next `ao worker` delivers them"]

    home.drained()

    home.check([run_id])
    assert home.outcomes() == {"completed": 1}
    assert len(home.events(run_id)) == 103


def test_a_worker_whose_store_is_damaged_leaves_and_keeps_the_events(home: Home) -> None:
    (run_id,) = home.submit()
    with home.store() as store:
        store.connection.execute("ALTER TABLE events RENAME TO lost")
    with home.worker("--until-idle") as worker:
        assert worker.heard("run ended").left() == 75
        assert any("damaged: no such table: events" in str(entry.get("reason")) for entry in worker.log)

    with home.store() as store:
        store.connection.execute("ALTER TABLE lost RENAME TO events")
    home.drained()
    home.check([run_id])


def test_a_worker_that_can_claim_nothing_from_a_damaged_store_says_so_and_leaves(home: Home) -> None:
    home.submit()
    with home.store() as store:
        store.connection.execute("CREATE TRIGGER broken AFTER UPDATE ON runs BEGIN DELETE FROM nowhere; END")
    with home.worker("--until-idle") as worker:
        assert worker.left() == 2
    assert "damaged: no such table: main.nowhere" in worker.other[-1]

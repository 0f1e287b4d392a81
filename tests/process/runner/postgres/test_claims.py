"""Claims of several workers at once, in one batch, and beside an old snapshot."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from ao_runner.runs.lost_runs import fail_stranded_runs
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run
from tests.process.runner.postgres.acting import NOW, add_history, await_blocked, claim, counted, enqueue, ids, opened


def test_a_session_that_becomes_busy_in_a_claim_costs_only_its_own_run(place: StorePlace) -> None:
    with opened(place) as store, opened(place) as other, ThreadPoolExecutor(1) as thread:
        for run_id in ("run_1", "run_2", "run_3"):
            enqueue(store, run_id)
        with other.transaction():
            other.runs.begin(Run("run_4", "ses_of_run_2", "resume", {}, NOW), "other")
            claiming = thread.submit(claim, store, "worker")
            await_blocked(place.url)

        assert ids(claiming.result(60)) == ["run_1", "run_3"]
        assert [state.run.run_id for state in store.runs.states("queued")] == ["run_2"]


def test_workers_that_claim_at_once_share_the_queue(place: StorePlace) -> None:
    def claim_all(owner: str) -> list[str]:
        with opened(place) as store:
            found: list[str] = []
            while some := claim(store, owner, 3):
                found += ids(some)
            return found

    with opened(place) as store, ThreadPoolExecutor(4) as threads:
        for number in range(60):
            enqueue(store, f"run_{number}", f"ses_{number % 30}")
        shares = [run_id for share in threads.map(claim_all, "abcd") for run_id in share]

        assert sorted(shares) == sorted(f"run_{number}" for number in range(30))
        assert len(store.runs.states("queued")) == 30


def test_a_run_whose_row_is_damaged_costs_only_itself(place: StorePlace) -> None:
    damaged = []
    with opened(place) as store:
        for run_id in ("run_1", "run_2"):
            enqueue(store, run_id)
        store.write("UPDATE runs SET metadata = 'nothing' WHERE run_id = 'run_1'")

        claimed = claim(store, "worker", on_damaged=lambda _, row: damaged.append(row))

        assert ids(claimed) == ["run_2"]
        assert damaged == [["run_1", "ses_of_run_1", 1]]


def test_a_damaged_session_of_a_host_that_is_gone_ends_no_sweep(place: StorePlace) -> None:
    with opened(place) as store:
        for run_id in ("run_1", "run_2"):
            enqueue(store, run_id)
        store.write("UPDATE runs SET mode = 'resume', queued_at = '2026-01-01T00:00:00.000Z'")
        store.write("UPDATE sessions SET host = 'gone'")
        store.write("UPDATE sessions SET blueprint = '5' WHERE session_id = 'ses_of_run_1'")

        assert fail_stranded_runs(store, 60) == ["run_2"]


def test_a_claim_reads_the_queue_and_not_the_history_beside_an_old_snapshot(place: StorePlace) -> None:
    with opened(place) as store, psycopg.connect(place.url) as old:
        add_history(store, 20_000)
        old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM runs")
        for number in range(50):
            enqueue(store, f"run_{number}")
        claim(store, "worker", 30)
        with store.transaction():
            before = counted(store, "runs", "seq_scan", "idx_tup_fetch")
            claimed = claim(store, "worker", 5)
            scans, read = counted(store, "runs", "seq_scan", "idx_tup_fetch")

    assert len(claimed) == 5
    assert scans == before[0]
    assert read - before[1] < 500


@pytest.mark.parametrize("has_statistics", [False, True], ids=["newer than the statistics", "in the statistics"])
def test_a_claim_reads_the_head_of_the_queue(has_statistics: bool, place: StorePlace) -> None:
    with opened(place) as store:
        with store.transaction():
            for number in range(1000):
                enqueue(store, f"run_{number}")
        if has_statistics:
            store.write("ANALYZE")
        with store.transaction():
            (before,) = counted(store, "runs", "coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)")
            claimed = claim(store, "worker", 5)
            (read,) = counted(store, "runs", "coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)")

    assert len(claimed) == 5
    assert read - before < 100

"""Who may write of a run: attempts that were lost may not, whatever races; leases go by the clock of the server."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.opening import StorePlace
from ao_runner.store.store import Store
from ao_runner.store.store_errors import NotHeld
from ao_runner.store.worker_table import Offer
from tests.jumping_clock import build_jumping_clock
from tests.process.executors.driver import wait_until
from tests.process.runner.cli.calling import Ao
from tests.process.runner.coordinators.lines import result, said
from tests.process.runner.postgres.acting import (
    SECONDS,
    await_blocked,
    begin,
    claim,
    enqueue,
    expire,
    ids,
    lines_of,
    opened,
    seqs_of,
    submit,
    working,
)

NOW_OF_SERVER = """SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
LATE_WRITES: dict[str, Callable[[Store], object]] = {
    "events": lambda store: store.events.add_of_attempt("run_1", 1, 2, [said(2, "late"), said(3, "late")]),
    "behind a gap": lambda store: store.events.add_of_attempt("run_1", 1, 9, [said(9, "late")]),
    "begin": lambda store: store.queue.begin("run_1", 1, "late"),
}


@pytest.mark.parametrize("late", LATE_WRITES.values(), ids=LATE_WRITES)
def test_a_late_write_that_waits_for_the_sweep_is_refused(late: Callable[[Store], object], place: StorePlace) -> None:
    with opened(place) as worker, opened(place) as sweeper, ThreadPoolExecutor(1) as thread:
        begin(worker, "worker", "run_1")
        worker.events.add_of_attempt("run_1", 1, 1, [said(1, "in time")])
        expire(worker, "worker")
        with sweeper.transaction():
            assert fail_lost_runs(sweeper) == ["run_1"]
            writing = thread.submit(worker.commit_together, [lambda: late(worker)])
            await_blocked(place.url)

        (refused,) = writing.result(60)
        assert isinstance(refused, NotHeld)
        assert seqs_of(worker, "run_1") == [1, 2]
        assert '"attempt_lost"' in lines_of(worker, "run_1")[-1]


def test_a_sweep_leaves_a_run_alone_that_is_being_written_and_ends_it_after_that(place: StorePlace) -> None:
    with opened(place) as worker, opened(place) as sweeper:
        begin(worker, "worker", "run_1")
        expire(worker, "worker")
        with worker.transaction():
            worker.events.add_of_attempt("run_1", 1, 1, [said(1, "just in time")])
            assert fail_lost_runs(sweeper) == []
        assert fail_lost_runs(sweeper) == ["run_1"]

        assert seqs_of(worker, "run_1") == [1, 2]
        assert json.loads(lines_of(worker, "run_1")[1])["error"]["details"] == {"last_seq": 1}
        with pytest.raises(NotHeld):
            worker.events.add_of_attempt("run_1", 1, 3, [result(3)])


def test_a_run_that_another_worker_takes_during_a_sweep_is_not_lost(place: StorePlace) -> None:
    with opened(place) as store:
        enqueue(store, "run_1")
        claim(store, "dead")
        expire(store, "dead")
        store.workers.join(Offer("living", lease_seconds=60))
        # This clock stops the sweep between the moment that it looks at and the lock on what it has found.
        store.write("CREATE SCHEMA slow")
        store.write(
            "CREATE FUNCTION slow.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS"
            " 'SELECT pg_advisory_xact_lock_shared(1); SELECT pg_catalog.clock_timestamp()'"
        )

    def sweep() -> object:
        with sweeper.transaction():
            return sweeper.workers.lost_runs()

    slow = StorePlace(place.home, f"{place.url}&options=-csearch_path%3Dslow,pg_catalog,public")
    with opened(place) as store, opened(slow) as sweeper, ThreadPoolExecutor(1) as thread:
        with store.transaction():
            store.fetch("SELECT pg_advisory_xact_lock(1)")
            sweeping = thread.submit(sweep)
            await_blocked(place.url)
            with opened(place) as living:
                living.queue.give_back("run_1", 1)
                assert ids(claim(living, "living")) == ["run_1"]

        assert sweeping.result(60) == []


def test_a_run_that_cannot_begin_before_its_lease_expires_is_queued_again(ao: Ao, place: StorePlace) -> None:
    def log_has(words: str) -> bool:
        return words in (ao.folder / "log").read_text()

    with opened(place), psycopg.connect(place.url, autocommit=True) as sql:
        sql.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END'"
        )
        sql.execute(
            "CREATE TRIGGER wait BEFORE UPDATE ON runs FOR EACH ROW WHEN (NEW.has_begun > OLD.has_begun)"
            " EXECUTE FUNCTION wait()"
        )
        sql.execute("SELECT pg_advisory_lock(1)")
        with working(ao, place.url, "--lease", "2"):
            run = ao("submit", "agent.yaml", "-p", "hi", "--profile", "echo", AO_STORE=place.url).stdout.strip()
            wait_until(lambda: log_has("lease expires"), SECONDS)
            sql.execute("UPDATE workers SET lease_until = 'infinity'")  # only the worker itself knows that it is late
            sql.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            sql.execute("SELECT pg_advisory_unlock(1)")
            wait_until(lambda: ao("result", run, AO_STORE=place.url).stdout != "", SECONDS)

        assert sql.execute("SELECT status, attempt FROM runs").fetchall() == [("completed", 2)]


def test_a_lease_begins_when_it_is_renewed_and_not_with_its_transaction(place: StorePlace) -> None:
    with opened(place) as store, store.transaction():
        wait_until(lambda: store.fetch("SELECT clock_timestamp() > now() + interval '0.3 s'") == [(True,)], SECONDS)
        store.workers.join(Offer("worker", lease_seconds=0.2))

        assert store.fetch("SELECT lease_until > now() + interval '0.5 s' FROM workers") == [(True,)]
        assert list(store.workers.living()) == ["worker"]
        wait_until(lambda: not store.workers.living(), SECONDS)


@pytest.fixture(scope="module")
def jumping(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library that makes the wall clock of a process jump by months at every look."""
    return build_jumping_clock(tmp_path_factory.mktemp("clock"))


def test_workers_whose_clocks_are_wrong_lose_no_run_and_take_none_away(ao: Ao, place: StorePlace, jumping: str) -> None:
    wrong = {"LD_PRELOAD": jumping}
    with working(ao, place.url, "--lease", "2"), working(ao, place.url, "--lease", "2", **wrong):
        runs = [submit(ao, place.url) for _ in range(8)]
        with psycopg.connect(place.url, autocommit=True) as watcher:
            began = watcher.execute("SELECT clock_timestamp()").fetchone()
            query = "SELECT clock_timestamp() > %s + interval '4 s'"
            wait_until(lambda: watcher.execute(query, began).fetchone() == (True,), SECONDS)
            states = watcher.execute("SELECT owner, status, attempt FROM runs").fetchall()
        for run in runs:
            ao("cancel", run, AO_STORE=place.url)

    assert len({owner for owner, _, _ in states}) == 2
    assert {(status, attempt) for _, status, attempt in states} == {("running", 1)}


def test_times_and_durations_of_runs_are_of_the_servers_clock(ao: Ao, place: StorePlace, jumping: str) -> None:
    """Submitter and worker have clocks that are wrong by months. A mix of two clocks would be seen in a duration."""
    submit_run = ("submit", "agent.yaml", "-p", "x", "--profile", "echo")
    with psycopg.connect(place.url, autocommit=True) as watcher:
        before = watcher.execute(NOW_OF_SERVER).fetchone()
        ao(*submit_run, AO_STORE=place.url, LD_PRELOAD=jumping)
        ao(*submit_run, "--not-before", "1s", AO_STORE=place.url, LD_PRELOAD=jumping)
        worked = ao("worker", "--until-idle", "--log-format", "json", AO_STORE=place.url, LD_PRELOAD=jumping)
        after = watcher.execute(NOW_OF_SERVER).fetchone()
        rows = watcher.execute("SELECT queued_at, started_at, ended_at FROM runs").fetchall()
    shown = ao("runs", AO_STORE=place.url, LD_PRELOAD=jumping).stdout
    fleet = ao("top", "--json", AO_STORE=place.url, LD_PRELOAD=jumping).stdout

    assert before is not None
    assert after is not None
    assert [list(row) for row in rows] == [sorted(row) for row in rows]
    assert all(before[0] <= moment <= after[0] for row in rows for moment in row)
    logged = [json.loads(line) for line in worked.stderr.splitlines()]
    waited = [line["queued_seconds"] for line in logged if line["event"] == "run begins"]
    assert len(waited) == 2
    assert all(0 <= seconds < SECONDS for seconds in waited)
    assert re.findall(r"[0-9]+ (?:s|min|h|d)\b", shown) == re.findall(r"[0-9]+ s\b", shown)
    assert json.loads(fleet)["ended_in_the_last_minute"] == 2

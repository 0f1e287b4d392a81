"""`ao store prune` beside a worker that claims and writes: it delays the worker for a short time and loses nothing."""

from datetime import date, timedelta
from pathlib import Path

import psycopg
import pytest

from ao_runner.store.opening import StorePlace
from ao_runner.store.store import Store
from tests.faults.fleet.hosts import Fleet, Host, await_end, broken_promises
from tests.faults.worker.working import until
from tests.postgres_server import PostgresServer, require_server
from tests.process.runner.postgres.acting import ao_at

pytestmark = pytest.mark.slow  # a worker beside a query that lasts, twice

WEEKS = 20
PRUNE = ("store", "prune", "--older-than", "30d", "--json")


def add_old_weeks(store: Store) -> None:
    """Add the tables of some weeks of long ago, each with an event."""
    for week in (date(2020, 1, 6) + timedelta(weeks=number) for number in range(WEEKS)):
        name, behind = f"events_{week:%Y_%m_%d}", week + timedelta(weeks=1)
        store.write(f"CREATE TABLE {name} PARTITION OF events FOR VALUES FROM ('{week}') TO ('{behind}')")
        store.write("INSERT INTO events (week, run_id, seq, last_seq, line) VALUES (?, 'old', 1, 1, '{}')", (week,))


def test_pruning_beside_a_worker_gives_up_or_drops_old_weeks_and_no_event_of_a_run_is_lost(tmp_path: Path) -> None:
    require_server()
    fleet, ao = Fleet(tmp_path / "fleet"), ao_at(tmp_path)
    with PostgresServer() as server:
        url = server.new_database()
        host = Host(fleet, "host", url, ("--concurrency", "10"))
        with StorePlace(tmp_path / "submitter", url).open() as store:
            add_old_weeks(store)
            runs = fleet.submit(store, ["50 20"] * 100)
            host.start()
            ended = "SELECT count(*) FROM runs WHERE status = 'completed'"
            try:
                until(lambda: store.fetch(ended)[0][0] > 0, "no run ends")
                with psycopg.connect(url) as reader:
                    reader.execute("SELECT count(*) FROM events")
                    refused = ao(*PRUNE, AO_STORE=url)
                    ((before,),) = store.fetch(ended)
                    until(lambda: store.fetch(ended)[0][0] > before + 10, "the worker does not go on")
                dropped = ao(*PRUNE, AO_STORE=url)
                ((open_runs,),) = store.fetch("SELECT count(*) FROM runs WHERE status IN ('queued', 'running')")
                await_end(store)
                exit_code = host.leave()
            finally:
                host.kill()
        broken, outcomes = broken_promises(fleet, url, runs)
    assert (refused.exit_code, "another session uses its tables" in refused.stderr) == (1, True)
    assert (dropped.exit_code, len(dropped.document["dropped"])) == (0, WEEKS)
    assert open_runs > 0
    assert (exit_code, broken, outcomes) == (0, {}, {"completed": 100})

"""Claims, heartbeats and events of a PostgreSQL store while somebody holds an old snapshot open, as a backup does.

usage: python -m tests.benchmarks.old_snapshot [--seconds S]

Prints JSON. Runs are queued, claimed, given three events each and ended, for S seconds without and S seconds with a
transaction that was open before. One run goes on all the time and gets an event in each round. The times are 95th
percentiles in milliseconds, of the last quarter of the rounds, and `versions` is how many old versions of rows of
`runs` the server keeps at the end.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from ao_runner.store.opening import StorePlace
from ao_runner.store.store import Store
from tests.postgres_server import PostgresServer
from tests.process.runner.coordinators.lines import said
from tests.process.runner.postgres.acting import add_history, begin, claim, enqueue

RUNS_AT_ONCE, EVENTS = 10, 3


def act(store: Store, seconds: float, number: int) -> dict[str, Any]:
    times: defaultdict[str, list[float]] = defaultdict(list)

    def timed(what: str, step: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        (returned,) = store.commit_together([step])
        times[what].append((time.perf_counter() - began) * 1000)
        return returned

    until, rounds = time.monotonic() + seconds, 0
    begin(store, "worker", f"long_{number}")
    while time.monotonic() < until:
        rounds += 1
        names = [f"run_{number}_{rounds}_{one}" for one in range(RUNS_AT_ONCE)]
        for name in names:
            enqueue(store, name)
        for claimed in timed("claim", partial(claim, store, "worker", RUNS_AT_ONCE)):
            run_id = claimed.run.run_id
            for seq in range(1, EVENTS + 1):
                timed("event", partial(store.events.add_of_attempt, run_id, 1, seq, [said(seq, "x")]))
            store.runs.end(run_id, "completed", "", None)
        timed("event_of_a_long_run", partial(store.events.add_of_attempt, f"long_{number}", 1, rounds, [said(1, "x")]))
        timed("heartbeat", partial(store.workers.renew_leases, "worker", 60))
        timed("orders", partial(store.workers.requests_to, "worker"))
    ((versions,),) = store.fetch("SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'runs'")
    p95 = {what: round(statistics.quantiles(some[-len(some) // 4 :], n=20)[-1], 2) for what, some in times.items()}
    return {"runs": rounds * RUNS_AT_ONCE, "versions": versions, "p95_ms": p95}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20)
    seconds = parser.parse_args().seconds
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer(fsync="on"))
        home = stack.enter_context(tempfile.TemporaryDirectory())
        store = stack.enter_context(StorePlace(Path(home), server.new_database()).open())
        add_history(store, 20_000)
        store.write("ANALYZE")
        found = {"without": act(store, seconds, 1)}
        with psycopg.connect(server.url(store.fetch("SELECT current_database()")[0][0])) as old:
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT count(*) FROM runs")
            found["with"] = act(store, seconds, 2)
    print(json.dumps({"seconds": seconds, **found}, indent=2))


if __name__ == "__main__":
    main()

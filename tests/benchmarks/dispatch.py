"""Time from the submission of a run to the start of its executor, with workers of two hosts and one PostgreSQL server.

usage: python -m tests.benchmarks.dispatch [--runs N] [--rate R] [--seconds S]

Prints JSON, in milliseconds. `idle` is of N runs, one after the other, with idle workers; its moments are random, so
that polls would be seen. `busy` is of runs of half a second with twenty events each, R a second for S seconds; in
`busy_with_echo` another R runs a second pass, of the executor `echo`, each of which starts a Python. The time begins
before the transaction that stores the run, and ends at the first statement of the executor, which is a program in C;
workers and server share the machine.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ao_runner.runs.submission import new_run_id, new_session_id
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.store import Store
from tests.faults.fleet.hosts import Fleet, Host, await_end, latencies
from tests.faults.worker.working import until
from tests.postgres_server import PostgresServer

HALF_A_SECOND = "20 25"


def busy_latencies(fleet: Fleet, store: Store, given: argparse.Namespace, beside: str | None) -> list[float]:
    """Return the seconds of each run of a load, some runs a second, beside as many of another executor."""
    submitted: dict[str, float] = {}
    began = time.monotonic()
    for number in range(int(given.rate * given.seconds)):
        time.sleep(max(0.0, began + number / given.rate - time.monotonic()))
        if beside is not None:
            session = Session(new_session_id(), timestamp(), beside, beside, str(fleet.project), {"name": "a"})
            other = Run(new_run_id(), session.session_id, "start", {"prompt": "hi"}, timestamp(), "queued")
            with store.transaction():
                store.sessions.add(session)
                store.queue.add(replace(other, profile=beside))
        at = time.time()
        (run_id,) = fleet.submit(store, [HALF_A_SECOND])
        submitted[run_id] = at
    await_end(store)
    return [fleet.started_at(run_id)[0] - at for run_id, at in submitted.items()]


def figures(seconds: Sequence[float]) -> dict[str, Any]:
    cuts = statistics.quantiles(seconds, n=20)
    return {
        "runs": len(seconds),
        "p50": round(statistics.median(seconds) * 1000, 1),
        "p95": round(cuts[-1] * 1000, 1),
        "max": round(max(seconds) * 1000, 1),
        "load_average": round(os.getloadavg()[0], 1),
    }


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    fleet = Fleet(folder / "fleet")
    with ExitStack() as stack:
        url = stack.enter_context(PostgresServer(fsync="on")).new_database()
        hosts = [Host(fleet, name, url, ("--concurrency", "10")) for name in ("first", "second")]
        for host in hosts:
            stack.callback(host.kill)
            host.start()
        store = stack.enter_context(StorePlace(folder / "submitter", url).open())
        until(lambda: len(store.workers.living()) == len(hosts), "the workers do not come")
        latencies(fleet, store, 5)  # caches, and compiled files
        found = {"idle": figures(latencies(fleet, store, given.runs))}
        for name, beside in (("busy", None), ("busy_with_echo", "echo")):
            found[name] = figures(busy_latencies(fleet, store, given, beside))
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--rate", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(given, Path(folder))
    about = {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "rate": given.rate,
    }
    print(json.dumps(about | found, indent=2))


if __name__ == "__main__":
    main()

"""What workers, runs and events cost the server of a PostgreSQL store, to work out how many of them it carries.

usage: python -m tests.benchmarks.server_load [--workers W] [--seconds S]

Prints JSON. W real workers with ten slots wait, are woken in vain, perform four short runs a second, hold ten silent
runs each, and ten runs each that say something four times a second, for S seconds each time. What they do anyway is
subtracted: waiting from the rest, and waking from runs. `cpu_ms` is processor time of the connections of workers and
of the server's background writers. `stored_bytes` is what tables and indexes grow by; the texts are from SPEC.md.
"""

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psycopg

from ao_runner.runs.submission import new_run_id, new_session_id
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, RunRecord, Session, timestamp
from ao_runner.store.store import Store
from ao_runner.store.worker_table import Offer
from tests.benchmarks.working import SHELL, working
from tests.postgres_server import PostgresServer
from tests.process.runner.coordinators.lines import result, said

SLOTS: Final = 10
STORED: Final = 2000
SPEC: Final = Path(__file__).parents[2] / "protocol" / "SPEC.md"
END: Final = '"result_text":"done","result_data":null,"stop_reason":"end_turn"'
STOPPED: Final = '"type":"cancelled","message":"stopped","retryable":false,"side_effects":"none","origin":"caller"'
MESSAGE: Final = '"role":"assistant","content":[{"type":"text","text":"' + "x" * 100 + '"}]'
EXECUTORS: Final = {
    "short": f"{SHELL}say result 2 '{END}'\n",
    "silent": f'{SHELL}read -r control\nsay failure 2 \'"status":"cancelled","error":{{{STOPPED}}}\'\nexit 130\n',
    "talking": f"{SHELL}n=1\nwhile sleep 0.25; do n=$((n + 1)); say message $n '{MESSAGE}'; done\n",
}
COUNTERS: Final = """
SELECT (SELECT sum(calls) FROM stats.pg_stat_statements WHERE userid = 'worker'::regrole)::float8,
       pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8
"""
SIZE: Final = """
SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
CONNECTIONS: Final = """
SELECT pid::float8 FROM pg_stat_activity WHERE usename = 'worker' AND datname = current_database()
"""
NAMES: Final = ("statements", "wal_bytes", "cpu_ms")
Cost = dict[str, float]


def counters(sql: "psycopg.Connection[tuple[float, ...]]") -> Cost:
    rows = sql.execute("SELECT pid::float8 FROM pg_stat_activity WHERE usename IS DISTINCT FROM 'ao'").fetchall()
    nanoseconds = sum(int(Path(f"/proc/{pid:.0f}/schedstat").read_text().split()[0]) for (pid,) in rows)
    return dict(zip(NAMES, (*(sql.execute(COUNTERS).fetchone() or ()), nanoseconds / 1e6), strict=True))


def wait(sql: "psycopg.Connection[tuple[float, ...]]", condition: str) -> None:
    until = time.monotonic() + 60
    while sql.execute(f"SELECT {condition} FROM runs").fetchone() != (True,):  # noqa: S608  # own words
        if time.monotonic() > until:
            raise TimeoutError(condition)
        time.sleep(0.1)


def enqueue(store: Store, executor: str) -> Run:
    session = Session(new_session_id(), timestamp(), executor, executor, "/", {"name": "agent"}, profile=executor)
    run = Run(new_run_id(), session.session_id, "start", {"prompt": "hi"}, timestamp(), "queued")
    with store.transaction():
        store.sessions.add(session)
        store.queue.add(replace(run, profile=executor))
    return run


def fill(store: Store, sql: "psycopg.Connection[tuple[float, ...]]", workers: int, executor: str) -> None:
    for _ in range(SLOTS * workers):
        enqueue(store, executor)
    store.notify()
    wait(sql, f"count(*) FILTER (WHERE status = 'running' AND last_seq > 0) = {SLOTS * workers}")


def empty(store: Store, sql: "psycopg.Connection[tuple[float, ...]]") -> None:
    store.write("UPDATE runs SET stop_wanted = 2 WHERE status = 'running'")
    store.notify()
    wait(sql, "count(*) FILTER (WHERE record IS NULL) = 0")


def repeat(times: int, act: Callable[[], object]) -> None:
    for _ in range(times):
        act()
        time.sleep(0.25)


def costs(store: Store, sql: "psycopg.Connection[tuple[float, ...]]", workers: int, seconds: float) -> dict[str, Cost]:
    """Return what workers, wake-ups, runs and events cost."""

    def cost(act: Callable[[], object], units: float, *others: tuple[float, Cost]) -> Cost:
        """Return what an act costs by unit, without what other things cost that happen meanwhile."""
        before = counters(sql)
        act()
        grown = {name: value - before[name] for name, value in counters(sql).items()}
        return {name: (grown[name] - sum(times * each[name] for times, each in others)) / units for name in NAMES}

    def submit() -> None:
        enqueue(store, "short")
        store.notify()

    times = int(seconds * 4)
    waiting = cost(lambda: time.sleep(seconds), workers * seconds)
    meanwhile = (workers * seconds, waiting)
    waking = cost(lambda: repeat(times, store.notify), workers * times, meanwhile)
    run = cost(lambda: repeat(times, submit), times, meanwhile, (workers * times, waking))
    fill(store, sql, workers, "silent")
    full = cost(lambda: time.sleep(seconds), workers * seconds)
    empty(store, sql)
    fill(store, sql, workers, "talking")
    before = store.fetch("SELECT sum(last_seq) FROM runs")
    event = cost(lambda: time.sleep(seconds), 1, (workers * seconds, full))
    events = store.fetch("SELECT sum(last_seq) FROM runs")[0][0] - before[0][0]
    empty(store, sql)
    return {
        "a_waiting_worker_a_second": waiting,
        "a_worker_that_is_woken_in_vain": waking,
        "a_run_of_two_events": run,
        "a_worker_with_silent_runs_a_second": full,
        "an_event_of_a_talking_run": {name: value / float(events) for name, value in event.items()},
    }


def stored_bytes(store: Store) -> dict[str, float]:
    """Return what a run and its events take on the disk of the server."""

    def growth(act: Callable[[], object]) -> float:
        ((before,),) = store.fetch(SIZE)
        act()
        return float(store.fetch(SIZE)[0][0] - before) / STORED

    def perform() -> None:
        for _ in range(STORED):
            run = enqueue(store, "x")
            with store.transaction():
                store.queue.claim(Offer("worker"), 1, lambda *_: None)
                store.queue.begin(run.run_id, 1, timestamp())
                store.events.add_of_attempt(run.run_id, 1, 1, [result(1)])
                store.runs.end(run.run_id, "completed", timestamp(), None)
                store.runs.add_record(run.run_id, RunRecord(("executor",)))

    def talk(run_id: str, together: int) -> None:
        for first in range(0, STORED, together):
            lines = [said(seq + 1, text[seq * 100 : seq * 100 + 100], run_id) for seq in range(first, first + together)]
            store.events.add_of_attempt(run_id, 1, first + 1, lines)

    text = SPEC.read_text() * 5
    running = [enqueue(store, "x").run_id for _ in range(2)]
    with store.transaction():
        store.queue.claim(Offer("worker"), 2, lambda *_: None)
    return {
        "a_run": growth(perform),
        "an_event_stored_alone": growth(lambda: talk(running[0], 1)),
        "an_event_stored_with_a_hundred": growth(lambda: talk(running[1], 100)),
        "of_which_the_line": float(len(said(1, "x" * 100, running[0]))),
    }


def private_bytes(pid: int) -> int:
    """Return the memory of a process that it shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=15)
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        profiles = {name: f"executor: {folder / name}\n" for name in EXECUTORS}
        for name, script in EXECUTORS.items():
            (folder / name).write_text(script)
            (folder / name).chmod(0o700)
        server = stack.enter_context(PostgresServer(fsync="on", shared_preload_libraries="pg_stat_statements"))
        urls = [server.new_database().replace("ao@", "worker@") for _ in range(2)]
        sql = stack.enter_context(psycopg.connect(urls[0].replace("worker@", "ao@"), autocommit=True))
        sql.execute("CREATE ROLE worker SUPERUSER LOGIN")
        sql.execute("CREATE SCHEMA stats")
        sql.execute("CREATE EXTENSION pg_stat_statements SCHEMA stats")
        store, other = (stack.enter_context(StorePlace(folder, url).open()) for url in urls)
        for number in range(given.workers):
            options = ("--store", urls[0], "--concurrency", str(SLOTS))
            stack.enter_context(working(folder / str(number), *options, profiles=profiles))
        found = costs(store, sql, given.workers, given.seconds)
        connections = [int(pid) for (pid,) in sql.execute(CONNECTIONS).fetchall()]
        figures = {
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "connections_of_a_worker": (len(connections) - 1) / given.workers,
            "private_bytes_of_a_connection": round(sum(map(private_bytes, connections)) / len(connections)),
            "costs": {what: {name: round(value, 2) for name, value in cost.items()} for what, cost in found.items()},
            "stored_bytes": {what: round(value) for what, value in stored_bytes(other).items()},
        }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

"""Hosts of one PostgreSQL database, and SIGKILL to workers and to the server at random: every run ends once.

usage: python -m tests.faults.fleet.soak [--minutes M] [--workers N] [--concurrency C] [--seed S]

Prints JSON, and exits with 1 if a promise is broken. The server syncs each commit to its disk. A submitter keeps more
runs in the queue than there are free slots; each run emits numbered events for some seconds. A killed worker is started
again at once, or so late that another host may have ended its runs. Before and after the faults, single runs show how
long it takes from a submission to the start of the executor while all slots are idle.
"""

import argparse
import json
import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import Any, Final, Literal

from ao_runner.store.opening import StorePlace
from ao_runner.store.store import Store
from ao_runner.store.store_errors import StoreUnreachable
from tests.faults.fleet.hosts import SECONDS, Fleet, Host, await_end, broken_promises, latencies
from tests.postgres_server import PostgresServer

Fault = Literal["kill a worker", "kill the server"]

LEASE_SECONDS: Final = 10
SPARE_RUNS: Final = 50
"""Runs in the queue beyond those that have a slot."""
PROMISED_SECONDS: Final = 0.1
"""The promised p95 from a submission to the start while slots are idle."""


@dataclass
class Soak:
    """Hosts under load, and the faults that happen to them."""

    fleet: Fleet
    server: PostgresServer
    store: Store
    hosts: list[Host]
    chance: random.Random
    pause_milliseconds: int
    """Between the events of a run."""
    submitted: list[str] = field(default_factory=list)
    """The runs whose submission was answered."""
    unanswered_submissions: int = 0
    killed: dict[Fault, int] = field(default_factory=lambda: {"kill a worker": 0, "kill the server": 0})
    _start_at: dict[str, float] = field(default_factory=dict)

    def load(self, seconds: float) -> None:
        """Keep the queue filled for some time, and start killed workers again."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._fill()
            self.revive(time.monotonic())
            time.sleep(0.05)

    def revive(self, now: float) -> None:
        """Start the workers again whose time has come."""
        for host in self.hosts:
            if host.process is None and now >= self._start_at[host.name]:
                host.start()

    def inject(self, fault: Fault) -> None:
        """Kill a worker, or all processes of the server, which is started again."""
        self.killed[fault] += 1
        if fault == "kill the server":
            self.server.stop(signal.SIGKILL)
            time.sleep(self.chance.uniform(0, 3))
            self.server.start()
            return
        self.revive(float("inf"))
        host = self.chance.choice(self.hosts)
        host.kill()
        self._start_at[host.name] = time.monotonic() + self.chance.choice([0, self.chance.uniform(5, 20)])

    def _fill(self) -> None:
        try:
            ((queued,),) = self.store.fetch("SELECT count(*) FROM runs WHERE status = 'queued'")
            prompts = [f"{self.chance.randint(8, 40)} {self.pause_milliseconds}" for _ in range(SPARE_RUNS - queued)]
            if prompts:
                self.submitted += self.fleet.submit(self.store, prompts)
        except StoreUnreachable:
            self.unanswered_submissions += 1


def soak(
    folder: Path,
    workers: int,
    concurrency: int,
    faults: Iterable[tuple[float, Fault]],
    *,
    samples: int,
    pause_milliseconds: int = 250,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the figures of a fleet that bears the faults, each after some seconds of load; `broken` is empty if well.

    Args:
        folder: An empty folder for the hosts.
        workers: The number of hosts, with one worker each.
        concurrency: The concurrent runs of each.
        faults: The seconds of load before each fault, and the fault.
        samples: The runs of each of the two quiet phases.
        pause_milliseconds: The time between the events of a run, of which it has 8 to 40.
        seed: Of everything that is random.
    """
    with PostgresServer(fsync="on") as server:
        url, fleet = server.new_database(), Fleet(folder)
        options = ("--concurrency", str(concurrency), "--lease", str(LEASE_SECONDS))
        hosts = [Host(fleet, f"host-{number}", url, options) for number in range(workers)]
        with StorePlace(folder / "submitter", url).open() as store:
            try:
                run = Soak(fleet, server, store, hosts, random.Random(seed), pause_milliseconds)
                quiet, exit_codes = _bear(run, faults, samples)
                broken, outcomes = broken_promises(fleet, url, run.submitted)
            finally:
                for host in hosts:
                    host.kill()
            ((events,),) = store.fetch("SELECT sum(last_seq) FROM runs")
    if any(exit_codes):
        broken["a worker delivers everything before it leaves"] = list(map(str, exit_codes))
    return {
        "submitted": len(run.submitted),
        "submissions_without_an_answer": run.unanswered_submissions,
        "killed_workers": run.killed["kill a worker"],
        "killed_servers": run.killed["kill the server"],
        "outcomes": dict(outcomes),
        "events": int(events),
        **{f"submit_to_start_p95_ms_{phase}": round(1000 * p95(seconds), 1) for phase, seconds in quiet.items()},
        "broken": broken,
    }


def _bear(soak: Soak, faults: Iterable[tuple[float, Fault]], samples: int) -> tuple[dict[str, list[float]], list[int]]:
    for host in soak.hosts:
        host.start()
    soak.fleet.submit(soak.store, ["1 0"] * 2 * len(soak.hosts))  # the first claims of a worker import what they need
    await_end(soak.store)
    before = latencies(soak.fleet, soak.store, samples)
    for seconds, fault in faults:
        soak.load(seconds)
        soak.inject(fault)
    soak.load(5)
    soak.revive(float("inf"))
    await_end(soak.store, 2 * SECONDS)
    after = latencies(soak.fleet, soak.store, samples)
    return {"before": before, "after": after}, [host.leave() for host in soak.hosts]


def p95(seconds: list[float]) -> float:
    """Return the 95th percentile."""
    return quantiles(seconds, n=20, method="inclusive")[-1]


def random_faults(minutes: float, chance: random.Random) -> Iterator[tuple[float, Fault]]:
    """Yield faults at random until the time is up."""
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        yield chance.uniform(5, 25), chance.choice(["kill a worker", "kill a worker", "kill the server"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    parser.add_argument(
        "--folder", type=Path, help="keep the hosts and their logs in this folder, which must not exist"
    )
    given = parser.parse_args()
    faults = random_faults(given.minutes, random.Random(given.seed))
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch) / "fleet"
        figures = soak(folder, given.workers, given.concurrency, faults, samples=100, seed=given.seed)
    late = max(figures["submit_to_start_p95_ms_before"], figures["submit_to_start_p95_ms_after"])
    is_late = late >= 1000 * PROMISED_SECONDS
    if is_late:
        figures["broken"]["a run starts within 100 ms while slots are idle (p95)"] = [f"{late} ms"]
    about = {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **{name: getattr(given, name) for name in ("minutes", "workers", "concurrency", "seed")},
    }
    print(json.dumps(about | figures, indent=2))
    sys.exit(bool(figures["broken"]))


if __name__ == "__main__":
    main()

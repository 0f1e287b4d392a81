"""How fast the outbox makes events durable, delivers them and is read again, against plain writes of the same bytes.

usage: python tests/benchmarks/outbox.py [--events N] [--runs N] [--rounds N] [--folder FOLDER]

Prints JSON. Events have 200 bytes and come in calls of 1,000; a group is synced every 5 ms, and so is the plain file:
the same lines, joined, one write and one fdatasync per group. `ratio` is what the outbox reaches of it. The folder
should be on the disk that is meant; the page cache serves the reading.
"""

import argparse
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.run_events import RunKey

CALL = 1000
GROUP_SECONDS = 0.005
OPTIONS = OutboxOptions(quota_bytes=8 << 30)
LINES = [b'{"event_type":"log","seq":%07d,"message":"' % seq + b"x" * 155 + b'"}' for seq in range(CALL)]


def spool(folder: Path, events: int, runs: int) -> tuple[float, int]:
    """Return seconds and groups until all is durable."""
    keys = [RunKey(f"run_{number}", 1) for number in range(runs)]
    with Outbox(folder, OPTIONS) as outbox:
        began = synced = time.perf_counter()
        groups = 0
        for call in range(events // CALL):
            outbox.append(keys[call % runs], call // runs * CALL + 1, LINES)
            if time.perf_counter() - synced >= GROUP_SECONDS:
                outbox.sync()
                groups += 1
                synced = time.perf_counter()
        outbox.sync()
        return time.perf_counter() - began, groups + 1


def write_plainly(folder: Path, events: int, _: int) -> tuple[float, int]:
    """Return the same for a file of lines and nothing else."""
    folder.mkdir()
    with (folder / "plain").open("wb", buffering=0) as file:
        began = synced = time.perf_counter()
        groups, group = 0, list[bytes]()
        for call in range(events // CALL):
            group.append(b"\n".join(LINES) + b"\n")
            if time.perf_counter() - synced >= GROUP_SECONDS or call == events // CALL - 1:
                file.write(b"".join(group))
                os.fdatasync(file.fileno())
                groups += 1
                group.clear()
                synced = time.perf_counter()
        return time.perf_counter() - began, groups


def measure(way: Callable[[Path, int, int], tuple[float, int]], folder: Path, events: int, runs: int) -> float:
    seconds, groups = way(folder, events, runs)
    MILLISECONDS_PER_GROUP.setdefault(way.__name__, []).append(seconds / groups * 1000)
    return events / seconds


MILLISECONDS_PER_GROUP: dict[str, list[float]] = {}


def deliver(outbox: Outbox) -> tuple[float, int]:
    """Return seconds and events for handing out and acknowledging all there is, in batches of 1,000."""
    began, events = time.perf_counter(), 0
    for state in outbox.open_keys():
        while batch := outbox.next_batch(state.key):
            events += batch.last_seq - batch.first_seq + 1
            outbox.acknowledge(state.key, batch.last_seq)
    return time.perf_counter() - began, events


def follow(folder: Path, calls: int) -> tuple[float, int]:
    """Return seconds and events for handing out and acknowledging each call's events when they are durable."""
    key, delivering = RunKey("run", 1), 0.0
    with Outbox(folder, OPTIONS) as outbox:
        for call in range(calls):
            outbox.append(key, call * CALL + 1, LINES)
            outbox.sync()
            delivering += deliver(outbox)[0]
    return delivering, calls * CALL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    spooled, plain, ratios = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        for _ in range(given.rounds):
            for way, rates in ((spool, spooled), (write_plainly, plain)):
                shutil.rmtree(folder / way.__name__, ignore_errors=True)
                rates.append(measure(way, folder / way.__name__, given.events, given.runs))
            ratios.append(spooled[-1] / plain[-1])
        began = time.perf_counter()
        with Outbox(folder / "spool", OPTIONS) as outbox:
            recovery = time.perf_counter() - began
            size = outbox.used_bytes
            seconds, events = deliver(outbox)
        follow_seconds, followed = follow(folder / "followed", 200)
    report = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} cores",
        "events": given.events,
        "durable_events_per_second": {"outbox": round(median(spooled)), "plain": round(median(plain))},
        "ratio": {"median": round(median(ratios), 2), "each": [round(ratio, 2) for ratio in ratios]},
        "milliseconds_per_group": {way: round(median(all_), 1) for way, all_ in MILLISECONDS_PER_GROUP.items()},
        "recovery_seconds_per_100_mb": round(recovery / size * 1e8, 3),
        "delivered_events_per_second": {
            "from files": round(events / seconds),
            "from memory": round(followed / follow_seconds),
        },
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

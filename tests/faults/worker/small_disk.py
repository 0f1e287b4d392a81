"""A worker whose outbox is on a small disk that fills up while runs are performed, until the worker says so.

usage: python -m tests.faults.worker.small_disk DISK HOME      writes what the worker's log said as a JSON list
"""

import asyncio
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.outbox.outbox import OutboxOptions
from ao_runner.processes.containment import lifelines, probe
from ao_runner.runs.attempt import ColdLauncher
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import own_runs
from ao_runner.store.worker_table import Offer
from ao_runner.worker.assignment import Host
from ao_runner.worker.claiming import Needs
from ao_runner.worker.delivery import take_outbox
from ao_runner.worker.worker import Worker


@dataclass
class Remembering:
    """A log that makes room on the disk when it hears of an error."""

    ballast: Path
    heard: list[str] = field(default_factory=list)

    def info(self, event: str, **_: object) -> None:
        self.heard.append(event)

    def warning(self, event: str, **_: object) -> None:
        self.heard.append(event)

    def error(self, event: str, **_: object) -> None:
        self.heard.append(event)
        self.ballast.unlink(missing_ok=True)


async def work(disk: Path, home: Path) -> list[str]:
    log = Remembering(disk / "ballast")
    options = OutboxOptions()
    with own_runs(home) as owner, lifelines(probe(os.environ)) as lines, take_outbox(disk, options) as outbox:
        fill(log.ballast, disk)
        worker = Worker(
            coordinator=StoreCoordinator(StorePlace(home), Offer(owner)),
            outbox=outbox,
            folder=disk,
            launcher=ColdLauncher(lines),
            host=Host(home, os.environ),
            log=log,
            needs=Needs(memory_bytes=0, disk_bytes=0),
            until_idle=True,
        )
        left = await worker.work()
    assert left.undelivered_runs == 0
    return log.heard


def fill(ballast: Path, disk: Path) -> None:
    """Leave room for some events."""
    left = os.statvfs(disk)
    ballast.write_bytes(bytes(left.f_bavail * left.f_frsize - 40_000))


if __name__ == "__main__":
    json.dump(asyncio.run(work(Path(sys.argv[1]), Path(sys.argv[2]))), sys.stdout)

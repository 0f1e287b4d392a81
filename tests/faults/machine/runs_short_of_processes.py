"""Performs a run again and again, each time with one more process to be had, and tells how each ended, as JSON.

usage: runs_short_of_processes.py FOLDER

It has to be a user's only process, and that user's processes have to be counted. The last run told of is the first
that had enough.
"""

import asyncio
import json
import resource
import sys
from pathlib import Path

from ao_protocol.events import Failure
from ao_runner.processes.containment import lifelines, probe
from ao_runner.runs.attempt import ColdLauncher
from ao_runner.runs.run import perform_run
from ao_runner.runs.run_request import StopRequests
from tests.faults.remembering import Memory, check_whole, order_of

MOST = 10


async def perform(folder: Path) -> tuple[str, str]:
    memory = Memory()
    with lifelines(probe({})) as lines:
        order = order_of("answers_at_once.py", folder)
        terminal = await perform_run(order, memory, StopRequests(), ColdLauncher(lines))
    check_whole(memory)
    return (terminal.error.type, terminal.error.message) if isinstance(terminal, Failure) else ("result", "")


async def main() -> list[tuple[str, str]]:
    folder = Path(sys.argv[1])
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    told: list[tuple[str, str]] = []
    while not told or told[-1][0] != "result":
        resource.setrlimit(resource.RLIMIT_NPROC, (1 + len(told), hard))
        told.append(await perform(folder))
        assert len(told) < MOST
    return told


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main())))

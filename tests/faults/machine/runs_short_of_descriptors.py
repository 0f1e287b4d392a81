"""Performs a run again and again, each time with one more descriptor to be had, and tells how each ended, as JSON.

usage: runs_short_of_descriptors.py FOLDER begun|described|orphaned

The bound holds from that moment of the run on: orphaned is described, and the keeper of lifelines is killed then. The
last run told of is the first that had enough.
"""

import asyncio
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ao_lifeline.lifelines import Lifelines
from ao_protocol.events import Failure
from ao_runner.processes.containment import lifelines, probe
from ao_runner.runs.attempt import ColdLauncher
from ao_runner.runs.run import perform_run
from ao_runner.runs.run_request import StopRequests
from tests.faults.remembering import Memory, check_whole, order_of

MOST = 40


def descriptors() -> list[str]:
    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


@contextmanager
def descriptors_to_be_had(room: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, descriptors()))
    fillers = []
    while (filler := os.dup(0)) <= highest:
        fillers.append(filler)
    os.close(filler)
    resource.setrlimit(resource.RLIMIT_NOFILE, (filler + room, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for filler in fillers:
            os.close(filler)


def kill_children() -> None:
    for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
        os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOWAIT)


async def perform(folder: Path, since: str, room: int, lines: Lifelines | None) -> tuple[str, str]:
    with ExitStack() as bound:

        def react(moment: str) -> None:
            if moment == "described" and since == "orphaned":
                kill_children()
            if moment == ("begun" if since == "begun" else "described"):
                bound.enter_context(descriptors_to_be_had(room))

        react("begun")
        memory = Memory(react)
        order = order_of("answers_at_once.py", folder)
        terminal = await perform_run(order, memory, StopRequests(), ColdLauncher(lines))
    check_whole(memory)
    return (terminal.error.type, terminal.error.message) if isinstance(terminal, Failure) else ("result", "")


async def main() -> list[tuple[str, str]]:
    folder, since = Path(sys.argv[1]), sys.argv[2]
    told: list[tuple[str, str]] = []
    with lifelines(probe({})) as lines:
        await perform(folder, since, MOST, lines)
        before = descriptors()
        while not told or told[-1][0] != "result":
            told.append(await perform(folder, since, len(told), lines))
            assert len(descriptors()) <= len(before)
            assert len(told) < MOST
        assert len(descriptors()) == len(before)
    return told


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main())))

"""A runner that was held up does not take its own silence for the executor's."""

import asyncio
import os
from pathlib import Path

from ao_protocol.events import Result
from ao_runner.processes.containment import lifelines, probe
from ao_runner.run_events import Relayed
from ao_runner.runs.attempt import ColdLauncher
from ao_runner.runs.run import perform_run
from ao_runner.runs.run_request import GracePeriods, StopRequests
from tests.faults.remembering import Memory, check_whole, order_of
from tests.process.lifeline.leftovers import processes_in

HASTY = GracePeriods(0.01, 0.01, 0.01, 0.01, 30)


def test_what_was_said_while_the_runner_was_held_up_counts_as_heard(tmp_path: Path) -> None:
    pipe = tmp_path / "heard"
    os.mkfifo(pipe)

    def hold_up(item: Relayed) -> None:
        if item.event_type == "heartbeat" and pipe.exists():
            pipe.read_bytes()
            pipe.unlink()

    memory = Memory(hear=hold_up)
    order = order_of("waits_to_be_heard.py", tmp_path, heartbeat_seconds=0.05, grace_periods=HASTY)

    async def perform() -> None:
        with lifelines(probe(os.environ)) as lines:
            terminal = await perform_run(order, memory, StopRequests(), ColdLauncher(lines))
        assert isinstance(terminal, Result)

    asyncio.run(perform())
    check_whole(memory)
    assert not pipe.exists()
    assert processes_in(tmp_path, 2.0) == []

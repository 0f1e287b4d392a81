"""Cancel, time limit and exit come in any order, and every run ends once, as the one that came first says."""

import asyncio
import gc
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ao_lifeline.lifelines import Lifelines
from ao_protocol.documents import Description
from ao_protocol.events import Failure
from ao_runner.discovery import Executor
from ao_runner.processes.containment import lifelines, probe
from ao_runner.runs.attempt import ColdLauncher
from ao_runner.runs.run import perform_run
from ao_runner.runs.run_request import GracePeriods, StopRequests
from ao_runner.runs.supervision import DEADLINE_MARGIN_SECONDS
from tests.faults.remembering import Memory, check_whole, order_of
from tests.process.lifeline.leftovers import processes_in

AT_ONCE = 100
SPREAD_SECONDS = 0.15
LATEST_SECONDS = DEADLINE_MARGIN_SECONDS + 2 * SPREAD_SECONDS
GRACE_PERIODS = GracePeriods(
    ask_seconds=0.02, close_stdin_seconds=0.02, leave_seconds=30, terminate_seconds=0.02, kill_seconds=30
)
"""Whoever leaves by itself may take its time on a busy machine; whoever is stopped may not."""


@dataclass(frozen=True)
class Race:
    """When what happens, in seconds from the start; the run's own end leads to `ending`."""

    ends_at: float
    ending: str
    limit: float | None
    cancels_at: float | None
    kills_at: float | None

    @classmethod
    def drawn(cls, chance: random.Random) -> "Race":
        middle = chance.choice([0.0, DEADLINE_MARGIN_SECONDS])

        def moment() -> float:
            return max(0.001, chance.uniform(middle - SPREAD_SECONDS, middle + SPREAD_SECONDS))

        limit = max(0.001, moment() - DEADLINE_MARGIN_SECONDS) if chance.random() < 0.5 else None
        cancels_at = moment() if chance.random() < 0.7 else None
        kills_at = None if cancels_at is None or chance.random() < 0.5 else cancels_at + chance.uniform(0, 0.05)
        return cls(moment(), chance.choice(["result", "silent", "killed"]), limit, cancels_at, kills_at)


class AskedOnce(ColdLauncher):
    """Remembers what the executor says of itself, as the launcher of a worker does."""

    def __init__(self, lines: Lifelines | None) -> None:
        super().__init__(lines)
        self._asking = asyncio.Lock()
        self._known: Description | None = None

    async def describe(self, executor: Executor, environment: Mapping[str, str]) -> Description:
        async with self._asking:
            self._known = self._known or await super().describe(executor, environment)
        return self._known


async def run(race: Race, project: Path, launcher: AskedOnce) -> Memory:
    memory, stops = Memory(), StopRequests()
    parameters = {"prompt": "x", "seconds": f"{race.ends_at:.3f}", "ending": race.ending}
    order = order_of(
        "ends_in_its_own_time", project, parameters=parameters, timeout_seconds=race.limit, grace_periods=GRACE_PERIODS
    )
    for moment in (race.cancels_at, race.kills_at):
        if moment is not None:
            asyncio.get_running_loop().call_later(moment, stops.request)
    await perform_run(order, memory, stops, launcher)
    return memory


def check(race: Race, memory: Memory) -> str:
    """Check the end of a run against what the executor did, which its exit code tells; return the kind of the end."""
    check_whole(memory)
    record, terminal = memory.record, memory.events[-1].event.body
    assert record is not None
    error = terminal.error.type if isinstance(terminal, Failure) else "result"
    if record.exit_code is None:
        assert error == "cancelled"
        assert "spawned" not in memory.marks
        return "not started"
    stopped = ({"cancelled", "cancel_timeout"} if race.cancels_at is not None else set()) | (
        {"deadline_exceeded"} if race.limit is not None else set()
    )
    by_a_signal = {"executor_crashed"} if race.ending == "killed" else {"result"} if race.ending == "result" else set()
    allowed = {
        0: {"result"},
        3: {"missing_terminal"} | stopped,
        130: stopped - {"cancel_timeout"},
    }.get(record.exit_code, by_a_signal | stopped)
    assert error in allowed, f"{race} ended with {record.exit_code} after {record.stop_actions} as {error}"
    return error


async def run_all(races: list[Race], project: Path) -> list[Memory]:
    with lifelines(probe(os.environ)) as lines:
        launcher, places = AskedOnce(lines), asyncio.Semaphore(AT_ONCE)

        async def one(race: Race) -> Memory:
            async with places:
                return await run(race, project, launcher)

        return await asyncio.gather(*map(one, races))


def check_all(races: list[Race], project: Path) -> None:
    gc.collect()  # what an earlier test has left must not be closed meanwhile
    before = sorted(entry.name for entry in Path("/proc/self/fd").iterdir())
    memories = asyncio.run(run_all(races, project))
    kinds = {check(race, memory) for race, memory in zip(races, memories, strict=True)}
    assert kinds >= {"result", "missing_terminal", "executor_crashed", "cancelled", "deadline_exceeded"}
    assert processes_in(project, 2.0) == []
    assert sorted(entry.name for entry in Path("/proc/self/fd").iterdir()) == before


@pytest.mark.parametrize(("seed", "races"), [(1, 300), pytest.param(2, 5000, marks=pytest.mark.slow)])
def test_cancel_limit_and_exit_race_and_every_run_ends_once(seed: int, races: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    check_all([Race.drawn(chance) for _ in range(races)], tmp_path)

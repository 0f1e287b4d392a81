"""A busy worker of an HTTP coordinator that is told to leave: it performs each run that it has received."""

from pathlib import Path

import pytest

from tests.faults.worker.serving import Scene, served
from tests.foreign_coordinator.faults import BROKEN

RUNS = [f"run_{number}" for number in range(8)]
SLOTS = 4


def states(scene: Scene) -> list[str]:
    return [scene.server.state.runs[run_id]["status"] for run_id in RUNS]


async def be_full(scene: Scene, prompt: str) -> None:
    """Wait until every slot is taken and the worker holds one more run."""
    for run_id in RUNS:
        scene.enqueue(run_id, prompt)
    full = ["running"] * SLOTS + ["claimed"] + ["pending"] * (len(RUNS) - SLOTS - 1)
    await scene.until(lambda: states(scene) == full, "it is not full")


@pytest.mark.parametrize("fails", [0, 2], ids=["at-once", "when-details-come"])
async def test_a_worker_that_drains_performs_the_run_that_it_holds(tmp_path: Path, fails: int) -> None:
    async with served(tmp_path) as scene:
        async with scene.worker() as (worker, task):
            await be_full(scene, "100 0.01")
            held = [run_id for run_id, state in zip(RUNS, states(scene), strict=True) if state != "pending"]
            scene.server.misbehave(BROKEN, "/started", fails)
            left = await scene.leave(worker, task)
        assert (left.cancelled_runs, left.undelivered_runs) == (0, 0)
        assert states(scene) == ["completed"] * (SLOTS + 1) + ["pending"] * (len(RUNS) - SLOTS - 1)
        assert all(len(scene.results(run_id)) == 1 for run_id in held)
        scene.home.check([])


async def test_a_second_request_ends_the_run_that_it_holds_and_says_so(tmp_path: Path) -> None:
    async with served(tmp_path) as scene:
        async with scene.worker() as (worker, task):
            await be_full(scene, "100000 0.01")
            await scene.leave(worker, task, times=2)
        assert states(scene) == ["stopped"] * SLOTS + ["failed"] + ["pending"] * (len(RUNS) - SLOTS - 1)
        (end,) = scene.server.state.runs[RUNS[SLOTS]]["said"]
        assert end["failed"]["error"].startswith("attempt_lost: the worker had to exit before it could begin the run")
        assert any("attempt_lost" in sentence for sentence in scene.log.events)
        scene.home.check([])

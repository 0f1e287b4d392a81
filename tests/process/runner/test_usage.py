"""What a run has used is known in the store, also if its terminal event does not tell it."""

import asyncio
import json
from pathlib import Path

from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.runs.projection import project_lines
from ao_runner.store.sqlite_store import SqliteStore
from tests.process.runner.coordinators.drivers import StoreDriver, the_run
from tests.process.runner.coordinators.lines import batch, line, result
from tests.process.runner.performing import perform
from tests.process.runner.test_store import RUN, SESSION

PATIENCE_SECONDS = 100.0


def costs_in(home: Path) -> list[float | None]:
    with SqliteStore(home) as store:
        return [run.cost_usd for run in store.figures.ended_runs()]


def test_a_result_without_usage_has_cost_what_was_told_before(tmp_path: Path) -> None:
    performed = perform("answers_in_vain_for_two_dollars", tmp_path, max_cost_usd=5)

    assert performed.result.usage is None
    assert costs_in(tmp_path / "home") == [2]


def test_a_run_of_a_worker_has_cost_what_was_told_last_however_often_that_is_delivered(tmp_path: Path) -> None:
    usage = [line("usage", seq, input_tokens=seq, cost_usd=seq) for seq in (1, 2)]

    async def story() -> None:
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            StoreDriver(tmp_path) as driver,
            driver.open() as coordinator,
        ):
            driver.enqueue("run_1", "ses_1", "Hi")
            key = (await the_run(coordinator)).key
            await coordinator.started(key)
            await coordinator.events(batch(1, *usage))
            await coordinator.events(batch(1, usage[0]))
            await coordinator.terminal(key, 3, result(3))
            await coordinator.events(batch(1, usage[0]))

    asyncio.run(story())
    assert costs_in(tmp_path) == [2]


def test_a_lost_run_has_cost_what_was_told_before(tmp_path: Path) -> None:
    told = line("usage", 1, input_tokens=7, cost_usd=0.5)
    with SqliteStore(tmp_path) as store:
        store.sessions.add(SESSION)
        store.runs.begin(RUN, "nobody")
        store.events.add("run_1", 1, [told])
        project_lines(store, "run_1", [told])
        fail_lost_runs(store)
        lines = [event.line for event in store.events.of_session("ses_1")]

    assert json.loads(lines[-1])["error"]["type"] == "attempt_lost"
    assert costs_in(tmp_path) == [0.5]

"""What every implementation of the port between worker and coordinator does alike."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import Assignment, Coordinator, EventBatch, InputAnswer, LeaseLost, Orders
from ao_runner.run_events import RunKey
from ao_runner.runs.input_requests import PARKED
from ao_runner.store.opening import LOCAL
from ao_runner.store.records import RunRecord
from tests.process.conftest import POSTGRES
from tests.process.runner.coordinators.drivers import (
    DRIVERS,
    Driver,
    OlderServeDriver,
    ServeDriver,
    StoreDriver,
    the_run,
)
from tests.process.runner.coordinators.lines import asked, batch, failure, result, said

PATIENCE_SECONDS = 100.0
RECORD = RunRecord(argv=("ao-echo-exec",))

Story = Callable[[Driver, Coordinator], Awaitable[None]]
Perform = Callable[[Story], None]


OF_A_SERVER = {"serve": ServeDriver, "serve-older": OlderServeDriver, "serve-postgres": ServeDriver}
PARAMS = [*DRIVERS, "postgres", *(pytest.param(name, marks=pytest.mark.thorough) for name in OF_A_SERVER)]


@pytest.fixture(params=PARAMS)
def perform(request: pytest.FixtureRequest, tmp_path: Path) -> Perform:
    """Return what performs a story with one implementation, within a bound."""
    if (of_a_server := OF_A_SERVER.get(request.param)) is not None:
        store = POSTGRES if request.param == "serve-postgres" else LOCAL
        made: Driver = of_a_server(request.getfixturevalue("share")("--no-worker", store=store))
    elif request.param == "postgres":
        made = StoreDriver(tmp_path, request.getfixturevalue("postgres").new_database())
    else:
        made = DRIVERS[request.param](tmp_path)

    async def everything(story: Story) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), made as driver, driver.open() as coordinator:
            await story(driver, coordinator)

    return lambda story: asyncio.run(everything(story))


@asynccontextmanager
async def claimed(driver: Driver, coordinator: Coordinator) -> AsyncIterator[Assignment]:
    """A run that has begun, and is let go of in the end."""
    driver.enqueue("run_1", "ses_1", "Hi")
    assignment = await the_run(coordinator)
    await coordinator.started(assignment.key)
    yield assignment
    await coordinator.release(assignment.key, RECORD)


async def wanted(coordinator: Coordinator) -> Orders:
    """Ask until something is wanted."""
    while (orders := await coordinator.orders()) == Orders():
        pass
    return orders


def texts(driver: Driver) -> list[str]:
    return [event["content"][0]["text"] for event in driver.events_of("run_1") if event["event_type"] == "message"]


def require(driver: Driver, what: str) -> None:
    """Skip what an implementation declares that it lacks; its reason is printed at the end of the tests."""
    if what in driver.lacks:
        pytest.skip(f"{type(driver).__name__} has no {what}: {driver.lacks[what]}")


def test_a_run_is_handed_out_once_with_what_it_was_asked_for(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        driver.enqueue("run_1", "ses_1", "Hi")
        driver.enqueue("run_2", "ses_2", "Ho")
        first = await the_run(coordinator)
        second = await the_run(coordinator)
        assert (first.key, second.key) == (RunKey("run_1", 1), RunKey("run_2", 1))
        assert (first.run.run_id, first.session.session_id, first.run.mode) == ("run_1", "ses_1", "start")
        assert first.run.parameters == {"prompt": "Hi"}
        assert first.session.agent_name == "greeter"
        for assignment in (first, second):
            await coordinator.started(assignment.key)
            line = result(1, run=assignment.key.run_id, session=assignment.session.session_id)
            await coordinator.terminal(assignment.key, 1, line)
            await coordinator.release(assignment.key, RECORD)

    perform(story)


def test_acknowledged_events_are_kept_in_their_order(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        async with claimed(driver, coordinator):
            assert await coordinator.events(batch(1, said(1, "a"), said(2, "b"))) == 2
            assert texts(driver) == ["a", "b"]
            assert await coordinator.events(batch(3, said(3, "c"))) == 3
            assert texts(driver) == ["a", "b", "c"]
            assert driver.terminal_of("run_1") is None

    perform(story)


def test_events_that_are_there_already_are_left_out(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        async with claimed(driver, coordinator):
            await coordinator.events(batch(1, said(1, "a"), said(2, "b")))
            assert await coordinator.events(batch(2, said(2, "b"), said(3, "c"))) == 3
            assert texts(driver) == ["a", "b", "c"]

    perform(story)


def test_a_batch_that_has_grown_since_it_was_said_is_kept_to_its_end(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        async with claimed(driver, coordinator):
            await coordinator.events(batch(1, said(1, "a")))
            assert await coordinator.events(batch(1, said(1, "a"), said(2, "b"))) == 2
            assert texts(driver) == ["a", "b"]

    perform(story)


def test_a_batch_may_begin_behind_a_gap(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        async with claimed(driver, coordinator):
            await coordinator.events(batch(1, said(1, "a")))
            assert await coordinator.events(batch(3, said(3, "c"))) == 3
            assert texts(driver) == ["a", "c"]

    perform(story)


@pytest.mark.parametrize(
    ("line", "end"),
    [(result(2), "completed"), (failure(2), "failed"), (failure(2, "cancelled"), "cancelled")],
    ids=["result", "failure", "cancelled"],
)
def test_the_terminal_event_ends_the_run_once(perform: Perform, line: bytes, end: str) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        async with claimed(driver, coordinator) as assignment:
            await coordinator.events(batch(1, said(1, "a")))
            await coordinator.terminal(assignment.key, 2, line)
            events = list(driver.events_of("run_1"))
            await coordinator.terminal(assignment.key, 2, line)
            assert driver.terminal_of("run_1") == end
            assert driver.events_of("run_1") == events

    perform(story)


def test_a_cancel_reaches_the_worker_by_itself_and_once(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        async with claimed(driver, coordinator):
            driver.cancel("run_1")
            orders = await wanted(coordinator)
            assert orders.cancel_runs == {"run_1"} or orders.cancel_sessions == {"ses_1"}
            assert not (await coordinator.heartbeat([RunKey("run_1", 1)])).drain

    perform(story)


def test_an_answer_from_elsewhere_reaches_the_worker_that_waits_and_counts(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        require(driver, "answers")
        async with claimed(driver, coordinator) as assignment:
            waiting = asyncio.ensure_future(wanted(coordinator))  # before there is a request
            await coordinator.events(batch(1, asked(1, "call_1"), asked(2, "call_2")))
            driver.answer("run_1", "call_1", {"option_id": "allow"})
            assert await waiting == Orders(answers=(InputAnswer("run_1", "call_1", {"option_id": "allow"}),))
            late = await coordinator.decide(assignment.key, "call_1", {"outcome": "expired", "by": "timeout"})
            assert late == {"option_id": "allow"}
            driver.answer("run_1", "call_2", {"option_id": "deny"})
            assert (await wanted(coordinator)).answers == (InputAnswer("run_1", "call_2", {"option_id": "deny"}),)

    perform(story)


def test_a_decision_counts_even_before_the_event_of_its_request(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        expired: JsonObject = {"outcome": "expired", "by": "timeout"}
        async with claimed(driver, coordinator) as assignment:
            assert await coordinator.decide(assignment.key, "call_1", expired) == expired
            assert await coordinator.decide(assignment.key, "call_2", PARKED) == PARKED

    perform(story)


def test_events_of_several_runs_do_not_wait_for_each_other_and_do_not_mix(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        runs = {f"run_{number}": f"ses_{number}" for number in range(5)}
        for run_id, session_id in runs.items():
            driver.enqueue(run_id, session_id, "Hi")
            assignment = await the_run(coordinator)
            await coordinator.started(assignment.key)

        async def relay(run_id: str, session_id: str) -> None:
            for seq in range(1, 6):
                lines = [said(seq, f"{run_id} {seq}", run_id, session_id)]
                assert await coordinator.events(EventBatch(RunKey(run_id, 1), seq, lines)) == seq

        await asyncio.gather(*(relay(run_id, session_id) for run_id, session_id in runs.items()))
        for run_id in runs:
            kept = [event["content"][0]["text"] for event in driver.events_of(run_id)]
            assert kept == [f"{run_id} {seq}" for seq in range(1, 6)]

    perform(story)


def test_a_claim_that_is_cancelled_takes_nothing(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        waiting = asyncio.ensure_future(coordinator.claim(1))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        async with claimed(driver, coordinator) as assignment:
            assert assignment.key.run_id == "run_1"

    perform(story)


def test_a_run_that_is_given_back_before_it_began_is_handed_out_again(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        require(driver, "give_back")
        driver.enqueue("run_1", "ses_1", "Hi")
        assignment = await the_run(coordinator)
        await coordinator.release(assignment.key, None)
        again = await the_run(coordinator)
        assert again.run.run_id == "run_1"

    perform(story)


def test_a_worker_that_has_lost_its_lease_says_nothing_more(perform: Perform) -> None:
    async def story(driver: Driver, coordinator: Coordinator) -> None:
        require(driver, "leases")
        async with claimed(driver, coordinator), driver.open() as other:
            driver.take_away("run_1")
            if "handing_on" not in driver.lacks:
                assignment = await the_run(other)
                assert assignment.key == RunKey("run_1", 2)
            assert (await coordinator.heartbeat([RunKey("run_1", 1)])).lost == {RunKey("run_1", 1)}
            with pytest.raises(LeaseLost):
                await coordinator.events(batch(1, said(1, "a"), said(2, "b"), said(3, "c")))
            with pytest.raises(LeaseLost):
                await coordinator.terminal(RunKey("run_1", 1), 1, result(1))
            assert texts(driver) == []

    perform(story)


def test_an_end_whose_number_another_event_has_ends_the_run_once_behind_what_is_stored(perform: Perform) -> None:
    """An outbox of a dead worker that has lost its last events sends it."""

    async def story(driver: Driver, coordinator: Coordinator) -> None:
        require(driver, "leases")
        async with claimed(driver, coordinator) as assignment:
            await coordinator.events(batch(1, said(1, "a"), said(2, "b"), said(3, "c")))
            await coordinator.terminal(assignment.key, 2, failure(2))
            with pytest.raises(LeaseLost):
                await coordinator.terminal(assignment.key, 2, failure(2))

        events = driver.events_of("run_1")
        assert [(event["seq"], event["event_type"]) for event in events] == [
            (1, "message"), (2, "message"), (3, "message"), (4, "failure")
        ]  # fmt: skip
        assert events[-1]["error"]["type"] == "attempt_lost"
        assert events[-1]["error"]["details"] == {"last_seq": 3}

    perform(story)

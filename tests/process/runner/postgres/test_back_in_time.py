"""A server that went back in time: what was lost is found and said, and nothing is renumbered."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ao_runner.coordinators.port import LeaseLost
from ao_runner.coordinators.stored_queue import StoreCoordinator
from ao_runner.store.opening import StorePlace
from tests.postgres_server import PostgresServer
from tests.process.runner.coordinators.lines import batch, result, said
from tests.process.runner.postgres.acting import (
    claim,
    coordinating,
    enqueue,
    ids,
    lines_of,
    opened,
    persist,
    seqs_of,
    started,
)


@pytest.fixture
def place(server: PostgresServer, tmp_path: Path) -> StorePlace:
    return StorePlace(tmp_path, server.new_database())


def act(place: StorePlace, story: Callable[[StoreCoordinator], Awaitable[None]]) -> list[str]:
    """Act as a worker with one queued run and return what it was told."""
    told: list[str] = []

    async def everything() -> None:
        async with coordinating(place, "worker", told) as coordinator:
            await story(coordinator)

    with opened(place) as store:
        enqueue(store, "run_1")
    asyncio.run(everything())
    return told


@pytest.mark.parametrize("end", ["events", "terminal"])
def test_events_that_the_server_lost_are_said_and_stay_missing(
    end: str, server: PostgresServer, place: StorePlace
) -> None:
    async def story(coordinator: StoreCoordinator) -> None:
        key = (await started(coordinator)).key
        await coordinator.events(batch(1, said(1, "a"), said(2, "b")))
        await asyncio.to_thread(server.copy_data)
        assert await persist(lambda: coordinator.events(batch(3, said(3, "c"), said(4, "d")))) == 4
        await asyncio.to_thread(server.go_back)
        if end == "events":
            assert await persist(lambda: coordinator.events(batch(5, said(5, "e")))) == 5
        await persist(lambda: coordinator.terminal(key, 6, result(6)))

    told = act(place, story)

    assert [sentence.partition(";")[0] for sentence in told] == [
        "the server lost events 3 to 4 of run run_1, which it had acknowledged"
    ]
    with opened(place) as store:
        assert seqs_of(store, "run_1") == ([1, 2, 5, 6] if end == "events" else [1, 2, 6])
        assert [state.run.status for state in store.runs.find("run_1")] == ["completed"]


def test_an_end_that_the_server_lost_is_found_and_the_run_ends_as_lost(
    server: PostgresServer, place: StorePlace
) -> None:
    async def story(coordinator: StoreCoordinator) -> None:
        key = (await started(coordinator)).key
        await coordinator.events(batch(1, said(1, "a")))
        await asyncio.to_thread(server.copy_data)
        await persist(lambda: coordinator.terminal(key, 2, result(2)))
        await asyncio.to_thread(server.go_back)
        for _ in range(2):
            assert (await persist(lambda: coordinator.heartbeat([]))).lost == frozenset()
        await coordinator.orders()

    told = act(place, story)

    assert [sentence.partition(",")[0] for sentence in told] == ["the store says that this worker performs run run_1"]
    with opened(place) as store:
        assert seqs_of(store, "run_1") == [1, 2]
        assert '"attempt_lost"' in lines_of(store, "run_1")[-1]


@pytest.mark.parametrize("first", ["events", "heartbeat"])
def test_a_run_whose_claim_the_server_lost_goes_on_where_it_is_performed(
    first: str, server: PostgresServer, place: StorePlace
) -> None:
    async def story(coordinator: StoreCoordinator) -> None:
        await asyncio.to_thread(server.copy_data)
        key = (await persist(lambda: started(coordinator))).key
        await coordinator.events(batch(1, said(1, "a")))
        await asyncio.to_thread(server.go_back)
        if first == "heartbeat":
            assert (await persist(lambda: coordinator.heartbeat([key]))).lost == frozenset()
        assert await persist(lambda: coordinator.events(batch(2, said(2, "b")))) == 2
        assert (await coordinator.heartbeat([key])).lost == frozenset()
        await coordinator.terminal(key, 3, result(3))

    told = act(place, story)

    assert [re.split("[,.;]", sentence)[0] for sentence in told] == [
        "the server lost that this worker performs run run_1",
        "the server lost events 1 to 1 of run run_1",
    ]
    with opened(place) as store:
        (state,) = store.runs.find("run_1")
        assert (state.run.status, state.attempt) == ("completed", 1)
        assert seqs_of(store, "run_1") == [2, 3]


def test_a_run_that_the_server_does_not_know_any_more_is_told(server: PostgresServer, place: StorePlace) -> None:
    async def story(coordinator: StoreCoordinator) -> None:
        await started(coordinator)
        await asyncio.to_thread(server.copy_data)
        with opened(place) as other:
            enqueue(other, "run_2")
        key = (await persist(lambda: started(coordinator))).key
        await asyncio.to_thread(server.go_back)
        with pytest.raises(LeaseLost, match=r"the store does not know it\. .*failed over to a replica that was behind"):
            await persist(lambda: coordinator.events(batch(1, said(1, "b"), run="run_2")))
        assert (await coordinator.heartbeat([key])).lost == {key}

    act(place, story)


def test_an_attempt_whose_number_is_given_out_twice_is_that_of_the_second_worker(
    server: PostgresServer, place: StorePlace
) -> None:
    async def story(coordinator: StoreCoordinator) -> None:
        await asyncio.to_thread(server.copy_data)
        key = (await persist(lambda: started(coordinator))).key
        await coordinator.events(batch(1, said(1, "a")))
        await asyncio.to_thread(server.go_back)
        with opened(place) as other:
            assert ids(claim(other, "other")) == ["run_1"]
            other.queue.begin("run_1", 1, "now")
            other.events.add_of_attempt("run_1", 1, 1, [said(1, "of the other")])
        late = [lambda: coordinator.events(batch(2, said(2, "b"))), lambda: coordinator.terminal(key, 2, result(2))]
        for write in [lambda: coordinator.started(key), *late]:
            with pytest.raises(LeaseLost, match="the store lost this claim, and another worker performs the run again"):
                await persist(write)
        assert (await coordinator.heartbeat([key])).lost == {key}

    act(place, story)

    with opened(place) as store:
        assert lines_of(store, "run_1") == [said(1, "of the other").decode()]


def test_a_claim_whose_answer_was_lost_is_queued_again(place: StorePlace) -> None:
    async def story(coordinator: StoreCoordinator) -> None:
        await coordinator.claim(1)  # the worker never hears of it
        for _ in range(2):
            await coordinator.heartbeat([])
        await coordinator.orders()

    act(place, story)

    with opened(place) as store:
        assert [state.run.run_id for state in store.runs.states("queued")] == ["run_1"]


def test_a_claim_that_is_still_being_answered_is_not_taken_for_lost(place: StorePlace) -> None:
    async def story(coordinator: StoreCoordinator) -> None:
        key = (await started(coordinator)).key
        for held in ([], [key], []):
            assert (await coordinator.heartbeat(held)).lost == frozenset()
        await coordinator.terminal(key, 1, result(1))
        await coordinator.heartbeat([])
        await coordinator.orders()

    assert act(place, story) == []

"""Event lines are stored byte by byte, and a session is followed without a gap whatever commits beside it."""

import asyncio
from contextlib import ExitStack

import pytest

from ao_runner.store.opening import StorePlace
from ao_runner.store.postgres_store import PostgresStore
from tests.process.runner.coordinators.lines import batch, line, result, said
from tests.process.runner.postgres.acting import begin, coordinating, enqueue, lines_of, opened, started

AWKWARD = {
    "NUL": b'{"event_type":"message","seq":1,"text":"a\\u0000b"}',
    "half a pair": b'{"event_type":"message","seq":1,"text":"\\ud800"}',
    "order and spaces": b'{ "seq" : 1,  "b":1, "a":2 , "event_type":"message"}',
    "spelling": b'{"seq":1.0,"n":1E400,"m":-0,"t":"\\u00e9\\/\xc3\xa9","event_type":"message"}',
    "same key twice": b'{"event_type":"message","seq":1,"seq":1}',
    "line ends of others": '{"event_type":"message","seq":1,"text":"\u2028\x85"}'.encode(),
    "not in the plane": '{"event_type":"message","seq":1,"text":"\U0001f600"}'.encode(),
    "marks of statements": b'{"event_type":"message","seq":1,"text":"? %s % $1 \\\\ \'"}',
}


@pytest.mark.parametrize("awkward", AWKWARD.values(), ids=AWKWARD)
def test_a_line_is_stored_byte_by_byte(awkward: bytes, place: StorePlace) -> None:
    with opened(place) as store:
        begin(store, "worker", "run_1")
        store.events.add_of_attempt("run_1", 1, 1, [awkward, awkward])

        assert [stored.encode() for stored in lines_of(store, "run_1")] == [awkward, awkward]
        assert (store.events.last_line("run_1") or "").encode() == awkward


def test_an_event_of_16_mib_is_stored_and_listed(place: StorePlace) -> None:
    large = said(1, "x" * (16 << 20))
    with opened(place) as store:
        begin(store, "worker", "run_1")
        store.events.add_of_attempt("run_1", 1, 1, [large])

        assert lines_of(store, "run_1") == [large.decode()]
        assert [run.events for run in store.figures.live().runs] == [1]


@pytest.mark.parametrize(("given", "kept"), [("a", "a"), ("a\0b", None)], ids=["usual", "with NUL"])
def test_an_id_of_an_executor_that_no_text_can_hold_costs_no_event(
    given: str, kept: str | None, place: StorePlace
) -> None:
    bound = line("session_bound", 1, session="ses_of_run_1", executor_session_id=given)

    async def perform() -> None:
        async with coordinating(place, "worker") as coordinator:
            assignment = await started(coordinator)
            assert await coordinator.events(batch(1, bound)) == 1
            await coordinator.terminal(assignment.key, 2, result(2))

    with opened(place) as store:
        enqueue(store, "run_1")
        asyncio.run(perform())

        assert lines_of(store, "run_1")[0] == bound.decode()
        assert store.sessions.find("ses_of_run_1").executor_session_id == kept


def test_a_session_is_followed_without_a_gap_while_others_commit_out_of_order(place: StorePlace) -> None:
    runs = ("run_1", "run_2", "run_3")
    followed: dict[str, list[int]] = {run_id: [] for run_id in runs}
    positions = dict.fromkeys(runs, 0)

    def look(store: PostgresStore) -> None:
        for run_id in runs:
            for event in store.events.of_session(f"ses_of_{run_id}", positions[run_id]):
                followed[run_id].append(event.seq)
                positions[run_id] = event.position

    with ExitStack() as stack:
        store, *writers = (stack.enter_context(opened(place)) for _ in range(4))
        begin(store, "worker", *runs)
        for round_number in range(1, 6):
            transactions = [ExitStack() for _ in runs]
            for run_id, writer, transaction in zip(runs, writers, transactions, strict=True):
                transaction.enter_context(writer.transaction())
                writer.events.add_of_attempt(run_id, 1, round_number, [said(round_number, "x")])
            for transaction in reversed(transactions):  # the last position becomes visible first
                transaction.close()
                look(store)

    assert followed == {run_id: [1, 2, 3, 4, 5] for run_id in runs}

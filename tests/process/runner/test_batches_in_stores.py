"""Batches in both stores: stored together or not at all, in their order; and what counts of them."""

from pathlib import Path
from typing import Any

import pytest

from ao_runner.blueprints.loading import understand_blueprint
from ao_runner.runs.batches import NothingToRepeat, failed_runs, find_batch, runs_of_batch
from ao_runner.runs.repetition import repetition_of
from ao_runner.runs.submission import AcceptedRun, NewRun, Reception, accept, enqueue
from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import BatchUnknown, RepeatedBefore

BLUEPRINT = understand_blueprint(Path("agent.json"), {"name": "agent"})
COUNT = 205
"""More than two statements insert."""


def batch_of(count: int, batch_id: str, **terms: Any) -> list[AcceptedRun]:
    at = Reception({}, Path("/nowhere"), "/project", batch_id=batch_id)
    asked = [NewRun(parameters={"prompt": str(n)}, blueprint=BLUEPRINT, profile="x", **terms) for n in range(count)]
    return [accept(one, at) for one in asked]


def fail(store: Store, run_id: str) -> None:
    store.runs.end(run_id, "failed", timestamp(), "tool_failed")


def test_a_batch_is_stored_in_its_order_or_not_at_all(place: StorePlace) -> None:
    accepted = batch_of(COUNT, "bat_1")
    with place.open() as store:
        with pytest.raises(ConstraintBroken), store.transaction():
            enqueue(store, *accepted, accepted[7])
        assert store.runs.states() == []
        with store.transaction():
            enqueue(store, *accepted)
        placed = runs_of_batch(store, "bat_1")
        assert [(number, state.run.parameters["prompt"]) for number, state in placed] == [
            (number + 1, str(number)) for number in range(COUNT)
        ]
        assert {(state.run.batch_id, state.run.status, state.queued_at is None) for _, state in placed} == {
            ("bat_1", "queued", False)
        }
        assert store.runs.count_batch("bat_1") == {"queued": COUNT}


def test_a_repetition_takes_the_place_of_a_failed_run_once(place: StorePlace) -> None:
    accepted = batch_of(3, "bat_1")
    with place.open() as store:
        enqueue(store, *accepted)
        enqueue(store, *batch_of(1, "bat_2"))
        failed = accepted[1].run.run_id
        fail(store, failed)
        (run,) = failed_runs(store, "bat_1")
        again = accept(repetition_of(run, accepted[1].session), Reception({}, Path("/nowhere"), "/", store))
        with store.transaction():
            enqueue(store, again)
        with pytest.raises(RepeatedBefore, match="was run again before"), store.transaction():
            enqueue(store, again)
        assert (again.run.batch_id, again.run.succeeds) == ("bat_1", failed)
        assert [state.run.run_id for _, state in runs_of_batch(store, "bat_1")] == [
            accepted[0].run.run_id, again.run.run_id, accepted[2].run.run_id
        ]  # fmt: skip
        assert store.runs.count_batch("bat_1") == {"queued": 3}
        fail(store, again.run.run_id)
        assert [one.run_id for one in failed_runs(store, "bat_1")] == [again.run.run_id]
        assert [find_batch(store, wanted) for wanted in ("bat_1", "last")] == ["bat_1", "bat_1"]
        with pytest.raises(BatchUnknown, match="ambiguous"):
            find_batch(store, "bat_")


def test_no_real_model_takes_the_place_of_a_script(place: StorePlace) -> None:
    (accepted,) = batch_of(1, "bat_1", is_simulated=True)
    with place.open() as store:
        enqueue(store, accepted)
        fail(store, accepted.run.run_id)
        with pytest.raises(NothingToRepeat, match="had a model script, which is not stored"):
            failed_runs(store, "bat_1")

"""Failures in a store: alike ones stand once, and are set aside and taken back. With each engine."""

from ao_protocol.events import UsageFigures
from ao_protocol.wire import JsonObject
from ao_runner.store.records import Run, Session
from ao_runner.store.run_filter import RunFilter
from ao_runner.store.store import Store

TIME = "2026-01-01T00:00:00Z"


def fail(store: Store, number: int, agent: str, error_type: str, cost: float | None = None) -> None:
    config: JsonObject = {"model": "large"} if agent == "a" else {}
    session = Session(f"ses_{number}", TIME, "x", "/bin/x", "/project", {"name": agent}, config)
    store.runs.begin(Run(f"run_{number}", f"ses_{number}", "start", {}, TIME), "owner", session)
    store.runs.end(f"run_{number}", "failed", f"2026-01-01T00:00:0{number}Z", error_type)
    store.runs.record_usage(f"run_{number}", None if cost is None else UsageFigures(cost_usd=cost))


def found(store: Store, **wanted: bool) -> list[tuple[str, str, int, str]]:
    groups = store.failures.groups("2026", ["run_9"], **wanted)
    return [(one.agent_name, one.error_type, one.runs, one.newest) for one in groups]


def test_alike_failures_stand_once_and_are_set_aside_up_to_one(store: Store) -> None:
    for number, (agent, error_type) in enumerate([("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"), ("a", "x")]):
        fail(store, number, agent, error_type)
    fail(store, 9, "a", "input_required")
    assert found(store) == [("a", "x", 3, "run_4"), ("a", "y", 1, "run_2"), ("b", "x", 1, "run_1")]
    assert store.failures.alike("run_3", "2026") == ["run_3", "run_0"]
    store.failures.set_aside(["run_3", "run_0"], {"note": "known", "at": TIME})
    assert found(store)[0] == ("a", "x", 1, "run_4")
    assert found(store, are_aside=True) == [("a", "x", 2, "run_3")]
    assert [one.aside for one in store.runs.of_ids(["run_3"])] == [{"note": "known", "at": TIME}]
    store.failures.set_aside(store.failures.alike("run_3", "2026", are_aside=True), None)
    assert found(store)[0] == ("a", "x", 3, "run_4")
    assert store.failures.alike("run_none", "2026") == []
    assert store.failures.groups("2027") == []


def test_runs_are_sorted_and_those_without_a_value_come_last(store: Store) -> None:
    for number, cost in enumerate([0.5, None, 2.0]):
        fail(store, number, "ab"[number % 2], "x", cost)

    def order(wanted: RunFilter) -> list[str]:
        return [one.run.run_id for one in store.runs.search(wanted)]

    assert order(RunFilter(order="cost")) == ["run_2", "run_0", "run_1"]
    assert order(RunFilter(order="cost", is_rising=True)) == ["run_0", "run_2", "run_1"]
    assert order(RunFilter(order="took")) == ["run_2", "run_1", "run_0"]
    assert order(RunFilter(order="agent", is_rising=True)) == ["run_2", "run_0", "run_1"]
    assert order(RunFilter(order="cost", skip=1, limit=1)) == ["run_0"]
    assert order(RunFilter(is_rising=True)) == ["run_0", "run_1", "run_2"]
    assert [one.model for one in store.figures.ended_runs("2026-01-01T00:00:01Z")] == ["large", None]

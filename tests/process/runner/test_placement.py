"""Which runs a worker is given: by tags, priority, time, limits and the host of the session, with each engine."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ao_runner.runs.lost_runs import fail_stranded_runs
from ao_runner.store.limit_table import RunLimit
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Run, Session
from ao_runner.store.store import Store
from ao_runner.store.worker_table import Offer
from tests.postgres_server import PostgresServer

SESSION = Session("ses", "2026-01-01T00:00:00.000Z", "x", "/bin/x", "/project", {"name": "agent"})
OFFER = Offer("me")


def enqueue(store: Store, number: int, profile: str = "x", **terms: Any) -> None:
    session = replace(SESSION, session_id=f"ses_{number}", blueprint={"name": f"agent_{number % 2}"})
    store.sessions.add(session)
    run = Run(f"run_{number}", session.session_id, "start", {}, "2026-01-01T00:00:00.000Z", "queued")
    store.queue.add(replace(run, profile=profile, **terms))


def claimed(store: Store, offer: Offer = OFFER, slots: int = 10) -> list[str]:
    def claim() -> list[str]:
        store.workers.join(offer)
        return [one.run.run_id for one in store.queue.claim(offer, slots, lambda *_: None)]

    ((runs),) = store.commit_together([claim])
    assert isinstance(runs, list), runs
    return runs


def test_a_run_is_given_to_a_worker_that_offers_all_its_tags(store: Store) -> None:
    enqueue(store, 1, requires=("gpu", "host:b"))
    enqueue(store, 2)

    assert claimed(store, replace(OFFER, tags=("gpu",))) == ["run_2"]
    assert claimed(store, replace(OFFER, tags=("host:b", "gpu", "other"))) == ["run_1"]


def test_a_worker_is_given_runs_of_its_profiles(store: Store) -> None:
    enqueue(store, 1, profile="y")
    enqueue(store, 2, profile="x")

    assert claimed(store, replace(OFFER, profiles=("x", "z"))) == ["run_2"]


def test_the_highest_priority_comes_first_and_then_the_oldest(store: Store) -> None:
    for number, priority in enumerate([0, 5, 5, -1], 1):
        enqueue(store, number, priority=priority)

    assert claimed(store) == ["run_2", "run_3", "run_1", "run_4"]


def test_a_run_waits_for_its_time(store: Store) -> None:
    enqueue(store, 1, not_before="2999-01-01T00:00:00.000Z")
    enqueue(store, 2, not_before="2001-01-01T00:00:00.000Z")

    assert claimed(store) == ["run_2"]


@pytest.mark.parametrize("kind", ["agent", "profile"])
def test_no_more_runs_than_a_limit_allows_run_at_a_time(kind: str, store: Store) -> None:
    for number in range(1, 6):
        enqueue(store, number, profile=f"profile_{number % 2}")
    store.limits.put(RunLimit(kind, f"{kind}_1", 2))  # type: ignore[arg-type]  # both are kinds

    assert claimed(store) == ["run_1", "run_2", "run_3", "run_4"]
    assert claimed(store) == []
    assert [(limit.most, limit.running) for limit in store.limits.all()] == [(2, 2)]
    store.commit_together([lambda: store.runs.end("run_1", "completed", "later", None)])
    assert claimed(store) == ["run_5"]


def test_a_removed_limit_limits_nothing(store: Store) -> None:
    enqueue(store, 1)
    store.limits.put(RunLimit("profile", "x", 0))

    assert claimed(store) == []
    assert store.limits.remove("profile", "x")
    assert not store.limits.remove("profile", "x")
    assert claimed(store) == ["run_1"]


def test_runs_of_one_session_are_given_in_their_order_whatever_their_priority(store: Store) -> None:
    enqueue(store, 1)
    run = Run("run_2", "ses_1", "resume", {}, "2026-01-01T00:00:00.000Z", "queued")
    store.queue.add(replace(run, profile="x", priority=9))

    assert claimed(store) == ["run_1"]
    assert claimed(store) == []


@pytest.mark.parametrize("mode", ["start", "resume"])
def test_a_copy_of_a_run_that_asked_for_it_waits_for_the_reset(mode: str, store: Store) -> None:
    store.sessions.add(replace(SESSION, executor_session_id="theirs"))
    asked = Run("run_1", "ses", mode, {"prompt": "hi"}, "2026-01-01T00:00:00.000Z", "queued")  # type: ignore[arg-type]
    terms: dict[str, Any] = {
        "profile": "x", "timeout_seconds": 9.0, "metadata": {"traceparent": "t"}, "requires": ("gpu",), "priority": 3,
        "requeue": True,
    }  # fmt: skip
    store.queue.add(replace(asked, **terms))
    store.runs.end("run_1", "failed", "later", "rate_limited")

    assert store.queue.requeue("run_1", ("run_2", "ses_2"), "2999-01-01T00:00:00.000Z", "now")

    assert store.runs.find_successor("run_1") == "run_2"
    (copy,) = store.runs.find("run_2")
    assert (copy.run.status, copy.run.mode, copy.run.parameters) == ("queued", mode, {"prompt": "hi"})
    assert copy.run.not_before == "2999-01-01T00:00:00.000Z"
    assert {name: getattr(copy.run, name) for name in terms} == terms
    assert copy.run.session_id == ("ses_2" if mode == "start" else "ses")
    session = store.sessions.find("run_2")
    assert session.executor_session_id == (None if mode == "start" else "theirs")
    assert session.blueprint == SESSION.blueprint


def test_a_run_that_did_not_ask_for_it_is_not_queued_again(store: Store) -> None:
    enqueue(store, 1)

    assert not store.queue.requeue("run_1", ("run_2", "ses_2"), "later", "now")
    assert store.runs.find_successor("run_1") is None


class Hosts:
    """Stores of two hosts on one database, with a session that has begun on host a and waits for its next run."""

    def __init__(self, place: StorePlace, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AO_HOST", "a")
        self.a = place.open()
        monkeypatch.setenv("AO_HOST", "b")
        self.b = place.open()
        enqueue(self.a, 1)
        assert claimed(self.a) == ["run_1"]
        self.a.commit_together([lambda: self.a.queue.begin("run_1", 1, "now")])
        self.a.commit_together([lambda: self.a.runs.end("run_1", "completed", "later", None)])
        run = Run("run_2", "ses_1", "resume", {}, "2026-01-01T00:00:00.000Z", "queued")
        self.a.queue.add(replace(run, profile="x"))


@pytest.fixture
def hosts(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosts]:
    hosts = Hosts(StorePlace(tmp_path, postgres.new_database()), monkeypatch)
    with hosts.a, hosts.b:
        yield hosts


def test_a_session_is_resumed_on_the_host_that_has_it(hosts: Hosts) -> None:
    assert hosts.b.sessions.find("ses_1").host == "a"
    assert claimed(hosts.b, Offer("other")) == []
    assert claimed(hosts.a) == ["run_2"]


def test_a_session_on_shared_storage_is_resumed_anywhere(hosts: Hosts) -> None:
    assert claimed(hosts.b, Offer("other", shared=("x",))) == ["run_2"]


def test_a_run_of_a_session_whose_host_is_gone_fails_with_a_type_of_its_own(hosts: Hosts) -> None:
    claimed(hosts.b, Offer("other"))
    assert fail_stranded_runs(hosts.b, 60) == []

    hosts.b.write("UPDATE workers SET lease_until = clock_timestamp() - interval '61 seconds' WHERE host = 'a'")

    assert fail_stranded_runs(hosts.b, 62) == []
    assert fail_stranded_runs(hosts.b, 60) == ["run_2"]
    (state,) = hosts.b.runs.find("run_2")
    assert (state.run.status, state.run.error_type) == ("failed", "session_unavailable")
    assert "session ses_1 is on host a, which has had no worker" in (hosts.b.events.last_line("run_2") or "")

"""Workers that use a store through a server, and so have no locked file on its host."""

from dataclasses import replace
from pathlib import Path

import pytest

from ao_runner.runs.lost_runs import fail_lost_runs, fail_stranded_runs
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store import Store
from ao_runner.store.worker_table import Offer

REMOTE = Offer("remote-1", host="elsewhere")


def queue(store: Store, run_id: str, *, resumes: bool = False, session: str = "ses_1") -> None:
    """Queue the first run of a session, or a further one."""
    if not resumes:
        store.sessions.add(Session(session, timestamp(), "echo", "echo", "/project", {"name": "greeter"}))
    mode = "resume" if resumes else "start"
    store.queue.add(replace(Run(run_id, session, mode, {"prompt": "Hi"}, timestamp()), profile="echo"))  # type: ignore[arg-type]  # one of both


def claim(store: Store, offer: Offer) -> list[str]:
    with store.transaction():
        return [one.run.run_id for one in store.queue.claim(offer, 1, lambda reason, _: pytest.fail(str(reason)))]


def perform(store: Store, offer: Offer, run_id: str) -> None:
    assert claim(store, offer) == [run_id]
    store.queue.begin(run_id, 1, timestamp(), offer.owner, offer.host)
    store.sessions.bind("ses_1", "its own")
    store.runs.end(run_id, "completed", timestamp(), None)


def test_a_remote_worker_keeps_its_runs_as_long_as_its_lease(store: Store) -> None:
    store.workers.join(REMOTE)
    assert store.workers.living()["remote-1"].host == "elsewhere"
    queue(store, "run_1")
    assert claim(store, REMOTE) == ["run_1"]
    store.queue.begin("run_1", 1, timestamp(), REMOTE.owner, REMOTE.host)
    assert fail_lost_runs(store) == []
    assert store.workers.renew_leases("remote-1", 30) == {("run_1", 1)}
    over = "UPDATE workers SET lease_until = 0"
    store.write(over if isinstance(store, SqliteStore) else "UPDATE workers SET lease_until = 'epoch'")
    assert fail_lost_runs(store) == ["run_1"]
    assert store.workers.living() == {}


def test_a_lease_from_before_the_last_start_of_the_machine_is_over(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        store.workers.join(REMOTE)
        store.write("UPDATE workers SET lease_until = lease_until + 1e6")
        assert store.workers.living() == {}


def test_a_session_of_a_remote_host_is_resumed_there(store: Store) -> None:
    store.workers.join(REMOTE)
    queue(store, "run_1")
    perform(store, REMOTE, "run_1")
    queue(store, "run_2", resumes=True)
    with own_runs(store.home) as here:
        assert claim(store, Offer(here)) == []
    assert claim(store, Offer("remote-2", host="another")) == []
    assert claim(store, REMOTE) == ["run_2"]


def test_a_session_of_this_host_is_resumed_here(store: Store) -> None:
    with own_runs(store.home) as here:
        store.workers.join(Offer(here))
        queue(store, "run_1")
        perform(store, Offer(here), "run_1")
        queue(store, "run_2", resumes=True)
        assert claim(store, REMOTE) == []
        assert claim(store, Offer(here)) == ["run_2"]


def test_a_session_of_a_remote_host_that_is_gone_is_unavailable(store: Store) -> None:
    store.workers.join(REMOTE)
    queue(store, "run_1")
    perform(store, REMOTE, "run_1")
    queue(store, "run_2", resumes=True)
    store.write("UPDATE runs SET queued_at = '2026-01-01T00:00:00.000Z' WHERE run_id = 'run_2'")
    assert fail_stranded_runs(store, 60) == []
    store.write("DELETE FROM workers")
    assert fail_stranded_runs(store, 60) == ["run_2"]
    assert store.runs.of_sessions("ses_1")[1].error_type == "session_unavailable"


def test_a_worker_that_drains_claims_nothing_and_its_mark_goes_with_it(store: Store) -> None:
    with own_runs(store.home, ["*"]) as here:
        for offer in (REMOTE, Offer(here)):
            store.workers.join(offer)
            assert store.workers.request_drain(offer.owner)
            assert store.workers.requests_to(offer.owner).drain
            assert store.workers.living()[offer.owner].drains
        queue(store, "run_1")
        assert claim(store, REMOTE) == claim(store, Offer(here)) == []
        store.workers.join(REMOTE)  # a server that was started again makes it join again
        assert store.workers.requests_to(REMOTE.owner).drain
        with own_runs(store.home, ["*"]) as another:
            store.workers.join(Offer(another))
            assert not store.workers.requests_to(another).drain
            assert claim(store, Offer(another)) == ["run_1"]
    assert not store.workers.request_drain("worker-of-nobody")


def test_a_worker_tells_its_slots_and_how_far_its_delivery_is_behind(store: Store) -> None:
    with own_runs(store.home, ["*"]) as here:
        for offer in (Offer("remote-1", host="elsewhere", slots=8), Offer(here, slots=3)):
            store.workers.join(offer)
            store.workers.renew_leases(offer.owner, 30, 12.5)
            queue(store, f"run_{offer.slots}", session=f"ses_{offer.slots}")
            assert claim(store, offer) == [f"run_{offer.slots}"]
            found = store.workers.living()[offer.owner]
            assert (found.slots, found.outbox_seconds) == (offer.slots, 12.5)
            store.workers.renew_leases(offer.owner, 30)
            assert store.workers.living()[offer.owner].outbox_seconds == 0


def test_the_row_of_a_worker_of_this_host_goes_when_another_one_joins(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store:
        with own_runs(tmp_path) as gone:
            store.workers.join(Offer(gone))
            store.workers.request_drain(gone)
        with own_runs(tmp_path) as here:
            store.workers.join(Offer(here))
            assert not store.workers.requests_to(gone).drain
            assert store.fetch("SELECT worker_id FROM workers") == [(here,)]

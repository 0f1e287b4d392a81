"""Why queued runs wait, and which of them wait in vain: only these are for a person."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ao_runner.runs.waiting import reasons_to_wait
from ao_runner.store.limit_table import RunLimit
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import own_runs
from ao_runner.store.records import Run, Session, timestamp
from ao_runner.store.store import Store
from ao_server.pages.attention import attention_of
from tests.process.runner.cli.calling import Ao

LATER = "2999-01-01T00:00:00.000Z"
QUEUED = Run("run_1", "ses_1", "start", {"prompt": "hi"}, timestamp(), profile="echo")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store with a session, and a worker of the profile echo that takes nothing."""
    with own_runs(tmp_path, ("echo",)), StorePlace(tmp_path).open() as store:
        store.sessions.add(Session("ses_1", timestamp(), "echo", "echo", "/project", {"name": "greeter"}))
        yield store


def waiting(store: Store) -> tuple[str, bool]:
    """Return the kind of the reason for which the newest run waits, and whether it stands in the inbox."""
    newest = store.runs.states("queued")[-1].run.run_id
    in_vain = {row.run_id for row in attention_of(store).waiting}
    return reasons_to_wait(store, store.runs.states())[newest].kind, newest in in_vain


def test_a_run_of_a_paused_profile_does_not_wait_in_vain(store: Store) -> None:
    store.queue.add(QUEUED)
    store.limits.put(RunLimit("pause", "echo", 0, LATER))

    assert waiting(store) == ("pause", False)


def test_a_run_of_a_profile_at_its_limit_does_not_wait_in_vain(store: Store) -> None:
    store.queue.add(QUEUED)
    store.limits.put(RunLimit("profile", "echo", 0))

    assert waiting(store) == ("limit", False)


def test_a_run_that_is_not_due_does_not_wait_in_vain(store: Store) -> None:
    store.queue.add(replace(QUEUED, not_before=LATER))

    assert waiting(store) == ("not_before", False)


def test_a_run_behind_another_one_does_not_wait_in_vain(store: Store) -> None:
    store.queue.add(QUEUED)
    store.queue.add(replace(QUEUED, run_id="run_2", mode="resume"))

    assert waiting(store) == ("behind", False)


def test_a_run_whose_profile_nobody_serves_waits_in_vain(store: Store) -> None:
    store.queue.add(replace(QUEUED, profile="reviewer"))

    assert waiting(store) == ("no_worker", True)


def test_a_run_whose_tag_nobody_offers_waits_in_vain(store: Store) -> None:
    store.queue.add(replace(QUEUED, requires=("gpu",)))

    assert waiting(store) == ("no_tag", True)


def test_the_list_of_runs_tells_until_when_a_profile_is_paused(tmp_path: Path) -> None:
    ao, home = Ao(tmp_path), tmp_path / "ao-home"
    with own_runs(home, ("echo",)), StorePlace(home).open() as store:
        store.sessions.add(Session("ses_1", timestamp(), "echo", "echo", "/project", {"name": "greeter"}))
        store.queue.add(QUEUED)
        store.limits.put(RunLimit("pause", "echo", 0, LATER))
        listed = ao("runs")

    assert f"queued: profile echo is paused until {LATER}" in listed.stdout
    assert listed.stderr == ""

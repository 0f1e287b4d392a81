"""Runs whose runner was killed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ao_protocol.events import Failure, parse_event
from ao_runner.runs.lost_runs import fail_lost_runs
from ao_runner.store.ownership import is_alive, own_runs
from ao_runner.store.sqlite_store import SqliteStore
from ao_runner.store.store import Store
from ao_runner.store.store_errors import NotHeld
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.performing import MINIATURES
from tests.process.runner.postgres.acting import claim, enqueue, lines_of
from tests.process.runner.test_store import RUN, SESSION


def test_an_owner_is_alive_inside_its_block_only(tmp_path: Path) -> None:
    with own_runs(tmp_path) as owner:
        assert is_alive(tmp_path, owner)
    assert not is_alive(tmp_path, owner)


def test_a_run_whose_runner_was_killed_ends_once_as_lost(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (tmp_path / "agent.json").write_text('{"name": "agent"}')
    command = [sys.executable, "-m", "ao_runner", "run", "agent.json", "-p", "hi", "--events", "--home", str(home)]
    options = ["--executor", str(MINIATURES / "works_for_ever.py"), "--project-dir", str(project)]
    with subprocess.Popen([*command, *options], cwd=tmp_path, stdout=subprocess.PIPE) as runner:
        assert runner.stdout is not None
        assert b"run_started" in runner.stdout.readline()
        runner.send_signal(signal.SIGKILL)
        runner.stdout.read()

    with SqliteStore(home) as store:
        (lost,) = fail_lost_runs(store)
        assert fail_lost_runs(store) == []
        session = store.sessions.all()[0]
        lines = [event.line for event in store.events.of_session(session.session_id)]

    terminal = parse_event(lines[-1].encode()).body
    assert isinstance(terminal, Failure)
    assert (terminal.error.type, terminal.error.retryable) == ("attempt_lost", True)
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert {json.loads(line)["run_id"] for line in lines} == {lost}
    # The end of its stdin told the executor that nobody is there any more.
    assert processes_in(project) == []


EVENT = (
    '{{"schema_version":"3.0","event_type":"{}","run_id":"run_1","session_id":"ses_1","timestamp":"{}","seq":{},{}}}'
)
EXECUTOR = '"executor":{"name":"x","version":"1.0"}'


@pytest.mark.requirement("AOX-261")
def test_the_end_of_a_lost_run_names_the_last_event_that_was_there(tmp_path: Path) -> None:
    started = EVENT.format("run_started", "2026-01-01T00:00:00Z", 1, EXECUTOR)
    tool = EVENT.format(
        "tool_started", "2026-01-01T00:00:01Z", 2, '"tool_call_id":"t1","tool_name":"sh","tool_input":{}'
    )
    with SqliteStore(tmp_path) as store:
        store.sessions.add(SESSION)
        store.runs.begin(RUN, "nobody")
        store.events.add("run_1", 1, [started.encode(), tool.encode()])

        fail_lost_runs(store)
        kept = [json.loads(event.line) for event in store.events.of_session("ses_1")]

    assert [(event["seq"], event["event_type"]) for event in kept[2:]] == [(3, "tool_finished"), (4, "failure")]
    assert kept[-1]["error"]["details"] == {"last_seq": 2}


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    with own_runs(tmp_path) as owner, SqliteStore(tmp_path) as store:
        store.sessions.add(SESSION)
        store.runs.begin(RUN, owner)

        assert fail_lost_runs(store) == []


def test_a_run_whose_worker_is_lost_before_it_began_is_queued_again(store: Store) -> None:
    enqueue(store, "run_1")
    claim(store, "dead", lease_seconds=0)

    assert fail_lost_runs(store) == []
    assert [state.run.run_id for state in store.runs.states("queued")] == ["run_1"]
    with pytest.raises(NotHeld, match="it is queued"):
        store.queue.begin("run_1", 1, "late")
    assert [one.attempt for one in claim(store, "living")] == [2]
    with pytest.raises(NotHeld, match="attempt 2 has taken the place of attempt 1"):
        store.queue.begin("run_1", 1, "late")


def test_a_run_that_no_worker_survives_long_enough_to_begin_ends_as_lost(store: Store) -> None:
    enqueue(store, "run_1")
    attempts = 0
    while claim(store, "dead", lease_seconds=0):
        attempts += 1
        ended = fail_lost_runs(store)

    assert (attempts, ended) == (5, ["run_1"])
    error = json.loads(lines_of(store, "run_1")[-1])["error"]
    assert (error["type"], error["side_effects"], error["details"]) == ("attempt_lost", "none", {"last_seq": 0})

"""The commands that show what is there."""

import json
import subprocess

import pytest

from tests.process.runner.cli.calling import SECONDS, Ao, miniature


@pytest.fixture
def ran(ao: Ao) -> Ao:
    """Return an `ao` with one session that has a result."""
    ao("run", "agent.yaml", "-p", "hello", "--executor", miniature("answers_at_once"))
    return ao


def test_sessions_are_listed(ran: Ao) -> None:
    called = ran("sessions")

    header, row = called.stdout.splitlines()
    assert header.split() == ["SESSION", "NEWEST", "AGENT", "EXECUTOR", "RUNS", "LAST", "BEGAN", "PROMPT"]
    assert row.split()[2:6] == ["agent", "answers_at_once", "1", "completed"]


def test_without_sessions_it_says_how_to_begin_one(ao: Ao) -> None:
    called = ao("sessions")

    assert (called.exit_code, called.stdout) == (0, "")
    assert "ao run BLUEPRINT" in called.stderr


def test_events_are_printed_as_they_were_relayed(ran: Ao) -> None:
    events = [json.loads(line) for line in ran("events", "last").stdout.splitlines()]

    assert [event["seq"] for event in events] == [1, 2, 3]


def test_events_of_another_process_are_followed_to_their_end(ao: Ao) -> None:
    argv = ao.argv("run", "agent.yaml", "-p", "x", "--executor", miniature("works_for_ever"), "--events")
    with subprocess.Popen(argv, cwd=ao.folder, env=ao.environment(), stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        run.stdout.readline()
        follow = ao.argv("events", "last", "--follow")
        with subprocess.Popen(follow, cwd=ao.folder, env=ao.environment(), stdout=subprocess.PIPE) as follower:
            assert follower.stdout is not None
            assert b"run_started" in follower.stdout.readline()
            run.terminate()
            assert b'"status": "cancelled"' in follower.stdout.read().splitlines()[-1]
            assert follower.wait(SECONDS) == 0
        run.stdout.read()


def test_events_of_a_run_that_waits_are_followed_to_its_end(ran: Ao) -> None:
    ran("submit", "--session", "last", "-p", "more")
    follow = ran.argv("events", "last", "--follow")
    with subprocess.Popen(follow, cwd=ran.folder, env=ran.environment(), stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        # It has looked how the runs stand before it prints what there is.
        assert b"run_started" in follower.stdout.readline()
        ran("cancel", "last")
        assert b"cancelled before a worker" in follower.stdout.read()
        assert follower.wait(SECONDS) == 0


def test_one_run_is_followed_to_its_own_end(ran: Ao) -> None:
    run_id = ran("runs", "--json").document[0]["run_id"]
    ran("submit", "--session", "last", "-p", "more")

    called = ran("events", "last", "--follow", "--run", run_id)

    assert [json.loads(line)["run_id"] for line in called.stdout.splitlines()] == [run_id] * 3


def test_the_result_of_a_session_is_there_later(ran: Ao) -> None:
    called = ran("result", "last")

    assert (called.exit_code, called.stdout) == (0, "hello\n")


def test_a_failure_is_there_later_with_its_exit_code(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "x", "--executor", miniature("crashes_by_signal"))

    called = ao("result", "last")

    assert (called.exit_code, called.stdout) == (75, "")
    assert "executor_crashed" in called.stderr


def test_the_record_of_a_run_can_be_seen(ran: Ao) -> None:
    record = ran("result", "last", "--record").document["record"]

    assert record["exit_code"] == 0
    assert record["argv"] == [miniature("answers_at_once")]


def test_executors_are_listed_also_those_that_do_not_describe_themselves(ao: Ao) -> None:
    folder = ao.folder / "bin"
    folder.mkdir()
    (folder / "ao-tiny-exec").symlink_to(miniature("answers_at_once"))
    (folder / "ao-odd-exec").symlink_to(miniature("describes_nothing"))

    called = ao("executors", "--json", PATH=f"{folder}:{ao.environment()['PATH']}")

    by_name = {item["name"]: item for item in called.document}
    assert by_name["tiny"]["description"]["capabilities"]["resume"] is True
    assert by_name["odd"]["description"] is None
    assert "does not print a valid description" in by_name["odd"]["problem"]


def test_an_executor_is_described(ao: Ao) -> None:
    called = ao("executors", "describe", miniature("answers_at_once"))

    assert called.document["executor"] == {"name": "miniature", "version": "1"}


def test_a_description_that_is_too_long_is_named_as_that(ao: Ao) -> None:
    called = ao("executors", "describe", miniature("describes_itself_at_length"))

    assert called.exit_code != 0
    assert "its description has more than 1048576 bytes" in called.stderr


def test_a_good_blueprint_is_said_to_be_good(ao: Ao) -> None:
    called = ao("blueprint", "check", "agent.yaml")

    assert (called.exit_code, called.stdout) == (0, "✓ agent.yaml: agent is a valid blueprint\n")


BAD = {
    "a wrong field": ("name: a\ntype: robot\n", "$.type: "),
    "a wrong schema": ("name: a\noutput_schema: {type: objekt}\n", "$.output_schema.type: "),
    "no command": ("name: a\ntype: procedural\n", "$.command: missing"),
    "a command too many": ("name: a\ncommand: ./x\n", "$.command: './x' is for agents of type procedural"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_blueprint_is_told_with_its_place(name: str, ao: Ao) -> None:
    text, words = BAD[name]
    ao.write("bad.yaml", text)

    called = ao("blueprint", "check", "bad.yaml")

    assert called.exit_code == 1
    assert f"bad.yaml: {words}" in called.stderr


def test_a_field_that_nobody_reads_is_only_remarked(ao: Ao) -> None:
    ao.write("odd.yaml", "name: a\nsystem_promt: x\n")

    called = ao("blueprint", "check", "odd.yaml", "--json")

    assert called.document == {
        "ok": True,
        "name": "a",
        "problems": [],
        "remarks": ["$.system_promt: unknown field, ignored; did you mean 'system_prompt'?"],
    }

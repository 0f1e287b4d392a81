"""`ao run` and `ao resume`, as a person calls them."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.process.executors.driver import wait_until
from tests.process.lifeline.leftovers import processes_in
from tests.process.runner.cli.calling import SECONDS, Ao, at_a_terminal, miniature, read_until


def test_the_result_alone_stands_on_stdout(ao: Ao) -> None:
    called = ao("run", "agent.yaml", "-p", "hello", "--executor", miniature("answers_at_once"))

    assert (called.exit_code, called.stdout) == (0, "hello\n")
    assert "miniature 1 started" in called.stderr
    assert "continue: ao resume ses_" in called.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "dies_of_an_exception",
            [
                "missing_terminal",
                "RuntimeError: the database is on fire",
                "an error in the executor; see its stderr above",
            ],
        ),
        ("crashes_by_signal", ["retry; if it keeps crashing, run it by hand: it wrote nothing to stderr"]),
    ],
)
def test_a_failure_says_what_happened_and_what_to_do(name: str, words: list[str], ao: Ao) -> None:
    called = ao("run", "agent.yaml", "-p", "hello", "--executor", miniature(name))

    assert called.stdout == ""
    assert all(word in called.stderr for word in words)
    assert called.stderr.splitlines()[-1].startswith("  what to do: ")
    assert called.stderr.splitlines()[-1].endswith(words[-1])


def test_events_are_lines_of_json_and_nothing_else(ao: Ao) -> None:
    called = ao("run", "agent.yaml", "-p", "hello", "--executor", miniature("answers_at_once"), "--events")

    events = [json.loads(line) for line in called.stdout.splitlines()]
    assert [event["event_type"] for event in events] == ["run_started", "session_bound", "result"]
    assert called.stderr == ""


def test_an_executor_whose_run_is_refused_is_not_shown_as_started(ao: Ao) -> None:
    ao.write("config.yaml", "script_file: in/no/root.json\n")

    called = ao("run", "agent.yaml", "-p", "hello", "--executor", "scripted", "--config", "config.yaml")

    assert called.exit_code != 0
    assert "invalid_executor_config" in called.stderr
    assert "started" not in called.stderr


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [("answers_at_once", 0), ("dies_of_an_exception", 1), ("speaks_an_older_version", 64), ("crashes_by_signal", 75)],
)
def test_json_is_the_terminal_event_and_the_exit_code_its_own(name: str, exit_code: int, ao: Ao) -> None:
    called = ao("run", "agent.yaml", "-p", "hello", "--executor", miniature(name), "--json")

    assert called.exit_code == exit_code
    assert called.document["event_type"] == ("failure" if exit_code else "result")


def test_what_the_executor_broke_is_told(ao: Ao) -> None:
    called = ao("run", "agent.yaml", "-p", "hello", "--executor", miniature("exits_wrong_code"))

    assert called.exit_code == 0
    assert "exited with code 3, but its terminal event means exit code 0" in called.stderr


def test_a_prompt_can_be_piped_in(ao: Ao) -> None:
    piped = ao("run", "agent.yaml", "--executor", miniature("answers_at_once"), stdin="from a pipe")
    dashed = ao("run", "agent.yaml", "-p", "-", "--executor", miniature("answers_at_once"), stdin="from a dash")

    assert (piped.stdout, dashed.stdout) == ("from a pipe\n", "from a dash\n")


SCHEMA = """
name: writer
parameters_schema:
  type: object
  properties:
    topic: {type: string}
    max_words: {type: integer}
    tags: {type: array}
    either: {type: [string, "null"]}
"""


def test_parameters_are_text_unless_the_schema_says_otherwise(ao: Ao) -> None:
    ao.write("writer.yaml", SCHEMA)
    ao.write("more.yaml", "topic: from the file\ntags: [a]\n")
    pairs = ["topic=42", "max_words=500", "either=null", "unknown=7"]

    called = ao(
        "run",
        "writer.yaml",
        *[argument for pair in pairs for argument in ("--param", pair)],
        *("--params", "more.yaml", "--executor", miniature("shows_its_invocation")),
    )

    assert called.document["parameters"] == {
        "topic": "42",
        "tags": ["a"],
        "max_words": 500,
        "either": "null",
        "unknown": "7",
    }


def test_configuration_project_and_time_reach_the_executor(ao: Ao) -> None:
    ao.write("config.yaml", "size: small\n")
    (ao.folder / "work").mkdir()

    options = ["--config", "config.yaml", "--project-dir", "work", "--timeout", "90"]
    called = ao("run", "agent.yaml", "-p", "x", "--executor", miniature("shows_its_invocation"), *options)

    assert called.document["executor_config"] == {"size": "small"}
    assert called.document["project_dir"] == str(ao.folder / "work")
    assert called.document["limits"]["timeout_seconds"] == 90


def test_a_procedural_agent_finds_its_command_beside_its_blueprint(ao: Ao) -> None:
    (ao.folder / "agents").mkdir()
    ao.write("agents/tool.yaml", "name: tool\ntype: procedural\ncommand: ./tool\n")

    called = ao("run", "agents/tool.yaml", "-p", "x", "--executor", miniature("shows_its_invocation"))

    assert "prompt" not in called.document
    assert called.document["executor_config"] == {"commands_dir": str(ao.folder / "agents")}


NOTHING_RUN = {
    "no prompt": (["run", "agent.yaml", "--executor", "E"], "Missing prompt"),
    "no blueprint": (["run", "nope.yaml", "-p", "x"], "nope.yaml"),
    "unknown executor": (["run", "agent.yaml", "-p", "x", "--executor", "nobody"], "no executor is called 'nobody'"),
    "no pair": (["run", "agent.yaml", "-p", "x", "--param", "topic", "--executor", "E"], "'topic' is not K=V"),
    "no folder": (["run", "agent.yaml", "-p", "x", "--project-dir", "nope"], "nope"),
    "unknown session": (["resume", "ses_nope", "-p", "x"], "there is no session or run 'ses_nope'"),
    "unknown command": (["runn"], "Did you mean 'run'?"),
    "no script": (["run", "agent.yaml", "-p", "x", "--executor", "E", "--model-script", "agent.yaml"], "agent.yaml"),
}


@pytest.mark.parametrize("name", NOTHING_RUN)
def test_where_nothing_can_be_run_the_exit_code_is_2_and_the_reason_is_told(name: str, ao: Ao) -> None:
    arguments, words = NOTHING_RUN[name]

    called = ao(*[miniature("answers_at_once") if argument == "E" else argument for argument in arguments])

    assert called.exit_code == 2
    assert called.stdout == ""
    assert words in called.stderr
    assert "Traceback" not in called.stderr
    assert ao("sessions", "--json").document == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(
            "many", "'many' is not JSON that a run can carry: line 1, column 1: Expecting value", id="no JSON"
        ),
        pytest.param("1e999", "the number 1e999 is too large", id="too large"),
        pytest.param("NaN", "NaN is not JSON", id="not a number"),
        pytest.param("9007199254740993", "$: 9007199254740993 is outside", id="an integer that loses digits"),
        pytest.param('{"a": 1, "a": 2}', '$: duplicate key "a"', id="a key twice"),
    ],
)
def test_a_parameter_that_no_run_can_carry_is_refused_before_anything_is_kept(value: str, reason: str, ao: Ao) -> None:
    ao.write("writer.yaml", SCHEMA)

    called = ao("run", "writer.yaml", "--param", f"max_words={value}", "--executor", miniature("answers_at_once"))

    assert called.exit_code == 2
    assert f"max_words has the type integer, and {value!r} is not JSON" in called.stderr
    assert reason in " ".join(called.stderr.split())
    assert ao("sessions", "--json").document == []


def test_a_session_goes_on_in_a_later_process(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "first", "--executor", miniature("answers_at_once"))

    called = ao("resume", "last", "-p", "second")

    assert (called.exit_code, called.stdout) == (0, "second (going on with mini-1)\n")
    assert [len(session["runs"]) for session in ao("sessions", "--json").document] == [2]


def test_nothing_is_proposed_that_cannot_work(ao: Ao) -> None:
    bound = ao("run", "agent.yaml", "-p", "first", "--executor", miniature("binds_in_vain"))
    refused = ao("resume", "last", "-p", "second")
    shown = ao("result", "last")
    ao("run", "agent.yaml", "-p", "first", "--executor", miniature("loses_its_session"))
    lost = ao("resume", "last", "-p", "second")

    assert (bound.exit_code, "continue:" in bound.stderr) == (0, False)
    assert ("unsupported_capability" in refused.stderr, "continue:" in refused.stderr) == (True, False)
    assert "`ao executors describe binds_in_vain` shows the capabilities" in shown.stderr
    assert ("session_not_found" in lost.stderr, "continue:" in lost.stderr) == (True, False)


def test_a_session_that_the_executor_did_not_bind_cannot_go_on(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "first", "--executor", miniature("shows_its_invocation"))

    called = ao("resume", "last", "-p", "second")

    assert called.exit_code == 2
    assert "never announced a session id" in called.stderr


@pytest.mark.parametrize(
    ("name", "signals"),
    [
        ("works_for_ever", [signal.SIGINT]),
        ("works_for_ever", [signal.SIGTERM]),
        ("works_for_ever", [signal.SIGHUP]),
        # Two of one kind may arrive as one.
        ("ignores_sigterm", [signal.SIGINT, signal.SIGTERM]),
    ],
    ids=["Ctrl-C asks", "SIGTERM asks", "SIGHUP asks", "the second kills"],
)
def test_a_signal_first_asks_then_kills_and_the_run_is_kept(name: str, signals: list[signal.Signals], ao: Ao) -> None:
    argv = ao.argv("run", "agent.yaml", "-p", "x", "--executor", miniature(name), "--events")
    with subprocess.Popen(argv, cwd=ao.folder, env=ao.environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"run_started" in process.stdout.readline()
        for number in signals:
            process.send_signal(number)
        last = process.stdout.read().splitlines()[-1]
        assert process.wait(SECONDS) == 130

    assert json.loads(last)["status"] == "cancelled"
    assert ao("result", "last", "--json").document == json.loads(last)
    assert processes_in(ao.folder) == []


@pytest.mark.parametrize("options", [["--events"], []], ids=["events", "progress"])
def test_a_reader_that_goes_away_cancels_the_run(options: list[str], ao: Ao) -> None:
    argv = ao.argv("run", "agent.yaml", "-p", "x", "--executor", miniature("works_loudly_for_ever"), *options)
    with subprocess.Popen(
        argv, cwd=ao.folder, env=ao.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(SECONDS) == 130

    assert ao("sessions", "--json").document[0]["runs"][0]["status"] == "cancelled"
    assert processes_in(ao.folder) == []


TAKES_THE_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"], ids=["plain lines", "live"])
def test_a_terminal_that_closes_cancels_the_run(terminal: str, ao: Ao) -> None:
    run = ("run", "agent.yaml", "-p", "hello", "--executor", miniature("works_for_ever"))
    starter = [sys.executable, "-c", TAKES_THE_TERMINAL]
    streams = {"stdin": None, "stdout": subprocess.DEVNULL}
    with at_a_terminal(ao, *run, starter=starter, streams=streams, variables={"TERM": terminal}) as (process, ours):
        read_until(ours, b"miniature 1 started")
        os.close(ours)
        assert process.wait(SECONDS) == 130

    assert ao("sessions", "--json").document[0]["runs"][0]["status"] == "cancelled"
    assert processes_in(ao.folder) == []


def test_at_a_terminal_the_run_is_told_live_and_in_colours(ao: Ao) -> None:
    run = ("run", "agent.yaml", "-p", "hello", "--executor", miniature("prints_garbage"))
    with at_a_terminal(ao, *run, streams={"stdin": None, "stdout": subprocess.PIPE}) as (process, ours):
        assert process.stdout is not None
        assert process.stdout.read() == b"done\n"
        assert process.wait(SECONDS) == 0
        shown = read_until(ours).decode()

    assert "the executor broke the protocol" in shown
    assert "\x1b[33m" in shown
    assert "completed in" in shown


def test_a_model_script_replaces_model_key_and_home(ao: Ao) -> None:
    ao.write("script.yaml", "answers:\n  - text: Hello.\n")

    options = ["--executor", miniature("shows_its_environment"), "--model-script", "script.yaml"]
    called = ao("run", "agent.yaml", "-p", "x", *options, MINIATURE_KEY="the-real-key")

    environment = called.document["environment"]
    assert environment["MINIATURE_URL"].startswith("http://127.0.0.1:")
    assert environment["MINIATURE_KEY"] == "sk-ant-model-sim"
    assert environment["HOME"] == str(ao.folder / "ao-home" / "model-script-home")


def test_a_model_script_imports_nothing_from_the_current_folder(ao: Ao) -> None:
    """An agent may have written there."""
    ao.write("script.yaml", "answers:\n  - text: Hello.\n")
    ao.write("ao_model_simulator.py", "open('imported', 'w')\n")

    options = ["--executor", miniature("shows_its_environment"), "--model-script", "script.yaml"]
    called = ao("run", "agent.yaml", "-p", "x", *options)

    assert called.exit_code == 0, called.stderr
    assert not (ao.folder / "imported").exists()


def test_an_executor_that_asks_no_model_is_run_all_the_same(ao: Ao) -> None:
    ao.write("script.yaml", "answers:\n  - text: Hello.\n")

    called = ao("run", "agent.yaml", "-p", "hello", "--executor", "echo", "--model-script", "script.yaml")

    assert (called.exit_code, called.stdout) == (0, "hello\n")
    assert "executor echo does not ask a model: the script is not used" in called.stderr


def test_a_session_of_a_script_wants_a_script_again(ao: Ao) -> None:
    ao.write("script.yaml", "answers:\n  - text: Hello.\n")
    options = ["--executor", miniature("answers_at_once"), "--model-script", "script.yaml"]
    ao("run", "agent.yaml", "-p", "x", *options)

    without = ao("resume", "last", "-p", "y")
    with_script = ao("resume", "last", "-p", "y", "--model-script", "script.yaml")

    assert (without.exit_code, with_script.exit_code) == (2, 0)
    assert "Add --model-script FILE" in without.stderr


def test_a_reader_that_reads_nothing_holds_up_no_time_limit(ao: Ao) -> None:
    flood = miniature("floods_events")
    argv = ao.argv(
        "run", "agent.yaml", "-p", "x", "--events", "--executor", flood, "--param", "events=50000", "--timeout", "0.2"
    )

    with subprocess.Popen(argv, cwd=ao.folder, env=ao.environment(), stdout=subprocess.PIPE) as process:
        wait_until(lambda: "deadline_exceeded" in ao("runs").stdout)
        assert process.stdout is not None
        last = process.stdout.read().splitlines()[-1]

    assert json.loads(last)["error"]["type"] == "deadline_exceeded"
    assert process.returncode == 1

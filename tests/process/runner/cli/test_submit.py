"""`ao submit`: runs that wait for a worker."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from ao_runner.cli.program import program
from tests.process.runner.cli.calling import SECONDS, Ao, miniature


@contextmanager
def a_worker(ao: Ao, *options: str) -> Iterator[None]:
    """Have a worker work meanwhile; it has to leave by itself when it is told to."""
    argv = ao.argv("worker", "--log-format", "json", *options)
    with subprocess.Popen(argv, cwd=ao.folder, env=ao.environment(), stderr=subprocess.PIPE) as worker:
        assert worker.stderr is not None
        assert b"worker started" in worker.stderr.readline()
        yield
        worker.terminate()
        worker.communicate(timeout=SECONDS)
        assert worker.returncode == 0


def test_a_run_waits_and_it_is_told_that_nobody_performs_it(ao: Ao) -> None:
    called = ao("submit", "agent.yaml", "-p", "hello", "--profile", miniature("answers_at_once"), "--json")

    assert called.exit_code == 0
    assert called.stderr == "ao: no worker is running to perform queued runs; start one: ao worker\n"
    assert called.document == {
        "run_id": called.document["run_id"],
        "session_id": called.document["session_id"],
        "status": "queued",
    }


def test_it_is_told_when_no_worker_serves_the_profile(ao: Ao) -> None:
    with a_worker(ao, "--profile", "echo"):
        called = ao("submit", "agent.yaml", "-p", "x", "--profile", miniature("answers_at_once"))

    profile = miniature("answers_at_once")
    assert called.stderr == f"ao: no worker serves {profile}; start one: ao worker --profile {profile}\n"


def test_a_further_prompt_is_performed_when_the_session_is_free(ao: Ao) -> None:
    ao("submit", "agent.yaml", "-p", "one", "--profile", miniature("answers_at_once"))
    with a_worker(ao):
        further = ao("submit", "--session", "last", "-p", "two", "--wait", "--json")

    assert further.document["event_type"] == "result"
    runs = ao("runs", "--json").document
    assert [(run["mode"], run["status"], run["parameters"]["prompt"]) for run in runs] == [
        ("resume", "completed", "two"),
        ("start", "completed", "one"),
    ]
    assert len({run["session_id"] for run in runs}) == 1


def test_a_session_that_nobody_remembers_is_refused(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "x", "--executor", miniature("crashes_by_signal"))

    called = ao("submit", "--session", "last", "-p", "more")

    assert called.exit_code == 2
    assert "cannot be resumed" in called.stderr
    assert len(ao("runs", "--json").document) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing BLUEPRINT; or use --session"),
        (["agent.yaml", "--session", "last", "-p", "x"], "BLUEPRINT is for new sessions"),
        (["--session", "last", "--param", "a=b"], "--param is for new sessions"),
        (["--session", "ses_none", "-p", "x"], "there is no session or run 'ses_none'"),
        (["agent.yaml", "-p", "x", "--profile", "nobody"], "no profile or executor is called 'nobody'"),
        (["agent.yaml", "-p", "x", "--verify-results"], "No such option"),
    ],
)
def test_what_cannot_be_queued_is_refused_with_advice(arguments: list[str], words: str, ao: Ao) -> None:
    with contextlib.chdir(ao.folder):
        called = CliRunner().invoke(program, ["submit", *arguments], env=ao.environment())

    assert (called.exit_code, called.stdout) == (2, "")
    assert words in called.stderr


def test_the_path_of_a_profile_is_kept_whole(ao: Ao) -> None:
    (ao.folder / "ao-tiny-exec").symlink_to(miniature("answers_at_once"))

    ao("submit", "agent.yaml", "-p", "x", "--profile", "./ao-tiny-exec")

    (run,) = json.loads(ao("runs", "--json").stdout)
    assert run["profile"] == str(ao.folder / "ao-tiny-exec")


def test_parameters_that_do_not_fit_are_refused_before_anything_is_queued(ao: Ao) -> None:
    ao.write("writer.yaml", "name: a\nparameters_schema: {required: [topic], properties: {words: {type: integer}}}\n")
    called = ao("submit", "writer.yaml", "--param", "words=7")
    assert (called.exit_code, called.stdout) == (2, "")
    assert 'the parameters do not fit the agent: $: "topic" is a required property. Nothing was queued' in called.stderr
    assert ao("runs", "--json").document == []


@pytest.fixture
def scripted(ao: Ao) -> Ao:
    """Return an `ao` with a script whose answer stands in another file."""
    ao.write("answer.txt", "Hello.")
    ao.write("script.yaml", "answers:\n  - text_file: answer.txt\n    repeat: forever\n")
    return ao


def test_a_worker_plays_the_script_that_was_submitted_though_its_files_are_gone(scripted: Ao) -> None:
    ao, profile = scripted, miniature("shows_its_environment")
    ao("submit", "agent.yaml", "-p", "x", "--profile", profile, "--model-script", "script.yaml")
    (ao.folder / "answer.txt").unlink()
    (ao.folder / "script.yaml").unlink()

    worker = ao("worker", "--until-idle", MINIATURE_KEY="the-real-key")

    assert worker.exit_code == 0
    environment = ao("result", "last").document["environment"]
    assert environment["MINIATURE_URL"].startswith("http://127.0.0.1:")
    assert environment["MINIATURE_KEY"] == "sk-ant-model-sim"
    assert environment["HOME"] == str(ao.folder / "ao-home" / "model-script-home")


def test_the_real_executor_asks_the_simulated_model(scripted: Ao) -> None:
    pytest.importorskip("claude_agent_sdk")
    scripted("submit", "agent.yaml", "-p", "x", "--model-script", "script.yaml")
    scripted("worker", "--until-idle")
    first = scripted("result", "last")
    scripted("submit", "--session", "last", "-p", "more", "--model-script", "script.yaml")
    scripted("worker", "--until-idle")

    assert (first.exit_code, first.stdout) == (0, "Hello.\n")
    assert scripted("result", "last").stdout == "Hello.\n"
    assert [run["mode"] for run in scripted("runs", "--json").document] == ["resume", "start"]


def test_a_script_that_cannot_be_played_queues_nothing(ao: Ao) -> None:
    ao.write("broken.json", "{")

    called = ao("submit", "agent.yaml", "-p", "x", "--model-script", "broken.json")

    assert called.exit_code == 2
    assert "broken.json: the script is not JSON" in called.stderr
    assert ao("runs", "--json").document == []


def test_a_session_of_a_script_wants_a_script_again_and_one_of_a_model_none(scripted: Ao) -> None:
    options = ["-p", "x", "--executor", miniature("answers_at_once")]
    scripted("run", "agent.yaml", *options, "--model-script", "script.yaml")
    without = scripted("submit", "--session", "last", "-p", "more")
    scripted("run", "agent.yaml", *options)
    with_script = scripted("submit", "--session", "last", "-p", "more", "--model-script", "script.yaml")

    assert (without.exit_code, with_script.exit_code) == (2, 2)
    assert "Add --model-script FILE" in without.stderr
    assert "Omit --model-script" in with_script.stderr

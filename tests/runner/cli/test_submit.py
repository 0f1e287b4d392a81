"""`ao submit`: runs that wait for a worker."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from ao_runner.cli.program import program
from tests.runner.cli.calling import SECONDS, Ao, miniature


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
    assert "the parameters do not fit the agent: $: 'topic' is a required property. Nothing was queued" in called.stderr
    assert ao("runs", "--json").document == []

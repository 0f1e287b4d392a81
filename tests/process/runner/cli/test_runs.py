"""`ao runs` and `ao cancel`: what waits, and how it is given up."""

import pytest

from tests.process.runner.cli.calling import Ao, miniature


def fill(ao: Ao) -> Ao:
    """Put three runs in: one that has failed and two that wait."""
    ao.write("agent.yaml", "name: agent\n")
    ao("run", "agent.yaml", "-p", "ran", "--executor", miniature("crashes_by_signal"))
    for prompt in ("first", "second"):
        ao("submit", "agent.yaml", "-p", prompt, "--profile", miniature("answers_at_once"))
    return ao


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Ao:
    """Return an `ao` with three runs, which no test changes."""
    return fill(Ao(tmp_path_factory.mktemp("waiting")))


def test_runs_are_listed_the_newest_first_with_what_to_do_for_those_that_wait(waiting: Ao) -> None:
    called = waiting("runs")

    header, *rows = called.stdout.splitlines()
    assert header.split() == ["RUN", "SESSION", "AGENT", "PROFILE", "STATUS", "EVENTS", "SINCE", "PROMPT", "LABELS"]
    assert [row.split()[-1] for row in rows] == ["second", "first", "ran"]
    assert called.stderr == "no worker is running to perform queued runs; start one: ao worker\n"


def test_they_can_be_chosen_by_their_status(waiting: Ao) -> None:
    failed = waiting("runs", "--status", "failed", "--json").document
    others = waiting("runs", "--status", "queued", "--status", "running", "--json").document

    assert [run["error_type"] for run in failed] == ["executor_crashed"]
    assert [run["parameters"]["prompt"] for run in others] == ["second", "first"]
    assert waiting("runs", "--status", "cancelled").stderr.startswith("no run fits; add one to the queue")


def test_the_json_of_a_run_has_these_fields(waiting: Ao) -> None:
    assert list(waiting("runs", "--json").document[0]) == [
        "run_id",
        "session_id",
        "profile",
        "timeout_seconds",
        "metadata",
        "labels",
        "requires",
        "priority",
        "not_before",
        "requeue",
        "parent_session_id",
        "execution_mode",
        "mode",
        "parameters",
        "started_at",
        "status",
        "ended_at",
        "error_type",
        "contract",
        "input_responses",
        "batch_id",
        "succeeds",
        "agent_name",
        "waits",
        "attempt",
        "owner",
        "queued_at",
        "has_begun",
        "stop_wanted",
        "last_seq",
        "host",
        "aside",
    ]


def test_runs_that_wait_are_cancelled_at_once_and_the_others_are_named(ao: Ao) -> None:
    fill(ao)
    ids = [run["run_id"] for run in ao("runs", "--json").document]

    called = ao("cancel", "last", ids[1], ids[2], "run_none")

    assert called.exit_code == 2
    told = called.stderr.splitlines()
    assert told[:2] == [f"{run_id} cancelled; no worker had started it" for run_id in ids[:2]]
    assert told[2].startswith(f"Error: {ids[2]} has already ended: failed; `ao result ses_")
    assert told[3].startswith("there is no session or run 'run_none'")
    assert [run["status"] for run in ao("runs", "--json").document] == ["cancelled", "cancelled", "failed"]


def test_ids_that_are_waiting_can_be_completed(waiting: Ao) -> None:
    completed = waiting(_AO_COMPLETE="bash_complete", COMP_WORDS="ao cancel run_", COMP_CWORD="2")

    assert [line[:10] for line in completed.stdout.split()] == ["plain,run_"] * 2

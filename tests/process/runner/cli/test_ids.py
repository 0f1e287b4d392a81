"""Ids that one command prints, every other command accepts; one that is unknown is an error, never an empty answer."""

from pathlib import Path

import pytest

from tests.process.runner.cli.calling import MINIATURES, Ao


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Ao:
    """A store with two sessions, of which the older one has two runs, one of them the newest."""
    ao = Ao(tmp_path_factory.mktemp("ids"))
    ao.write("agent.yaml", "name: agent\n")
    for prompt in ("a", "b"):
        ao("run", "agent.yaml", "-p", prompt, "--executor", str(MINIATURES / "answers_at_once.py"))
    first = ao("sessions", "--json").document[-1]["session_id"]
    ao("submit", "--session", first, "-p", "c")
    return ao


def ids(ao: Ao) -> tuple[list[str], list[str]]:
    """Return the ids of runs and sessions as the lists show them."""
    lists = [ao(name).stdout.splitlines()[1:] for name in ("runs", "sessions")]
    runs, sessions = ([line.split()[0] for line in lines] for lines in lists)
    return runs, sessions


@pytest.mark.parametrize("command", ["events", "result"])
def test_a_run_and_its_session_are_understood_whole_and_by_their_beginning(kept: Ao, command: str) -> None:
    runs, sessions = ids(kept)
    for run_id in runs[1:]:
        shown = kept(command, run_id).stdout
        assert kept(command, run_id[:10]).stdout == shown != ""
    assert kept(command, sessions[1]).stdout == kept(command, sessions[1], "--run", "last").stdout


def test_last_is_the_first_row_of_both_lists(kept: Ao) -> None:
    runs, sessions = ids(kept)
    newest = kept("runs", "--json").document[0]
    assert (newest["run_id"], newest["session_id"]) == (runs[0], sessions[0])
    assert kept("events", "last").stdout == kept("events", sessions[0]).stdout


@pytest.mark.parametrize("command", ["events", "result"])
def test_run_takes_the_id_of_a_session_and_names_the_owner_of_a_foreign_run(kept: Ao, command: str) -> None:
    newer, older = kept("sessions", "--json").document
    (foreign,) = (run["run_id"] for run in kept("runs", "--json").document if run["session_id"] == older["session_id"])
    shown = kept(command, older["session_id"], "--run", older["session_id"]).stdout
    assert shown == kept(command, foreign).stdout != ""
    called = kept(command, newer["session_id"], "--run", foreign[:10])
    assert (called.exit_code, called.stdout) == (2, "")
    assert f"'{foreign[:10]}' is of session {older['session_id']}, not of {newer['session_id']}" in called.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("events", "nope"), ("events", "last", "--run", "nope"), ("events", ""), ("result", "last", "--run", "nope"),
        ("result", "RUN_"), ("resume", "nope", "-p", "x"), ("cancel", "nope"), ("cancel", ""),
        ("submit", "--session", "nope", "-p", "x"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_unknown_id_is_an_error(kept: Ao, arguments: tuple[str, ...]) -> None:
    called = kept(*arguments)
    assert (called.exit_code, called.stdout) == (2, "")
    assert "there is no session or run" in called.stderr


def test_the_beginning_of_several_names_them(kept: Ao) -> None:
    called = kept("result", "run_")
    assert called.exit_code == 2
    assert "is ambiguous: run_" in called.stderr


def test_a_session_is_cancelled_by_its_id(tmp_path: Path) -> None:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: agent\n")
    run_id = ao("submit", "agent.yaml", "-p", "x", "--profile", "echo").stdout.strip()
    session_id = ao("runs", "--json").document[0]["session_id"]
    assert f"{run_id} cancelled" in ao("cancel", session_id).stderr

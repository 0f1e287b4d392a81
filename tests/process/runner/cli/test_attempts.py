"""Rejected answers: kept with the run for people, in no event, without secrets, and only if the caller wants it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ao_protocol.rejected_answers import MAX_CHARACTERS
from tests.process.runner.cli.calling import Ao, Called
from tests.process.runner.cli.test_contract import SCHEMA

WRONG = 'It is {"n": "the-rejected-one"}'
SECRET = "s3cr3t-of-the-host"  # made up


@pytest.fixture
def counter(ao: Ao) -> Ao:
    ao.write("usual.json", json.dumps({"name": "usual", "default_output_schema": SCHEMA}))
    return ao


def play(ao: Ao, answers: list[str], *arguments: str, command: str = "run", **variables: str) -> Called:
    profile = {"executor": "scripted", "secrets": ["THE_KEY"], "config": {"script": {"answers": _texts(answers)}}}
    path = str(ao.write("profile.json", json.dumps(profile)))
    return ao(command, "usual.json", "-p", "x", "--profile", path, *arguments, THE_KEY=SECRET, **variables)


def _texts(answers: list[str]) -> list[dict[str, str]]:
    return [{"text": text} for text in answers]


def attempts(ao: Ao) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ao("result", "last", "--attempts", "--json").document
    return found


def test_a_failure_names_the_command_that_shows_each_rejected_answer(counter: Ao) -> None:
    called = play(counter, [WRONG] * 3)
    (advice,) = (line for line in called.stderr.splitlines() if "rejected answers:" in line)
    shown = counter(*advice.partition("ao ")[2].split())

    assert called.exit_code == 1
    assert shown.exit_code == 0
    assert [line for line in shown.stdout.splitlines() if line.startswith("attempt")] == [
        f"attempt {number}: rejected" for number in (1, 2, 3)
    ]
    assert shown.stdout.count(f"  | {WRONG}\n") == 3
    assert '$.n: "the-rejected-one" is not of type "integer"' in shown.stdout


def test_a_valid_answer_follows_the_rejected_one(counter: Ao) -> None:
    assert play(counter, [WRONG, '{"n": 1}']).exit_code == 0

    first, second = attempts(counter)
    assert first == {
        "attempt": 1,
        "valid": False,
        "errors": ['$.n: "the-rejected-one" is not of type "integer"'],
        "text": WRONG,
        "is_cut": False,
    }
    assert second == {"attempt": 2, "valid": True, "errors": [], "text": None, "is_cut": False}


@pytest.mark.requirement("AOX-175")
def test_no_event_holds_a_rejected_answer(counter: Ao) -> None:
    play(counter, ["Only words, unheard-of ones", '{"n": 1}'])

    assert "unheard-of" not in counter("events", "last").stdout
    assert attempts(counter)[0]["text"] == "Only words, unheard-of ones"


def test_an_answer_is_bounded_and_holds_no_secret(counter: Ao) -> None:
    cut_inside = "x" * (MAX_CHARACTERS - 10) + SECRET
    play(counter, [f"the key is {SECRET}", cut_inside, '{"n": 1}'])

    first, second, _ = attempts(counter)
    assert SECRET not in first["text"]
    assert first["text"].startswith("the key is ")
    assert second["is_cut"]
    assert len(second["text"]) <= MAX_CHARACTERS
    assert SECRET[:4] not in second["text"]


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_caller_can_have_none_stored(counter: Ao, command: str) -> None:
    play(counter, [WRONG, '{"n": 1}'], "--no-keep-rejected", command=command)
    if command == "submit":
        counter("worker", "--until-idle", THE_KEY=SECRET)

    first, second = attempts(counter)
    assert (first["valid"], first["text"]) == (False, None)
    assert second["valid"]
    assert "(the answer was not stored)" in counter("result", "last", "--attempts").stdout
    assert_nowhere(counter.folder / "ao-home", '\\"n\\": \\"the-rejected-one')


@pytest.mark.parametrize("option", [(), ("--no-keep-rejected",)])
def test_a_worker_stores_them_unless_its_host_must_not(counter: Ao, option: tuple[str, ...]) -> None:
    play(counter, [WRONG, '{"n": 1}'], command="submit")
    counter("worker", "--until-idle", *option, THE_KEY=SECRET)

    assert attempts(counter)[0]["text"] == (None if option else WRONG)


def test_a_run_without_a_contract_has_none(ao: Ao) -> None:
    ao("run", "agent.yaml", "-p", "x", "--executor", "echo")
    shown = ao("result", "last", "--attempts")

    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "has no validated answer: it has no output schema" in shown.stderr


def test_the_record_and_the_attempts_are_two_questions(ao: Ao) -> None:
    assert ao("result", "last", "--attempts", "--record").exit_code == 2


def assert_nowhere(folder: Path, text: str) -> None:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if text.encode() in path.read_bytes()]

"""Every example of the documentation runs, with its model script, as a reader would run it."""

import json
from pathlib import Path

import pytest

from tests.runner.cli.calling import Ao, Called

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture
def ao(tmp_path: Path) -> Ao:
    return Ao(tmp_path)


def run_example(ao: Ao, name: str, *arguments: str, stdin: str | None = None) -> Called:
    (blueprint,) = (EXAMPLES / name).glob("blueprint.*")
    return ao(
        "run", str(blueprint), *arguments, "--model-script", str(EXAMPLES / name / "model-script.json"), stdin=stdin
    )


def test_pr_reviewer_is_asked_again_and_gives_a_validated_review(ao: Ao) -> None:
    prompt = (EXAMPLES / "pr-reviewer" / "prompt.md").read_text()
    run = run_example(ao, "pr-reviewer", "-p", "-", stdin=prompt)
    assert run.exit_code == 0, run.stderr
    assert run.document["approval"] == "request_changes"
    assert "attempt 1 of 2: the answer does not fit the schema" in run.stderr
    assert "$.approval: 'approved' is not one of ['approve', 'request_changes', 'comment']" in run.stderr
    assert "attempt 2 of 2: the answer fits the schema" in run.stderr


def test_content_writer_takes_parameters_and_goes_on_by_prompt(ao: Ao) -> None:
    parameters = ("--param", "topic=AI Safety", "--param", "format=summary", "--param", "max_words=60")
    answers = json.loads((EXAMPLES / "content-writer" / "model-script.json").read_text())["answers"]
    first = run_example(ao, "content-writer", *parameters)
    assert first.exit_code == 0, first.stderr
    assert first.stdout.strip() == answers[0]["text"]

    later = ao.write("later.json", json.dumps({"answers": answers[1:]}))
    (session,) = ao("sessions", "--json").document
    second = ao("resume", session["session_id"], "-p", "Say more about regulation.", "--model-script", str(later))
    assert second.exit_code == 0, second.stderr
    assert second.stdout.strip() == answers[1]["text"]


def test_content_writer_refuses_parameters_that_do_not_fit(ao: Ao) -> None:
    run = run_example(ao, "content-writer", "--param", "topic=AI Safety", "--param", "format=poem")
    assert run.exit_code == 64
    assert "$.format: 'poem' is not one of ['summary', 'essay', 'bullet_points']" in run.stderr


def test_echo_runs_its_command_and_asks_no_model(ao: Ao) -> None:
    parameters = ("--param", "message=hi", "--param", "times=2", "--param", "upper=true", "--param", 'tags=["a","b"]')
    run = run_example(ao, "echo", *parameters)
    assert run.exit_code == 0, run.stderr
    assert run.document == {"echo": ["HI", "HI"], "tags": ["a", "b"]}


def test_every_example_is_a_valid_blueprint_with_a_model_script(ao: Ao) -> None:
    folders = sorted(path for path in EXAMPLES.iterdir() if path.is_dir())
    assert [path.name for path in folders] == ["content-writer", "echo", "pr-reviewer"]
    for folder in folders:
        (blueprint,) = folder.glob("blueprint.*")
        check = ao("blueprint", "check", str(blueprint))
        assert check.exit_code == 0, check.stderr
        assert (folder / "model-script.json").is_file()

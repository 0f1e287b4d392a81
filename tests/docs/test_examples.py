"""Every example of the documentation runs, with its model script, as a reader would run it."""

import json
from pathlib import Path

import pytest

from tests.process.runner.cli.calling import Ao, Called

pytestmark = pytest.mark.thorough  # each runs the real Claude CLI

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
    assert '$.approval: "approved" is not one of ["approve", "request_changes", "comment"]' in run.stderr
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
    assert '$.format: "poem" is not one of ["summary", "essay", "bullet_points"]' in run.stderr


def test_echo_runs_its_command_and_asks_no_model(ao: Ao) -> None:
    parameters = ("--param", "message=hi", "--param", "times=2", "--param", "upper=true", "--param", 'tags=["a","b"]')
    run = run_example(ao, "echo", *parameters)
    assert run.exit_code == 0, run.stderr
    assert run.document == {"echo": ["HI", "HI"], "tags": ["a", "b"]}


def test_file_finder_keeps_the_callers_schema_after_two_retries(ao: Ao) -> None:
    schema = str(EXAMPLES / "file-finder" / "schema.json")
    run = run_example(ao, "file-finder", "-p", "Where are tokens handled?", "--output-schema", schema)
    assert run.exit_code == 0, run.stderr
    assert [file["path"] for file in run.document["files"]] == ["src/auth/service.ts", "src/auth/middleware.ts"]
    assert "attempt 2 of 3: the answer does not fit the schema; asking again" in run.stderr
    result = ao("result", "last", "--json").document
    assert result["validated_output"] == run.document
    assert result["schema_validation"] == {"valid": True, "schema_name": None, "retry_count": 2}
    assert result["output"]["sent"] == ["system_prompt", "re_prompt", "re_prompt"]


def test_release_notes_keeps_a_schema_that_is_known_by_name(ao: Ao) -> None:
    added = ao("schema", "add", "release-note", str(EXAMPLES / "release-notes" / "release-note.yaml"))
    assert added.exit_code == 0, added.stderr
    run = run_example(ao, "release-notes", "-p", "mean([]) now raises", "--output-schema-name", "release-note")
    assert run.exit_code == 0, run.stderr
    assert run.document["kind"] == "changed"
    result = ao("result", "last", "--json").document
    assert result["schema_validation"] == {"valid": True, "schema_name": "release-note", "retry_count": 0}
    assert result["output"]["schema_source"] == "named"


def test_triage_asks_the_provider_and_falls_back_to_asking_again(ao: Ao) -> None:
    run = run_example(ao, "triage", "-p", "Nobody can pay since 9:00")
    assert run.exit_code == 0, run.stderr
    assert run.document == {"severity": "critical", "team": "payments"}
    output = ao("result", "last", "--json").document["output"]
    assert (output["schema_source"], output["strategy"], output["sent"]) == (
        "default",
        "native",
        ["native", "re_prompt"],
    )


def test_reviewers_that_write_in_two_forms_are_put_together(ao: Ao) -> None:
    files = []
    for name in ("security-sentinel", "style-reviewer"):
        run = run_example(ao, name, "-p", "Review api/users.ts", "--json")
        assert run.exit_code == 0, run.stderr
        assert run.document["result_data"]["agent"] == name
        files.append(str(ao.write(f"{name}.json", run.stdout)))
    together = ao("response", "aggregate", *files, "--json")
    assert together.exit_code == 0, together.stderr
    assert [(f["priority"], f["issue"], f["agents"]) for f in together.document["findings"]] == [
        ("P1", "SQL injection", ["security-sentinel"]),
        ("P2", "Unused import", ["security-sentinel", "style-reviewer"]),
        ("P3", "A name of one letter", ["style-reviewer"]),
    ]


def test_every_example_is_a_valid_blueprint_with_a_model_script(ao: Ao) -> None:
    folders = sorted(path for path in EXAMPLES.iterdir() if any(path.glob("blueprint.*")))
    assert [path.name for path in folders] == [
        "content-writer",
        "echo",
        "file-finder",
        "invoice",
        "pr-reviewer",
        "release-notes",
        "security-sentinel",
        "style-reviewer",
        "triage",
    ]
    for folder in folders:
        (blueprint,) = folder.glob("blueprint.*")
        check = ao("blueprint", "check", str(blueprint))
        assert check.exit_code == 0, check.stderr
        assert (folder / "model-script.json").is_file()


INVOICE = ("--attach", str(EXAMPLES / "invoice" / "invoice.pdf"))
RECEIPT = ("--attach", str(EXAMPLES / "invoice" / "receipt.png"))


def test_invoice_shows_the_model_a_pdf_and_a_picture_and_gives_a_validated_answer(ao: Ao) -> None:
    run = run_example(ao, "invoice", "-p", "Is it paid?", *INVOICE, *RECEIPT)
    assert run.exit_code == 0, run.stderr
    answers = json.loads((EXAMPLES / "invoice" / "model-script.json").read_text())["answers"]
    assert run.document == answers[1]["json"]
    result = ao("result", "last", "--json").document
    assert result["schema_validation"] == {"valid": True, "schema_name": None, "retry_count": 1}
    record = ao("result", "last", "--record").document
    assert [one["media_type"] for one in record["attachments"]] == ["application/pdf", "image/png"]


@pytest.mark.parametrize("given", [INVOICE, RECEIPT], ids=["no receipt", "no invoice"])
def test_the_script_of_invoice_answers_only_a_model_that_sees_both_files(ao: Ao, given: tuple[str, ...]) -> None:
    run = run_example(ao, "invoice", "-p", "Is it paid?", *given)
    assert run.exit_code == 1
    assert "files_contain" in run.stderr, run.stderr

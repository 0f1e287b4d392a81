"""The loop of asking, judging and asking again, played by the scripted executor."""

from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import Run, bare_environment, installed, invocation, run
from tests.process.executors.homemade import homemade

SCRIPTED = [installed("ao-scripted-exec")]
SCHEMA = {"type": "object", "required": ["answer"], "properties": {"answer": {"type": "integer"}}}
BLUEPRINT = {"name": "a", "output_schema": SCHEMA}
WRONG = {"text": 'MARK {"answer": "MARK forty-two"} MARK'}
RIGHT = {"text": 'Here it is:\n```json\n{"answer": 42}\n```'}


def play(*answers: dict[str, Any], **fields: object) -> Run:
    return run(SCRIPTED, invocation(executor_config={"script": {"answers": answers}}, **fields))


@pytest.mark.requirement("AOX-171", "AOX-173", "AOX-175", "AOX-176")
def test_an_answer_that_does_not_fit_is_asked_for_again() -> None:
    ended = play(WRONG, RIGHT, agent_blueprint=BLUEPRINT)

    first, second = ended.of_type("output_validation")
    assert (first["attempt"], first["valid"], first["retries_left"]) == (1, False, 1)
    assert first["errors"] == ['$.answer: "MARK forty-two" is not of type "integer"']
    assert (second["attempt"], second["valid"]) == (2, True)
    assert ended.terminal["output"]["retry_count"] == 1
    assert [m["content"][0]["text"] for m in ended.of_type("message")] == [RIGHT["text"]]


@pytest.mark.requirement("AOX-174", "AOX-175")
def test_the_designers_contract_gives_up_after_one_retry() -> None:
    ended = play(WRONG, {"text": "MARK no JSON at all"}, RIGHT, agent_blueprint=BLUEPRINT)

    assert ended.error["type"] == "output_schema_validation_failed"
    assert ended.error["origin"] == "model"
    assert ended.error["validation_errors"]
    assert ended.exit_code == 1
    assert ended.of_type("message") == []
    assert b'"MARK ' not in ended.stdout.replace(b'\\"', b"'")
    assert b"no JSON at all" not in ended.stdout


def test_a_default_that_cannot_be_meant_stops_no_run_without_a_contract() -> None:
    environment = {**bare_environment(), "SCHEMA_ENFORCEMENT_MAX_RETRIES": "x"}
    ended = run(SCRIPTED, invocation(executor_config={"script": {"answers": [RIGHT]}}), env=environment)

    assert ended.exit_code == 0


XML = '<agent_response agent="sentinel" version="1.0"><summary>One issue</summary></agent_response>'


@pytest.mark.requirement("AOX-182")
@pytest.mark.parametrize(
    ("form", "answer"),
    [
        ("xml", f"Here you are.\n\n{XML}"),
        ("json", '```json\n{"agent": "sentinel", "summary": "One issue"}\n```'),
        ("markdown", "---\nagent: sentinel\n---\n\n## Summary\n\nOne issue\n"),
    ],
)
def test_an_agents_response_becomes_its_model_whatever_its_form(form: str, answer: str) -> None:
    blueprint = {"name": "a", "output_format": {"type": "agent_response", "form": form}}
    ended = play({"text": "It is fine."}, {"text": answer}, agent_blueprint=blueprint)

    assert ended.terminal["result_data"] == {
        "agent": "sentinel",
        "version": "1.0",
        "summary": "One issue",
        "findings": [],
    }
    assert ended.terminal["output"]["schema_source"] == "blueprint"
    assert ended.terminal["output"]["retry_count"] == 1


@pytest.mark.requirement("AOX-181")
def test_a_format_that_the_executor_does_not_know_is_refused(tmp_path: Path) -> None:
    program = homemade(tmp_path, "return done", output_schema={"strategies": ["system_prompt"]})
    ended = run(program, invocation(agent_blueprint={"name": "a", "output_format": {"type": "agent_response"}}))

    assert (ended.error["type"], ended.exit_code) == ("unsupported_capability", 64)
    assert ended.error["details"] == {"missing": ["output_schema.formats:agent_response"]}

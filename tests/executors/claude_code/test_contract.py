"""The main job: a blueprint and a prompt in, a validated result out."""

import json

import pytest

from tests.executors.claude_code.claude import SEVERITY_SCHEMA, agent
from tests.executors.claude_code.conftest import StartClaude

INVALID = 'It is {"severity": "critical", "marker": "never-to-be-shown"}.'
VALID = '```json\n{"severity": "high"}\n```'


def test_a_valid_answer_becomes_the_result_data(start_claude: StartClaude) -> None:
    run = start_claude({"text": VALID}).run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA))
    assert run.exit_code == 0
    assert run.terminal["result_data"] == {"severity": "high"}
    assert run.terminal["result_text"] is None
    assert run.terminal["output"] == {
        "schema_source": "blueprint",
        "retry_count": 0,
        "ambiguous": False,
        "strategy": "system_prompt",
        "sent": ["system_prompt"],
        "delivered_by": "text",
    }


def test_the_system_prompt_ends_with_the_schema_section(start_claude: StartClaude) -> None:
    claude = start_claude({"text": VALID})
    claude.run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA))
    (request,) = claude.model.requests
    assert request.system_text.endswith(
        "You review.\n\n## Required Output Format\n\n"
        "You MUST provide structured output as JSON conforming to this schema:\n\n"
        f"```json\n{json.dumps(SEVERITY_SCHEMA, indent=2)}\n```\n\n"
        "Your response MUST be valid JSON that matches this schema exactly. "
        "Output ONLY the JSON, no additional text."
    )


@pytest.mark.requirement("AOX-171")
@pytest.mark.requirement("AOX-173")
def test_an_invalid_answer_is_asked_for_again_in_the_same_conversation(start_claude: StartClaude) -> None:
    claude = start_claude({"text": INVALID}, {"text": VALID})
    run = claude.run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA))
    assert run.terminal["result_data"] == {"severity": "high"}
    assert run.terminal["output"]["retry_count"] == 1
    assert [(e["attempt"], e["valid"], e["retries_left"]) for e in run.of_type("output_validation")] == [
        (1, False, 1),
        (2, True, 0),
    ]
    first, second = claude.model.requests
    assert [message["role"] for message in second.messages if message["role"] != "system"] == [
        "user",
        "assistant",
        "user",
    ]
    assert first.last_user_text in str(second.messages[0])
    assert INVALID in str(second.messages[1:])
    assert "<output-validation-error>" in second.last_user_text
    assert "- $.severity: 'critical' is not one of ['low', 'high']" in second.last_user_text


@pytest.mark.requirement("AOX-174")
@pytest.mark.requirement("AOX-175")
def test_a_second_invalid_answer_fails_the_run_and_is_shown_nowhere(start_claude: StartClaude) -> None:
    claude = start_claude({"text": INVALID}, {"text": INVALID})
    run = claude.run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA))
    assert run.exit_code == 1
    assert run.error["type"] == "output_schema_validation_failed"
    assert run.error["validation_errors"] == ["$.severity: 'critical' is not one of ['low', 'high']"]
    assert run.error["retryable"] is False
    assert "result" not in run.types
    assert b"never-to-be-shown" not in run.stdout


@pytest.mark.parametrize("version", [pytest.param("2.1", marks=pytest.mark.slow), "2.2"])
def test_older_invocations_are_served(start_claude: StartClaude, version: str) -> None:
    request = {"prompt": "Judge"} if version == "2.1" else {"parameters": {"prompt": "Judge"}}
    claude = start_claude({"text": INVALID}, {"text": VALID})
    document = {
        "schema_version": version,
        "parameters": None,
        **request,
        "agent_blueprint": agent(output_schema=SEVERITY_SCHEMA),
    }
    run = claude.run(**document)
    assert run.events[0]["schema_version"] == version
    assert run.terminal["result_data"] == {"severity": "high"}
    assert claude.model.requests[0].last_user_text == "Judge"


@pytest.mark.slow
def test_a_callers_schema_has_two_retries_and_its_own_error_type(start_claude: StartClaude) -> None:
    claude = start_claude({"text": INVALID, "repeat": 3})
    run = claude.run(output_schema=SEVERITY_SCHEMA)
    assert run.error["type"] == "schema_validation_failed"
    assert len(claude.model.requests) == 3


@pytest.mark.slow
def test_an_answer_that_is_cut_off_is_not_asked_for_again(start_claude: StartClaude) -> None:
    # The CLI itself lets the model go on three times before it gives up.
    claude = start_claude({"text": '{"severity": ', "stop_reason": "max_tokens", "repeat": 4})
    run = claude.run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA))
    assert run.error["type"] == "output_truncated"
    assert run.exit_code == 1


@pytest.mark.slow
def test_an_answer_that_is_cut_off_and_then_continued_is_one_answer(start_claude: StartClaude) -> None:
    claude = start_claude({"text": '{"severity": ', "stop_reason": "max_tokens"}, {"text": '"low"}'})
    run = claude.run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA))
    assert run.terminal["result_data"] == {"severity": "low"}


def test_the_answer_is_the_last_message_whatever_the_model_said_before_its_tools(start_claude: StartClaude) -> None:
    thinking_aloud = {"type": "text", "text": 'Perhaps {"severity": "low"}?'}
    tool = {"type": "tool_use", "name": "Bash", "input": {"command": "echo looked"}}
    claude = start_claude({"content": [thinking_aloud, tool]}, {"text": VALID})
    run = claude.run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA))
    assert run.terminal["result_data"] == {"severity": "high"}
    assert run.types == [
        "run_started",
        "session_bound",
        "message",
        "tool_started",
        "tool_finished",
        "usage",
        "output_validation",
        "message",
        "result",
    ]

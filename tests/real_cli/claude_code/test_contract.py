"""The main job: a blueprint and a prompt in, a validated result out."""

import pytest

from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA, agent
from tests.real_cli.claude_code.conftest import StartClaude

INVALID = 'It is {"severity": "critical", "marker": "never-to-be-shown"}.'
VALID = '```json\n{"severity": "high"}\n```'


@pytest.mark.requirement("AOX-171", "AOX-173")
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
    assert '- $.severity: "critical" is not one of ["low", "high"]' in second.last_user_text


def test_an_answer_that_is_cut_off_is_not_asked_for_again(start_claude: StartClaude) -> None:
    # The CLI itself lets the model go on three times before it gives up.
    claude = start_claude({"text": '{"severity": ', "stop_reason": "max_tokens", "repeat": 4})
    run = claude.run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA))
    assert run.error["type"] == "output_truncated"
    assert run.exit_code == 1


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

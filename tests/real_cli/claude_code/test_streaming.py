"""Text that is reported while the model writes it."""

from typing import Any

import pytest

from tests.process.executors.driver import EventDocument
from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA, agent
from tests.real_cli.claude_code.conftest import StartClaude

LOOK = {"type": "tool_use", "name": "Bash", "input": {"command": "echo from-bash"}}
DELEGATE = {
    "type": "tool_use",
    "name": "Agent",
    "input": {"description": "look", "prompt": "Look.", "subagent_type": "general-purpose"},
}
PIECES = {"chunk_chars": 4, "chunk_delay_seconds": 0.03}
ALL_TOOLS = {"tools": ["Bash", "Agent"], "allowed_tools": ["Bash", "Agent"]}


def text_of(event: EventDocument) -> str:
    return "".join(block["text"] for block in event["content"])


def of_type(events: list[EventDocument], *types: str) -> list[EventDocument]:
    return [event for event in events if event["event_type"] in types]


@pytest.mark.requirement("AOX-191", "AOX-102")
def test_text_comes_while_the_model_is_still_writing_and_the_run_can_be_cancelled(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hello there", "chunk_chars": 5, "stall_after_chars": 5}, satisfied=False)
    with claude.start(control={"stdin": "open"}) as executor:
        assert text_of(executor.read_until("message_delta")) == "Hello"
        executor.write_line({"type": "cancel"})
        ended = executor.finish()

    assert (ended.error["type"], ended.exit_code) == ("cancelled", 130)
    assert of_type(ended.events, "message") == []


@pytest.mark.requirement("AOX-079", "AOX-083")
def test_the_pieces_of_each_message_are_followed_by_the_whole(start_claude: StartClaude) -> None:
    claude = start_claude(
        {"content": [{"type": "text", "text": "\n\n"}, {"type": "text", "text": "Let me look."}, LOOK], **PIECES},
        {"content": [{"type": "text", "text": "And again."}, LOOK], **PIECES},
        {"text": "It says: 日本語, from-bash.", **PIECES},
    )
    run = claude.run(executor_config=ALL_TOOLS)

    order = [event["event_type"] for event in of_type(run.events, "message", "tool_started", "tool_finished")]
    assert order == ["message", "tool_started", "tool_finished"] * 2 + ["message"]
    pieces: dict[str, str] = {}
    for event in of_type(run.events, "message_delta", "message"):
        if event["event_type"] == "message_delta":
            pieces[event["message_id"]] = pieces.get(event["message_id"], "") + text_of(event)
        else:
            assert pieces.pop(event["message_id"]) == text_of(event)
    assert pieces == {}
    assert run.events[-1]["result_text"] == "It says: 日本語, from-bash."


def test_what_a_subagent_writes_is_not_among_the_pieces(start_claude: StartClaude) -> None:
    claude = start_claude(
        {"content": [{"type": "text", "text": "I ask."}, DELEGATE], **PIECES},
        {"text": "Found by the one who was asked.", **PIECES, "expect": {"last_user_contains": "Look."}},
        {"text": "Answer.", "repeat": "forever", **PIECES},
        satisfied=False,
    )
    env = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
    run = claude.run(executor_config={**ALL_TOOLS, "env": env})

    assert "".join(text_of(event) for event in of_type(run.events, "message_delta")) == "I ask.Answer."


@pytest.mark.requirement("AOX-175")
@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        pytest.param(
            {"agent_blueprint": agent(output_schema=SEVERITY_SCHEMA)}, {"json": {"severity": "low"}}, id="contract"
        ),
        pytest.param({"executor_config": {"streaming": False}}, {"text": "Hello there."}, id="streaming is off"),
    ],
)
def test_no_piece_is_written(start_claude: StartClaude, fields: dict[str, Any], answer: dict[str, Any]) -> None:
    run = start_claude({**answer, **PIECES}).run(**fields)

    assert run.exit_code == 0
    assert of_type(run.events, "message_delta") == []

"""What the model thinks is told in messages of its own, and is never the answer."""

from typing import Any

import pytest

from tests.process.executors.driver import EventDocument, Run
from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA, agent
from tests.real_cli.claude_code.conftest import StartClaude

LOOK = {"type": "tool_use", "name": "Bash", "input": {"command": "echo from-bash"}}
PIECES = {"chunk_chars": 4, "chunk_delay_seconds": 0.03}
STRATEGIES = ["system_prompt", "prompt", "extract", "native"]


def thought(text: str) -> dict[str, str]:
    return {"type": "thinking", "thinking": text}


def said(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def blocks_of(events: list[EventDocument], event_type: str = "message") -> list[tuple[str, str]]:
    """Return type and text of each block in the events of a type."""
    found = [event for event in events if event["event_type"] == event_type]
    return [(block["type"], block["text"]) for event in found for block in event["content"]]


def pieces_without_a_whole(run: Run) -> dict[str, str]:
    """Return the texts of the deltas that no equal message follows, by the id of their message."""
    pieces: dict[str, str] = {}
    for event in run.of_type("message_delta"):
        pieces[event["message_id"]] = pieces.get(event["message_id"], "") + event["content"][0]["text"]
    whole = {event["message_id"]: event["content"][0]["text"] for event in run.of_type("message")}
    return {name: text for name, text in pieces.items() if whole.get(name) != text}


@pytest.mark.requirement("AOX-079", "AOX-083", "AOX-085")
@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
def test_thinking_is_told_before_what_it_leads_to(start_claude: StartClaude, streaming: bool) -> None:
    claude = start_claude(
        {"content": [thought("Where is it?"), said("I look."), thought("With Bash."), LOOK], **PIECES},
        {"content": [thought("There it is."), said("It says from-bash.")], **PIECES},
    )
    run = claude.run(executor_config={"streaming": streaming})

    assert blocks_of(run.events) == [
        ("reasoning", "Where is it?"),
        ("text", "I look."),
        ("reasoning", "With Bash."),
        ("reasoning", "There it is."),
        ("text", "It says from-bash."),
    ]
    assert run.terminal["result_text"] == "It says from-bash."
    streamed = blocks_of(run.events, "message_delta")
    assert ({kind for kind, _ in streamed}, pieces_without_a_whole(run)) == (
        {"reasoning", "text"} if streaming else set(),
        {},
    )


def test_the_model_is_asked_for_a_text_of_its_thinking(start_claude: StartClaude) -> None:
    claude = start_claude({"content": [thought("Hm."), said("Hello.")]})
    claude.run()
    body: Any = claude.model.requests[0].body
    assert body["thinking"]["display"] == "summarized"


def test_thinking_can_be_left_out(start_claude: StartClaude) -> None:
    claude = start_claude({"content": [thought("Hm."), said("Hello.")], **PIECES})
    run = claude.run(executor_config={"show_reasoning": False})

    assert blocks_of(run.events) == [("text", "Hello.")]
    assert {kind for kind, _ in blocks_of(run.events, "message_delta")} == {"text"}
    body: Any = claude.model.requests[0].body
    assert body["thinking"]["display"] != "summarized"


def test_thinking_without_a_text_is_not_told(start_claude: StartClaude) -> None:
    encrypted = {"type": "thinking", "thinking": "", "signature": "c2VjcmV0"}
    run = start_claude({"content": [encrypted, said("Hello.")], **PIECES}).run()

    assert blocks_of(run.events) == [("text", "Hello.")]
    assert "c2VjcmV0" not in str(run.events)


@pytest.mark.requirement("AOX-085", "AOX-175")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_valid_answer_in_the_thinking_is_not_the_answer(start_claude: StartClaude, strategy: str) -> None:
    final: dict[str, Any] = said('{"severity": "low"}')
    if strategy == "native":
        final = {"type": "tool_use", "name": "StructuredOutput", "input": {"severity": "low"}}
    claude = start_claude(
        {"content": [thought('{"severity": "high"}'), final], **PIECES},
        *([{"text": "Done."}] if strategy == "native" else []),
        satisfied=False,
    )
    run = claude.run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA), output_schema_options={"strategy": strategy})

    assert run.terminal["result_data"] == {"severity": "low"}
    assert blocks_of(run.events)[0] == ("reasoning", '{"severity": "high"}')
    assert {kind for kind, _ in blocks_of(run.events, "message_delta")} == {"reasoning"}


@pytest.mark.requirement("AOX-085", "AOX-174")
def test_a_valid_answer_in_the_thinking_alone_is_none(start_claude: StartClaude) -> None:
    claude = start_claude({"content": [thought('{"severity": "high"}'), said("It is bad.")], "repeat": 2})
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options={"max_retries": 1})
    assert run.error["type"] == "schema_validation_failed"


def test_thinking_is_told_in_a_resume(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hello."}, {"content": [thought("Again?"), said("Again.")]})
    session = claude.run().of_type("session_bound")[0]["executor_session_id"]
    run = claude.run(mode="resume", executor_session_id=session)

    assert blocks_of(run.events) == [("reasoning", "Again?"), ("text", "Again.")]


@pytest.mark.requirement("AOX-079")
def test_thinking_that_breaks_off_ends_before_the_next_attempt(start_claude: StartClaude) -> None:
    claude = start_claude(
        {"content": [thought("Well, this is"), said("Never.")], "cut_after_chars": 8, "chunk_chars": 4},
        {"content": [thought("Well."), said("Hello.")]},
    )
    run = claude.run()

    told = blocks_of(run.events)
    assert told[-2:] == [("reasoning", "Well."), ("text", "Hello.")]
    assert all("Well, this is".startswith(text) for _, text in told[:-2])
    assert pieces_without_a_whole(run) == {}
    assert run.terminal["result_text"] == "Hello."


@pytest.mark.requirement("AOX-078")
def test_the_tokens_of_thinking_are_told_if_the_api_tells_them(start_claude: StartClaude) -> None:
    usage = {"output_tokens": 500, "reasoning_tokens": 300}
    told = start_claude({"content": [thought("Hm."), said("Hello.")], "usage": usage}).run()
    assert told.terminal["usage"]["reasoning_tokens"] == 300
    untold = start_claude({"content": [thought("Hm."), said("Hello.")]}).run()
    assert untold.terminal["usage"].get("reasoning_tokens") is None

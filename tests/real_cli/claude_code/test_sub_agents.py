"""The work of sub-agents: its events name the call that it is part of, and it is never the answer."""

import json
from typing import Any

import pytest

from tests.process.executors.driver import EventDocument, Run
from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA
from tests.real_cli.claude_code.conftest import StartClaude

CONFIG = {"tools": ["Agent", "Bash"], "allowed_tools": ["Agent", "Bash"]}


def said(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def bash(call: str, command: str = "echo from-bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}


def delegate(call: str, prompt: str = "Look.") -> dict[str, Any]:
    given = {"description": "look", "prompt": prompt, "subagent_type": "general-purpose"}
    return {"type": "tool_use", "id": call, "name": "Agent", "input": given}


def work_of(run: Run) -> list[tuple[str, str, str | None]]:
    """Return each message and call: type, text or id, and the call that it is part of."""

    def shown(event: EventDocument) -> str:
        return str(event["content"][0]["text"] if event["event_type"] == "message" else event["tool_call_id"])

    kinds = ("message", "tool_started", "tool_finished")
    found = [event for event in run.events if event["event_type"] in kinds]
    return [(event["event_type"], shown(event), event.get("parent_tool_call_id")) for event in found]


@pytest.mark.requirement("AOX-095", "AOX-096", "AOX-083")
def test_what_a_sub_agent_says_thinks_and_does_is_part_of_its_call(start_claude: StartClaude) -> None:
    claude = start_claude(
        {"content": [said("I ask."), delegate("ask")]},
        {"content": [{"type": "thinking", "thinking": "Hm."}, said("I look."), bash("look")]},
        {"text": "Found."},
        {"text": "Answer."},
    )
    run = claude.run(executor_config=CONFIG)

    assert work_of(run) == [
        ("message", "I ask.", None),
        ("tool_started", "ask", None),
        ("message", "Hm.", "ask"),
        ("message", "I look.", "ask"),
        ("tool_started", "look", "ask"),
        ("tool_finished", "look", None),
        ("message", "Found.", "ask"),
        ("tool_finished", "ask", None),
        ("message", "Answer.", None),
    ]
    assert [event["content"][0]["type"] for event in run.of_type("message") if "Hm." in str(event)] == ["reasoning"]
    assert run.terminal["result_text"] == "Answer."


@pytest.mark.requirement("AOX-095")
def test_a_sub_agent_of_a_sub_agent_is_part_of_the_call_that_started_it(start_claude: StartClaude) -> None:
    claude = start_claude(
        {"content": [delegate("outer")]},
        {"content": [delegate("inner", "Look deeper.")]},
        {"content": [said("Deep."), bash("look")]},
        {"text": "Deep down."},
        {"text": "Found."},
        {"text": "Answer."},
    )
    run = claude.run(executor_config=CONFIG)

    assert work_of(run) == [
        ("tool_started", "outer", None),
        ("tool_started", "inner", "outer"),
        ("message", "Deep.", "inner"),
        ("tool_started", "look", "inner"),
        ("tool_finished", "look", None),
        ("message", "Deep down.", "inner"),
        ("tool_finished", "inner", None),
        ("message", "Found.", "outer"),
        ("tool_finished", "outer", None),
        ("message", "Answer.", None),
    ]


def test_sub_agents_at_the_same_time_are_told_apart(start_claude: StartClaude) -> None:
    found = {"text": "Found.", "repeat": 2}
    claude = start_claude({"content": [delegate("one"), delegate("two", "Look too.")]}, found, {"text": "Answer."})
    run = claude.run(executor_config=CONFIG)

    assert {part for part in work_of(run) if part[0] == "message"} == {
        ("message", "Found.", "one"),
        ("message", "Found.", "two"),
        ("message", "Answer.", None),
    }


@pytest.mark.requirement("AOX-096", "AOX-174")
@pytest.mark.parametrize("strategy", ["system_prompt", "prompt", "native"])
def test_a_valid_answer_of_a_sub_agent_is_not_the_answer(start_claude: StartClaude, strategy: str) -> None:
    claude = start_claude(
        {"content": [delegate("ask")]},
        {"json": {"severity": "high"}},
        {"text": "It is bad.", "repeat": "forever"},
        satisfied=False,
    )
    run = claude.run(
        executor_config=CONFIG,
        output_schema=SEVERITY_SCHEMA,
        output_schema_options={"strategy": strategy, "max_retries": 1},
    )

    assert run.error["type"] == "schema_validation_failed"
    (message, *_) = [event for event in run.of_type("message") if event.get("parent_tool_call_id") == "ask"]
    assert json.loads(message["content"][0]["text"]) == {"severity": "high"}


@pytest.mark.requirement("AOX-096", "AOX-184")
def test_a_sub_agent_does_not_submit_the_answer(start_claude: StartClaude) -> None:
    def submit(severity: str) -> dict[str, Any]:
        return {"content": [{"type": "tool_use", "name": "submit_answer", "input": {"severity": severity}}]}

    found, done = {"text": "Found."}, {"text": "Done."}
    claude = start_claude({"content": [delegate("ask")]}, submit("high"), found, submit("low"), done, satisfied=False)
    run = claude.run(executor_config=CONFIG, output_schema=SEVERITY_SCHEMA, output_schema_options={"strategy": "tool"})

    assert (run.terminal["result_data"], run.terminal["output"]["delivered_by"]) == ({"severity": "low"}, "tool")
    assert len(run.of_type("output_validation")) == 1


@pytest.mark.requirement("AOX-063", "AOX-093", "AOX-095")
def test_a_cancel_ends_the_calls_of_a_sub_agent_before_its_own(start_claude: StartClaude) -> None:
    claude = start_claude({"content": [delegate("ask")]}, {"content": [bash("wait", "tail -f /dev/null")]})
    with claude.start(control={"stdin": "open"}, executor_config=CONFIG) as executor:
        while executor.read_until("tool_started")["tool_call_id"] != "wait":
            pass
        executor.write_line({"type": "cancel"})
        run = executor.finish()

    finished = [(event["tool_call_id"], event["status"]) for event in run.of_type("tool_finished")]
    assert (run.error["type"], finished) == ("cancelled", [("wait", "cancelled"), ("ask", "cancelled")])


def test_a_sub_agent_that_the_api_refuses_says_nothing_of_its_own(start_claude: StartClaude) -> None:
    refused = {"status": 403, "error": {"message": "not for you"}}
    claude = start_claude({"content": [delegate("ask")]}, refused, {"text": "Answer."})
    run = claude.run(executor_config=CONFIG)

    (finished,) = run.of_type("tool_finished")
    assert (finished["status"], work_of(run)[-1]) == ("failed", ("message", "Answer.", None))
    assert len(run.of_type("message")) == 1

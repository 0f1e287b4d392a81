"""The strategy `tool`: the model submits its answer, and is told in the same turn what does not fit."""

from typing import Any

import pytest

from tests.process.executors.driver import EventDocument
from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA, agent
from tests.real_cli.claude_code.conftest import StartClaude

BY_TOOL = {"strategy": "tool"}
STAYING = {"stdin": "open", "turns": True}
DONE = {"text": "It is submitted."}
USAGE = {"input_tokens": 1000, "output_tokens": 100}


def submitted(severity: str, *more: dict[str, Any]) -> dict[str, Any]:
    """Return an answer that calls `submit_answer`, beside a text and before other calls."""
    call = {"type": "tool_use", "name": "mcp__ao_answer__submit_answer", "input": {"severity": severity}}
    return {"content": [{"type": "text", "text": "MARK Let me submit it."}, call, *more], "usage": USAGE}


def validations(events: list[EventDocument]) -> list[tuple[int, bool]]:
    return [(event["attempt"], event["valid"]) for event in events if event["event_type"] == "output_validation"]


@pytest.mark.requirement("AOX-183", "AOX-184", "AOX-185")
def test_a_call_that_does_not_fit_is_corrected_in_the_turn(start_claude: StartClaude) -> None:
    claude = start_claude(submitted("critical"), submitted("high"), DONE)
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options=BY_TOOL)

    assert run.terminal["result_data"] == {"severity": "high"}
    assert run.terminal["output"]["sent"] == ["tool"]
    assert run.terminal["output"]["delivered_by"] == "tool"
    assert validations(run.events) == [(1, False), (2, True)]
    assert not {"tool_started", "tool_finished"} & set(run.types)
    assert b"MARK" not in run.stdout
    (tool,) = [tool for tool in claude.model.requests[0].tools if tool["name"].endswith("submit_answer")]
    assert tool["input_schema"]["properties"] == SEVERITY_SCHEMA["properties"]
    assert "- $.severity: " in str(claude.model.requests[1].messages)


@pytest.mark.requirement("AOX-184")
def test_a_limit_that_is_reached_after_the_answer_does_not_change_it(start_claude: StartClaude) -> None:
    claude = start_claude(submitted("high"), DONE, satisfied=False)
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options=BY_TOOL, limits={"max_turns": 1})

    assert run.terminal["result_data"] == {"severity": "high"}
    assert run.terminal["usage"]["input_tokens"] == USAGE["input_tokens"]


@pytest.mark.requirement("AOX-187")
def test_a_call_that_does_not_fit_ends_the_run_where_no_retry_is_left(start_claude: StartClaude) -> None:
    claude = start_claude(submitted("critical"), submitted("high"), satisfied=False)
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options={**BY_TOOL, "max_retries": 0})

    assert run.error["type"] == "schema_validation_failed"
    assert run.error["validation_errors"] == ['$.severity: "critical" is not one of ["low", "high"]']
    assert validations(run.events) == [(1, False)]


@pytest.mark.requirement("AOX-162", "AOX-184")
def test_each_turn_of_a_session_has_an_answer_of_its_own(start_claude: StartClaude) -> None:
    claude = start_claude(submitted("low"), DONE, submitted("high"), DONE)
    blueprint = agent(default_output_schema=SEVERITY_SCHEMA, default_output_schema_options=BY_TOOL)
    with claude.start(control=STAYING, agent_blueprint=blueprint) as executor:
        first = executor.read_run()
        executor.write_turn("run_2", "Really?")
        second = executor.read_run()
        executor.write_line({"type": "shutdown"})
        code = executor.wait()

    assert [events[-1]["result_data"] for events in (first, second)] == [{"severity": "low"}, {"severity": "high"}]
    assert [validations(events) for events in (first, second)] == [[(1, True)], [(1, True)]]
    assert code == 0

"""Several runs with one CLI."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ao_executors.claude_code.claude_process import trace_headers
from tests.process.executors.driver import EventDocument
from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA, agent
from tests.real_cli.claude_code.conftest import StartClaude

STAYING = {"stdin": "open", "turns": True}


def event(events: list[EventDocument], event_type: str) -> EventDocument:
    """Return the only event of a type."""
    (found,) = [event for event in events if event["event_type"] == event_type]
    return found


@pytest.mark.requirement("AOX-065", "AOX-082", "AOX-162")
def test_turns_go_on_in_the_same_session_under_the_same_contract(start_claude: StartClaude) -> None:
    usage = {"input_tokens": 1000, "output_tokens": 1000}
    claude = start_claude(
        {"json": {"severity": "low"}, "usage": usage},
        {"text": "none", "usage": usage},
        {"json": {"severity": "high"}, "usage": usage},
    )
    with claude.start(control=STAYING, agent_blueprint=agent(output_schema=SEVERITY_SCHEMA)) as executor:
        first, first_cli = executor.read_run(), processes_below(executor.pid)
        executor.write_turn("run_2", "Really?")
        second, second_cli = executor.read_run(), processes_below(executor.pid)
        executor.write_line({"type": "shutdown"})
        code = executor.wait()

    assert [events[-1]["result_data"] for events in (first, second)] == [{"severity": "low"}, {"severity": "high"}]
    assert event(second, "session_bound")["executor_session_id"] == event(first, "session_bound")["executor_session_id"]
    assert [(events[-1]["usage"]["output_tokens"]) for events in (first, second)] == [1000, 2000]
    assert second[-1]["usage"]["cost_usd"] == pytest.approx(2 * first[-1]["usage"]["cost_usd"])
    assert first_cli == second_cli
    assert claude.model.requests[1].last_user_text == "Really?"
    assert "low" in str(claude.model.requests[1].messages)
    assert code == 0


@pytest.mark.requirement("AOX-066")
def test_a_run_whose_cli_dies_is_the_last_one(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hello there", "stall_after_chars": 4}, satisfied=False)
    with claude.start(control=STAYING) as executor:
        executor.read_until("session_bound")
        os.kill(processes_below(executor.pid)[-1], signal.SIGKILL)
        ended = executor.finish()

    assert (ended.error["type"], ended.error["retryable"], ended.exit_code) == ("internal_error", True, 75)


def test_a_run_with_a_budget_is_the_last_one(start_claude: StartClaude) -> None:
    with start_claude({"text": "Hello."}).start(control=STAYING, limits={"max_cost_usd": 1}) as executor:
        assert executor.finish().exit_code == 0


BACKGROUND = {
    "content": [{"type": "tool_use", "name": "Bash", "input": {"command": "sleep 0.4", "run_in_background": True}}]
}


@pytest.mark.parametrize(
    ("env", "notified"),
    [({}, []), ({"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": ""}, [{"text": "It is done."}])],
    ids=["by default", "with background tasks"],
)
def test_what_the_cli_says_by_itself_is_no_answer_to_a_turn(
    start_claude: StartClaude, env: dict[str, str], notified: list[dict[str, object]]
) -> None:
    claude = start_claude(BACKGROUND, {"text": "Begun."}, *notified, {"text": "Second."})
    config = {"allowed_tools": ["Bash"], "env": env}
    with claude.start(control=STAYING, executor_config=config) as executor:
        assert executor.read_run()[-1]["result_text"] == "Begun."
        assert claude.model.wait_for_requests(2 + len(notified), timeout_seconds=20)
        executor.write_turn("run_2", "And?")
        second = executor.read_run()

    assert second[-1]["result_text"] == "Second."


def processes_below(pid: int) -> list[int]:
    """Return a process's child, its child, and so on: the lifeline, then the CLI."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(children[0]), *processes_below(int(children[0]))] if children else []


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"


@pytest.mark.requirement("AOX-201")
@pytest.mark.parametrize(
    ("metadata", "environment", "headers"),
    [
        ({"traceparent": TRACE}, {"TRACEPARENT": OTHER}, f"traceparent: {TRACE}"),
        ({}, {"TRACEPARENT": OTHER}, f"traceparent: {OTHER}"),
        ({"traceparent": f"{TRACE}\nx-other: header"}, {"TRACEPARENT": OTHER}, f"traceparent: {OTHER}"),
        ({"traceparent": f"00-{'0' * 32}-{'1' * 16}-01"}, {"TRACEPARENT": OTHER}, f"traceparent: {OTHER}"),
        ({"traceparent": f"00-{'1' * 32}-{'0' * 16}-01"}, {}, None),
        (
            {"traceparent": TRACE},
            {"ANTHROPIC_CUSTOM_HEADERS": "x-team: a"},
            f"x-team: a\ntraceparent: {TRACE}",
        ),
        ({"traceparent": 7}, {}, None),
    ],
    ids=["of the run", "of the process", "no trace", "of zeros", "no parent", "besides others", "none"],
)
def test_the_trace_of_the_run_comes_before_that_of_the_process(
    metadata: dict[str, Any], environment: dict[str, str], headers: str | None
) -> None:
    assert trace_headers(metadata, environment).get("ANTHROPIC_CUSTOM_HEADERS") == headers

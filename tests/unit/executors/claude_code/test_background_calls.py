"""Calls of tools that run on in the background end when the CLI tells their end, and not before."""

import json

import pytest

from ao_executors.claude_code.claude_turn import ClaudeTools
from ao_executors.claude_code.sdk import AssistantMessage, ToolResultBlock, ToolUseBlock, UserMessage
from ao_executors.core import Emitter


@pytest.mark.parametrize(
    ("report", "status", "outcome"),
    [
        ({"backgroundTaskId": "b1"}, "completed", {"status": "completed", "tool_output": "It is built."}),
        ({"backgroundTaskId": "b1"}, "stopped", {"status": "cancelled", "error": "stopped: It is built."}),
        ({"backgroundTaskId": "b1"}, "failed", {"status": "failed", "error": "failed: It is built."}),
        ({"isAsync": True, "agentId": "a1"}, "completed", {"status": "completed", "tool_output": "It is built."}),
    ],
    ids=["a command", "a stopped command", "a command that failed", "a subagent"],
)
def test_a_call_in_the_background_ends_with_its_notification(
    report: dict[str, object], status: str, outcome: dict[str, str]
) -> None:
    written: list[bytes] = []
    events = Emitter(written.append, run_id="run_1", session_id="ses_1")
    tools = ClaudeTools(events, {})
    tools.start_from(AssistantMessage([ToolUseBlock("call_1", "Bash", {"command": "make"})], "model"))
    tools.finish_from(UserMessage([ToolResultBlock("call_1", "It runs.")], tool_use_result=report))
    assert len(events.open_tools) == 1

    for call_id in ("call_0", "call_1", "call_1"):
        tools.finish_in_background({"tool_use_id": call_id, "status": status, "summary": "It is built."})

    started, finished = (json.loads(line) for line in written)
    assert (started["event_type"], finished["event_type"], events.open_tools) == ("tool_started", "tool_finished", {})
    assert {name: finished[name] for name in outcome} == outcome

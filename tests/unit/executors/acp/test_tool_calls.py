"""The tool calls of an agent as events."""

import json

import pytest

from ao_executors.acp.agent_tools import AgentTools
from ao_executors.core import Emitter


def test_a_provider_may_give_the_calls_of_each_answer_the_same_id() -> None:
    lines: list[bytes] = []
    tools = AgentTools(Emitter(lines.append, run_id="run_1", session_id="ses_1"), ("name", "(.+)"))
    call = {"toolCallId": "call_1", "name": "shell", "rawInput": {"command": "ls"}}
    for _ in range(2):
        tools.take({**call, "sessionUpdate": "tool_call", "status": "pending"})
        tools.take({**call, "sessionUpdate": "tool_call_update", "status": "completed"})
        tools.take({**call, "sessionUpdate": "tool_call_update", "status": "completed"})

    told = [(event["event_type"], event["tool_call_id"]) for event in map(json.loads, lines)]
    assert told == [
        *[("tool_started", "call_1"), ("tool_finished", "call_1")],
        *[("tool_started", "call_1.2"), ("tool_finished", "call_1.2")],
    ]


def test_a_call_starts_with_the_input_that_the_model_wrote() -> None:
    """OpenCode tells the folder of a command before the command."""
    lines: list[bytes] = []
    tools = AgentTools(Emitter(lines.append, run_id="run_1", session_id="ses_1"), ("title", "(.+)"))
    call = {"toolCallId": "call_1", "title": "bash", "sessionUpdate": "tool_call", "status": "pending"}
    tools.take({**call, "rawInput": {"cwd": "/p"}})
    assert lines == []
    given = {"command": "ls", "cwd": "/p"}
    tools.take({**call, "sessionUpdate": "tool_call_update", "status": "in_progress", "rawInput": given})
    assert [json.loads(line)["tool_input"] for line in lines] == [given]


@pytest.mark.parametrize(
    "output",
    ["Command moved to background (PID: 1175). Output hidden.", "Background shell bg_c8c0b675 started (pid 2033)."],
    ids=["gemini", "qwen"],
)
def test_a_command_that_runs_on_in_the_background_is_no_completed_call(output: str) -> None:
    lines: list[bytes] = []
    tools = AgentTools(Emitter(lines.append, run_id="run_1", session_id="ses_1"), ("name", "(.+)"))
    content = [{"type": "content", "content": {"type": "text", "text": output}}]
    tools.take({"toolCallId": "call_1", "name": "shell", "sessionUpdate": "tool_call", "status": "in_progress"})
    tools.take({"toolCallId": "call_1", "sessionUpdate": "tool_call_update", "status": "completed", "content": content})
    tools.close("failed", "the turn ended")

    told = [(event["event_type"], event.get("status")) for event in map(json.loads, lines)]
    told_unfinished = [("log", None), ("_ao/unfinished", None)]
    assert told == [("tool_started", None), *told_unfinished, ("tool_finished", "failed")]

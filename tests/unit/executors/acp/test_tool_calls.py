"""The tool calls of an agent as events."""

import json

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

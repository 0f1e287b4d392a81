"""The tool `submit_answer` as an MCP server: what an agent's program reads, and who reaches it."""

import asyncio
import json
import os
import stat
from pathlib import Path
from typing import Any, cast

import pytest

from ao_executors.core import RunContext
from ao_executors.core.answer_tool import AnswerTool, served_by_program
from ao_executors.core.conversation import Submissions
from ao_protocol.contracts import JsonFormat, OutputContract, SchemaSource, Strategy

INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}


class Judge:
    """In the place of `Submissions`."""

    failure = None

    def submit(self, given: Any) -> tuple[str, bool]:
        return f"judged {given}", False


def tool_for(schema: dict[str, Any], strategy: Strategy = Strategy.TOOL) -> AnswerTool:
    contract = OutputContract(JsonFormat(schema), SchemaSource.INLINE, strategy=strategy)
    tool = AnswerTool(cast("RunContext", type("Context", (), {"contract": contract})))
    tool.submissions = cast("Submissions", Judge())
    return tool


async def converse(command: list[str], *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the responses of a program that gets these messages and the end of its stdin."""
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages).encode())
    wanted = sum("id" in each for each in messages)
    responses = [json.loads(await program.stdout.readline()) for _ in range(wanted)]
    program.stdin.close()
    assert await program.wait() == 0
    return responses


@pytest.mark.requirement("AOX-184")
def test_a_program_passes_calls_on_to_the_executor() -> None:
    async def play() -> list[dict[str, Any]]:
        tool = tool_for({"type": "integer"})
        async with served_by_program(tool) as command:
            folder = Path(command[-1]).parent
            assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IRWXU
            assert folder.stat().st_uid == os.getuid()
            responses = await converse(
                command,
                {"id": 1, "method": "initialize", "params": INITIALIZE},
                {"method": "notifications/initialized"},
                {"id": 2, "method": "tools/list"},
                {"id": 3, "method": "tools/call", "params": {"name": "submit_answer", "arguments": {"answer": 7}}},
                {"id": 4, "method": "tools/call", "params": {"name": "another", "arguments": {}}},
            )
            assert await tool.is_listed_within(0)
        assert not folder.exists()
        return responses

    initialized, listed, called, refused = asyncio.run(play())
    assert initialized["result"]["capabilities"] == {"tools": {}}
    (tool,) = listed["result"]["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("submit_answer", ["answer"])
    assert called["result"] == {"content": [{"type": "text", "text": "judged {'answer': 7}"}], "isError": False}
    assert refused["error"]["code"] == -32601


def test_a_call_in_another_call_and_one_without_a_run_are_errors() -> None:
    tool = tool_for({"type": "object"})
    tool.is_part = lambda meta: meta.get("call") == "of a sub-agent"
    call = {"id": 1, "method": "tools/call", "params": {"name": "submit_answer", "_meta": {"call": "of a sub-agent"}}}

    assert tool.response(call)["result"]["isError"]
    tool.submissions = None
    assert tool.response({**call, "params": {"name": "submit_answer"}})["result"]["isError"]


def test_a_run_with_another_strategy_serves_nothing() -> None:
    async def play() -> list[str]:
        async with served_by_program(tool_for({}, Strategy.PROMPT)) as command:
            return command

    assert asyncio.run(play()) == []

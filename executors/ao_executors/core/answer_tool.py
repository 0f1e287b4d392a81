"""The tool `submit_answer` of the strategy `tool` (SPEC 9.9), as an MCP server that this process is.

One tool with one schema needs three methods; the package `mcp` takes longer to import than an agent to start. An agent
that starts MCP servers as programs gets `answer_relay`, which passes the messages on by a socket in a folder of this
user. Internal.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any, Final

from ao_executors.core import answer_relay
from ao_executors.core.executor import RunContext
from ao_executors.core.foreign_json import as_object, read_json
from ao_protocol.contracts import JsonFormat, Strategy, submission_schema
from ao_protocol.framing import NotIJson

if TYPE_CHECKING:
    from ao_executors.core.conversation import Submissions

SERVER: Final = "ao_answer"
"""The name of the server. One of a blueprint with the same name is replaced."""
TOOL: Final = "submit_answer"
NAME: Final = f"mcp__{SERVER}__{TOOL}"
"""The name of the tool for agents that name those of MCP servers as the Claude CLI does."""
_DESCRIPTION: Final = "Submit your final answer with this tool. Only what is submitted counts."
_NOT_THE_AGENT: Final = "Only the agent that started you submits the final answer. Report to it with your text instead."
_METHOD_NOT_FOUND: Final = -32601
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_LONGEST_FOLDER: Final = 60
"""A path of a socket has at most 103 bytes on some systems."""


def is_offered(context: RunContext) -> bool:
    """Return whether the agent of a run has the tool."""
    return context.contract is not None and context.contract.strategy is Strategy.TOOL


class AnswerTool:
    """The server of one agent. A conversation sets `submissions`, which judge the calls."""

    def __init__(self, context: RunContext) -> None:
        self.submissions: Submissions | None = None
        self.is_part: Callable[[Mapping[str, Any]], bool] = lambda _meta: False
        """Whether the call with this `_meta` is part of another call, such as that of a sub-agent (AOX-096)."""
        self._listed = asyncio.Event()
        self._schema: dict[str, Any] | None = None
        if is_offered(context) and context.contract is not None and isinstance(context.contract.format, JsonFormat):
            self._schema = submission_schema(context.contract.format.schema).document

    @property
    def is_offered(self) -> bool:
        """Whether the agent has the tool."""
        return self._schema is not None

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as MCP describes it."""
        return {"name": TOOL, "description": _DESCRIPTION, "inputSchema": self._schema}

    def call(self, given: Any, *, is_part: bool) -> tuple[str, bool]:  # noqa: ANN401  # any JSON
        """Judge a call with the input `given`. Return the text for the model, and whether it is an error."""
        if self.submissions is None:
            return "No answer is expected by this tool. Answer with your text.", True
        return (_NOT_THE_AGENT, True) if is_part else self.submissions.submit(given)

    async def is_listed_within(self, seconds: float) -> bool:
        """Wait until the agent has asked for the tool. Some do so beside their first request to the model."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._listed.wait()
        return self._listed.is_set()

    def raise_failure(self) -> None:
        """Raise the failure of the run if a call was the last attempt and did not fit."""
        if self.submissions is not None and self.submissions.failure is not None:
            raise self.submissions.failure

    def response(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a JSON-RPC request of the agent. That to a notification is not sent."""
        return {"jsonrpc": "2.0", "id": asked.get("id"), **self._outcome(asked)}

    def _outcome(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        match asked:
            case {"method": "initialize", "params": {"protocolVersion": version}}:
                info = {"name": SERVER, "version": "1"}
                return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
            case {"method": "tools/list"} if self._schema is not None:
                self._listed.set()
                return {"result": {"tools": [self.definition]}}
            case {"method": "tools/call", "params": {"name": "submit_answer", **call}}:
                is_part = self.is_part(as_object(call.get("_meta")))
                text, is_error = self.call(call.get("arguments", {}), is_part=is_part)
                return {"result": {"content": [{"type": "text", "text": text}], "isError": is_error}}
            case {"method": str(method)} if method.startswith("notifications/") or method == "ping":
                return {"result": {}}
        return {"error": {"code": _METHOD_NOT_FOUND, "message": "not found"}}


@asynccontextmanager
async def served_by_program(tool: AnswerTool) -> AsyncIterator[list[str]]:
    """Serve the tool to programs of the yielded command, which speak MCP on their stdin and stdout.

    They end with the block. Their socket is in a folder that nobody but this user can enter. The command is empty in a
    run without the tool.
    """
    if not tool.is_offered:
        yield []
        return
    links: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        links.add(writer)
        try:
            while line := await reader.readline():
                asked = as_object(read_json(line.decode()))
                if "id" in asked:
                    writer.write(json.dumps(tool.response(asked)).encode() + b"\n")
        except (ConnectionError, ValueError, NotIJson):  # a line that is too long, or no JSON
            pass
        finally:
            links.discard(writer)
            writer.close()

    usual = gettempdir() if len(gettempdir()) <= _LONGEST_FOLDER else "/tmp"  # noqa: S108  # the folder is private
    with TemporaryDirectory(prefix="ao-answer-", dir=usual, ignore_cleanup_errors=True) as folder:
        path = Path(folder, "socket")
        server = await asyncio.start_unix_server(serve, path, limit=_MAX_LINE_BYTES)
        try:
            yield [sys.executable, "-I", "-S", answer_relay.__file__, str(path)]
        finally:
            server.close()
            for link in links:
                link.close()

"""The tools as an MCP server, over streamable HTTP or stdio. Only this module imports the MCP SDK.

Two major versions of the SDK register handlers differently; both are supported. Documents are built with wire names,
which both versions read.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue, ValidationError

from ao_protocol.wire import JsonObject, problems_of
from ao_runner.orchestrator.coordinator_client import CoordinatorClient, ToolRefused
from ao_runner.orchestrator.tools import TOOLS, Caller, Tool

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

SDK_MODULES: Final = ("mcp.server.lowlevel", "mcp.server.streamable_http_manager")
"""What serving imports. A server that must not stand still meanwhile imports them in a thread before."""
TAGS_HEADER: Final = "x-agent-tags"
DEMANDS_HEADER: Final = "x-additional-demands"
CALLER: Final = "ao.caller"
"""The key of the `Caller` in the ASGI scope."""
_NAME: Final = "Agent Orchestrator"
_PACKAGE: Final = "ao-executor-protocol"
_INSTRUCTIONS: Final = (
    "Start agents with start_agent_session; list_agent_blueprints tells which there are, and what each takes. "
    "What fails has isError and says why."
)


@asynccontextmanager
async def over_http(client: CoordinatorClient, tools: Sequence[Tool]) -> AsyncIterator[Application]:
    """Yield the ASGI application of tools. It expects the caller of each request as `scope[CALLER]`."""
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    server = _server(client, tools, lambda request: request.scope[CALLER])
    # Stateless: a process may continue after its turn, and an MCP session would not.
    manager = StreamableHTTPSessionManager(server, stateless=True)
    async with manager.run():
        yield cast(Application, manager.handle_request)  # its ASGI types are equivalent


async def over_stdio(client: CoordinatorClient) -> None:
    """Serve a client without a session on stdin and stdout until stdin ends."""
    from mcp.server.stdio import stdio_server

    server = _server(client, TOOLS, lambda _: caller_from({}, None))
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def headers_of(scope: Message) -> dict[str, str]:
    """Return the headers by lower-case name. A repeated header is joined, so that it equals no expected value."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def caller_from(headers: Mapping[str, str], session_id: str | None) -> Caller:
    """Return the caller that has sent these headers."""
    tags, demands = headers.get(TAGS_HEADER) or None, _demands(headers.get(DEMANDS_HEADER, ""))
    return Caller(session_id, tags, demands, asyncio.Event())


def _demands(text: str) -> JsonObject:
    """Return the demands on a child's runner. Like the existing runner, ignore a text that is not a JSON object."""
    try:
        demands = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return demands if isinstance(demands, dict) else {}


def _server(client: CoordinatorClient, tools: Sequence[Tool], caller_of: Callable[[Any], Caller]) -> Any:  # noqa: ANN401  # see above
    """Return the server of the SDK, for either major version. `caller_of` receives the HTTP request, if any."""
    from mcp import types
    from mcp.server.lowlevel import Server

    listed = types.ListToolsResult.model_validate({"tools": [_written(tool) for tool in tools]})
    by_name = {tool.name: tool for tool in tools}

    async def call(request: Any, params: Any) -> types.CallToolResult:  # noqa: ANN401
        tool = by_name.get(params.name)
        if tool is None:
            return types.CallToolResult.model_validate(_failed(f"Unknown tool: {params.name}"))
        answer = await _answer(client, caller_of(request), tool, params.arguments or {})
        return types.CallToolResult.model_validate(answer)

    async def list_tools(*_: object) -> Any:  # noqa: ANN401
        return listed

    async def call_tool(context: Any, params: Any) -> Any:  # noqa: ANN401
        return await call(context.request, params)

    about: dict[str, Any] = {"version": version(_PACKAGE), "instructions": _INSTRUCTIONS}
    if not hasattr(Server, "list_tools"):
        return Server(_NAME, **about, on_list_tools=list_tools, on_call_tool=call_tool)

    # mcp 1.x, whose handlers receive the whole request and wrap their results.
    first: Any = types
    server: Any = Server(_NAME, **about)

    async def call_first(asked: Any) -> Any:  # noqa: ANN401
        return first.ServerResult(await call(server.request_context.request, asked.params))

    async def list_first(_: object) -> Any:  # noqa: ANN401
        return first.ServerResult(listed)

    server.request_handlers |= {types.ListToolsRequest: list_first, types.CallToolRequest: call_first}
    return server


async def _answer(client: CoordinatorClient, caller: Caller, tool: Tool, arguments: JsonObject) -> JsonObject:
    """Return the result of `tools/call`. Each item of a list is a text, as in the existing runner.

    A refusal is the text `{"error": …}` with `isError`, by which clients know it as one.
    """
    try:
        answer = await tool.answer(client, caller, arguments)
    except ValidationError as error:
        problems = "; ".join(str(problem) for problem in problems_of(error, arguments))
        return _failed(f"The arguments of {tool.name} are not valid: {problems}")
    except ToolRefused as refusal:
        said: JsonObject = {"error": str(refusal), **refusal.details}
        return _failed(json.dumps(said, indent=2, ensure_ascii=False))
    items = answer if isinstance(answer, list) else [answer]
    content: list[JsonValue] = [
        {"type": "text", "text": json.dumps(item, indent=2, ensure_ascii=False)} for item in items
    ]
    structured: JsonObject = {"result": list(answer)} if isinstance(answer, list) else answer
    return {"content": content, "structuredContent": structured, "isError": False}


def _failed(reason: str) -> JsonObject:
    return {"content": [{"type": "text", "text": reason}], "isError": True}


def _written(tool: Tool) -> JsonObject:
    return {
        "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema, "annotations": dict(tool.hints),
    }  # fmt: skip

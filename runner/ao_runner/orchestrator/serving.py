"""The door to MCP: one server on the loopback address for all runs of a worker. It alone imports the SDK.

The SDK has two majors with different ways to register handlers; both are served. Documents are made of wire names,
which both read.
"""

import asyncio
import importlib
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, cast

from pydantic import JsonValue, ValidationError

from ao_protocol.wire import JsonObject, problems_of
from ao_runner.coordinators.http import Timing
from ao_runner.coordinators.http.transport import Exchange
from ao_runner.errors import RunnerError
from ao_runner.orchestrator.client import CoordinatorClient, Patience
from ao_runner.orchestrator.door import CALLER, Application, Door
from ao_runner.orchestrator.grants import Grants
from ao_runner.orchestrator.tools import TOOLS, Caller, Tool
from ao_runner.profiles import COORDINATOR_TOKEN

LOOPBACK: Final = "127.0.0.1"
MOST_CONNECTIONS: Final = 256
GOODBYE_SECONDS: Final = 1
_NAME: Final = "Agent Orchestrator"
_PACKAGE: Final = "ao-executor-protocol"
_HEAVY: Final = ("mcp.server.lowlevel", "mcp.server.streamable_http_manager", "uvicorn")
_LOGGERS: Final = ("mcp", "sse_starlette", "uvicorn.error")
_TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in TOOLS}
_A_LIST: Final[JsonObject] = {
    "properties": {
        "result": {"items": {"additionalProperties": True, "type": "object"}, "title": "Result", "type": "array"}
    },
    "required": ["result"],
    "type": "object",
}


@dataclass(eq=False)
class CannotHost(RunnerError):
    """The server cannot be had."""

    reason: str

    def __str__(self) -> str:
        return (
            f"the orchestrator MCP server cannot be served: {self.reason}; or give its address with "
            "--runner-value orchestrator_mcp_url=URL"
        )


class OrchestratorServer:
    """Gives each session an address of its own, at which its processes find the tools.

    Args:
        coordinator_url: Of the coordinator that the tools are about.
        environ: Where the coordinator's token is looked for.
        is_kept: Tells whether a process waits for the next run of a session.
        patience: How long a tool waits for a run.
    """

    def __init__(
        self,
        coordinator_url: str,
        environ: Mapping[str, str] = os.environ,
        is_kept: Callable[[str], bool] = lambda _: False,
        patience: Patience = Patience(),  # noqa: B008  # immutable
    ) -> None:
        token = environ.get(COORDINATOR_TOKEN, "").strip() or None
        self._exchange = Exchange(coordinator_url, token, Timing())
        self._client = CoordinatorClient(self._exchange, patience)
        self._grants = Grants(is_kept)
        self._port = 0

    def grant(self, run_id: str, session_id: str) -> tuple[str, str]:
        """Return the address for a run, and the secret token in it. It is the session's: see `Grants`."""
        token = self._grants.grant(run_id, session_id)
        return f"http://{LOOPBACK}:{self._port}/{token}/mcp", token

    def revoke(self, run_id: str) -> None:
        """End a run. Its address is answered with 404 as soon as its session has no run and no kept process here."""
        self._grants.revoke(run_id)

    @asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[int]:
        """Serve inside the `with` block, on the loopback address only, and yield the port; 0 takes any free one.

        Raises:
            CannotHost: the port cannot be had, or a library is missing.
            CoordinatorUnusable: the coordinator's address or token cannot be one.
        """
        try:
            await asyncio.to_thread(_import_what_takes_long)
            listener = socket.create_server((LOOPBACK, port), backlog=MOST_CONNECTIONS)
        except ImportError as error:
            raise CannotHost(f"{error}; install ao-executor-protocol[worker]") from error
        except OSError as error:
            raise CannotHost(f"port {port}: {os.strerror(error.errno or 0)}") from error
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        with listener:
            self._port = listener.getsockname()[1]
            # Stateless: a process may go on after its turn, and no session of MCP outlives what it was opened for.
            manager = StreamableHTTPSessionManager(_mcp_server(self._client), stateless=True)
            door = Door(self._grants, cast(Application, manager.handle_request))  # the types of ASGI, spelled out
            door.port = self._port
            async with self._exchange, manager.run(), _listening(door, listener):
                yield self._port


def _import_what_takes_long() -> None:
    for name in _HEAVY:
        importlib.import_module(name)


@asynccontextmanager
async def _listening(door: Door, listener: socket.socket) -> AsyncIterator[None]:
    """Run uvicorn without its own loop, which would take the worker's signals and wake up ten times a second."""
    import uvicorn

    for name in _LOGGERS:
        # A worker's log has one form, and what these say of requests is told to who made them.
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    config = uvicorn.Config(
        door,
        interface="asgi3",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GOODBYE_SECONDS,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        yield
    finally:
        door.dismiss()
        server.force_exit = True
        await server.shutdown()


def _mcp_server(client: CoordinatorClient) -> Any:  # noqa: ANN401  # of two majors, of which one is installed
    """Return the server of the SDK, whichever major it is."""
    from mcp import types
    from mcp.server.lowlevel import Server

    listed = types.ListToolsResult.model_validate({"tools": [_written(tool) for tool in TOOLS]})

    async def call(request: Any, name: str, arguments: Any) -> types.CallToolResult:  # noqa: ANN401  # see above
        answer = await _answer(client, request.scope[CALLER], name, arguments or {})
        return types.CallToolResult.model_validate(answer)

    if hasattr(Server, "list_tools"):
        return _first_major(types, Server, listed, call)

    async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
        return listed

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:  # noqa: ANN401
        return await call(context.request, params.name, params.arguments)

    return Server(_NAME, version=version(_PACKAGE), on_list_tools=list_tools, on_call_tool=call_tool)


def _first_major(types: Any, make_server: Any, listed: Any, call: Callable[..., Any]) -> Any:  # noqa: ANN401
    """Return a server of mcp 1.x, whose handlers take the whole request."""
    server = make_server(_NAME, version=version(_PACKAGE))

    async def list_tools(_request: object) -> Any:  # noqa: ANN401
        return types.ServerResult(listed)

    async def call_tool(request: Any) -> Any:  # noqa: ANN401
        params = request.params
        return types.ServerResult(await call(server.request_context.request, params.name, params.arguments))

    server.request_handlers[types.ListToolsRequest] = list_tools
    server.request_handlers[types.CallToolRequest] = call_tool
    return server


async def _answer(client: CoordinatorClient, caller: Caller, name: str, arguments: JsonObject) -> JsonObject:
    """Return the result of `tools/call`: each item of a list is a text, as the existing runner has it."""
    tool = _TOOLS.get(name)
    if tool is None:
        return _failed(f"Unknown tool: {name}")
    try:
        answer = await tool.answer(client, caller, arguments)
    except ValidationError as error:
        problems = "; ".join(str(problem) for problem in problems_of(error, arguments))
        return _failed(f"The arguments of {name} are not valid: {problems}")
    items = answer if isinstance(answer, list) else [answer]
    content: list[JsonValue] = [
        {"type": "text", "text": json.dumps(item, indent=2, ensure_ascii=False)} for item in items
    ]
    result: JsonObject = {"content": content, "isError": False}
    return {**result, "structuredContent": {"result": list(answer)}} if isinstance(answer, list) else result


def _failed(reason: str) -> JsonObject:
    return {"content": [{"type": "text", "text": reason}], "isError": True}


def _written(tool: Tool) -> JsonObject:
    written: JsonObject = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    return {**written, "outputSchema": {**_A_LIST, "title": f"{tool.name}Output"}} if tool.is_list else written

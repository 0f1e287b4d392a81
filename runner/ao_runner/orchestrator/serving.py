"""The MCP server: one on the loopback address for all runs of a worker. Only this module imports the MCP SDK.

Two major versions of the SDK register handlers differently; both are supported. Documents are built with wire names,
which both versions read.
"""

import asyncio
import importlib
import json
import logging
import os
import secrets
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue, ValidationError

from ao_protocol.wire import JsonObject, problems_of
from ao_runner.coordinators.http import Timing
from ao_runner.coordinators.http.transport import Exchange
from ao_runner.errors import RunnerError
from ao_runner.orchestrator.tools import TOOLS, Caller, CoordinatorClient, Timeouts, Tool
from ao_runner.profiles import COORDINATOR_TOKEN

TOKEN_BYTES: Final = 32


class Grants:
    """The tokens of sessions.

    A session keeps its token for as long as it has a run or a kept process here, because a kept process uses the
    connection of its first run. Later it gets a new token.

    Args:
        is_kept: Returns whether a process waits for the next run of a session.
        new_token: Returns an unguessable token.
    """

    def __init__(
        self,
        is_kept: Callable[[str], bool] = lambda _: False,
        new_token: Callable[[], str] = lambda: secrets.token_urlsafe(TOKEN_BYTES),
    ) -> None:
        self._is_kept = is_kept
        self._new_token = new_token
        self._runs: dict[str, str] = {}
        self._tokens: dict[str, str] = {}
        self._sessions: dict[bytes, str] = {}
        """Session ids by the digest of the token, so that the time of a look-up reveals nothing about a token."""

    def grant(self, run_id: str, session_id: str) -> str:
        """Return the token of a session. It is valid at least until the run is revoked."""
        self._forget_what_ended()
        self._runs[run_id] = session_id
        if session_id not in self._tokens:
            token = self._new_token()
            self._tokens[session_id] = token
            self._sessions[_digest(token)] = session_id
        return self._tokens[session_id]

    def revoke(self, run_id: str) -> None:
        """End a run. The token of its session stays while another run or a kept process needs it."""
        self._runs.pop(run_id, None)
        self._forget_what_ended()

    def session_of(self, token: str) -> str | None:
        """Return the session of a valid token; None for any other."""
        session_id = self._sessions.get(_digest(token))
        return session_id if session_id is not None and self._is_live(session_id) else None

    def _is_live(self, session_id: str) -> bool:
        return session_id in self._runs.values() or self._is_kept(session_id)

    def _forget_what_ended(self) -> None:
        for session_id in [session_id for session_id in self._tokens if not self._is_live(session_id)]:
            del self._sessions[_digest(self._tokens.pop(session_id))]


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

SESSION_HEADER: Final = "x-agent-session-id"
TAGS_HEADER: Final = "x-agent-tags"
DEMANDS_HEADER: Final = "x-additional-demands"
CALLER: Final = "ao.caller"
"""The key of the `Caller` in the ASGI scope."""
MAX_BODY_BYTES: Final = 1024 * 1024
BODY_SECONDS: Final = 20.0
"""The timeout for the whole body of a request, which comes from this machine."""
MOST_CALLS_OF_A_SESSION: Final = 32
"""The maximum number of concurrent calls. A waiting call occupies a connection, and other runs need some, too."""
LOOPBACK: Final = "127.0.0.1"


@dataclass(eq=False)
class _Refused(Exception):
    status: HTTPStatus
    reason: str


class Door:
    """The ASGI application that accepts `POST /TOKEN/mcp` with a valid token. A GET is refused: no events are sent.

    A foreign `Host` or `Origin` is refused, because a page in a browser could reach the port through a name of its own
    (DNS rebinding). `port` is set as soon as it is known.
    """

    def __init__(self, grants: Grants, inside: Application) -> None:
        self.port = 0
        self._grants = grants
        self._inside = inside
        self._calls: Counter[str] = Counter()
        self._waiting: set[asyncio.Event] = set()

    def dismiss(self) -> None:
        """End the waiting of all calls: their responses are no longer needed."""
        for gone in self._waiting:
            gone.set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            caller = self._admitted(scope)
            body = await _body_of(receive)
        except _Refused as refusal:
            await _send_refusal(send, refusal)
            return
        if body is None:
            return
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            """Return the body that was read already, then further messages: the disconnect of the client."""
            message = unread.pop() if unread else await receive()
            if message["type"] == "http.disconnect":
                caller.gone.set()
            return message

        self._calls[caller.session_id] += 1
        self._waiting.add(caller.gone)
        try:
            # Without the token, so that no message about the request contains it.
            await self._inside({**scope, "path": "/mcp", "raw_path": b"/mcp", CALLER: caller}, replay, send)
        finally:
            self._waiting.discard(caller.gone)
            self._calls[caller.session_id] -= 1
            self._calls += Counter()  # removes the sessions without calls

    def _admitted(self, scope: Message) -> Caller:
        headers = _headers(scope["headers"])
        ours = [f"{host}:{self.port}" for host in (LOOPBACK, "localhost")]
        if headers.get("host") not in ours:
            raise _Refused(HTTPStatus.FORBIDDEN, "foreign Host")
        if headers.get("origin", f"http://{ours[0]}") not in {f"http://{host}" for host in ours}:
            raise _Refused(HTTPStatus.FORBIDDEN, "foreign Origin")
        token, slash, rest = scope["path"].removeprefix("/").partition("/")
        session_id = self._grants.session_of(token) if slash and rest == "mcp" else None
        if session_id is None:
            raise _Refused(HTTPStatus.NOT_FOUND, "no such address, or it is not valid any more")
        if scope["method"] != "POST":
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "POST only")
        if headers.get(SESSION_HEADER, session_id) not in {session_id, ""}:
            raise _Refused(HTTPStatus.FORBIDDEN, "X-Agent-Session-Id is not the session that this address is for")
        if self._calls[session_id] >= MOST_CALLS_OF_A_SESSION:
            raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, f"more than {MOST_CALLS_OF_A_SESSION} calls at once")
        return Caller(
            session_id, headers.get(TAGS_HEADER) or None, _demands(headers.get(DEMANDS_HEADER, "")), asyncio.Event()
        )


async def _body_of(receive: Receive) -> bytes | None:
    """Return the whole body; None if the client disconnected before its end."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                body += message.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_BODY_BYTES} bytes")
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise _Refused(HTTPStatus.REQUEST_TIMEOUT, f"no whole body within {BODY_SECONDS:g} s") from None


async def _send_refusal(send: Send, refusal: _Refused) -> None:
    body = json.dumps({"error": refusal.reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST"))
    if refusal.status in {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT}:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by lower-case name. A repeated header is joined, so that it equals no expected value."""
    found: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _demands(text: str) -> JsonObject:
    """Return the demands on a child's runner. Like the existing runner, ignore a text that is not a JSON object."""
    try:
        demands = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return demands if isinstance(demands, dict) else {}


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
    """The server cannot be started."""

    reason: str

    def __str__(self) -> str:
        return (
            f"the orchestrator MCP server cannot be served: {self.reason}; or give its address with "
            "--runner-value orchestrator_mcp_url=URL"
        )


class OrchestratorServer:
    """The MCP server with the tools, with a separate address for each session.

    Args:
        coordinator_url: The URL of the coordinator that the tools use.
        environ: The variables, for the coordinator's token.
        is_kept: Returns whether a process waits for the next run of a session.
        timeouts: How long a tool waits for a run.
    """

    def __init__(
        self,
        coordinator_url: str,
        environ: Mapping[str, str] = os.environ,
        is_kept: Callable[[str], bool] = lambda _: False,
        timeouts: Timeouts = Timeouts(),  # noqa: B008  # immutable
    ) -> None:
        token = environ.get(COORDINATOR_TOKEN, "").strip() or None
        self._exchange = Exchange(coordinator_url, token, Timing())
        self._client = CoordinatorClient(self._exchange, timeouts)
        self._grants = Grants(is_kept)
        self._port = 0

    def grant(self, run_id: str, session_id: str) -> tuple[str, str]:
        """Return the address for a run, and the secret token in it. Both belong to the session: see `Grants`."""
        token = self._grants.grant(run_id, session_id)
        return f"http://{LOOPBACK}:{self._port}/{token}/mcp", token

    def revoke(self, run_id: str) -> None:
        """End a run. Its address returns 404 as soon as its session has no run and no kept process here."""
        self._grants.revoke(run_id)

    @asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[int]:
        """Serve inside the `with` block, on the loopback address only, and yield the port. 0 selects a free port.

        Raises:
            CannotHost: The port is not available, or a library is missing.
            CoordinatorUnusable: The coordinator's address or token is not valid.
        """
        try:
            for name in _HEAVY:
                await asyncio.to_thread(importlib.import_module, name)
            listener = socket.create_server((LOOPBACK, port), backlog=MOST_CONNECTIONS)
        except ImportError as error:
            raise CannotHost(f"{error}; install ao-executor-protocol[worker]") from error
        except OSError as error:
            raise CannotHost(f"port {port}: {os.strerror(error.errno or 0)}") from error
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        with listener:
            self._port = listener.getsockname()[1]
            # Stateless: a process may continue after its turn, and an MCP session would not.
            manager = StreamableHTTPSessionManager(_mcp_server(self._client), stateless=True)
            door = Door(self._grants, cast(Application, manager.handle_request))  # its ASGI types are equivalent
            door.port = self._port
            async with self._exchange, manager.run(), _listening(door, listener):
                yield self._port


@asynccontextmanager
async def _listening(door: Door, listener: socket.socket) -> AsyncIterator[None]:
    """Run uvicorn without its own loop, which would handle the worker's signals and wake up ten times a second."""
    import uvicorn

    for name in _LOGGERS:
        # A worker's log has one form, and errors of requests are in the responses.
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


def _mcp_server(client: CoordinatorClient) -> Any:  # noqa: ANN401  # one of two major versions is installed
    """Return the server of the SDK, for either major version."""
    from mcp import types
    from mcp.server.lowlevel import Server

    listed = types.ListToolsResult.model_validate({"tools": [_written(tool) for tool in TOOLS]})

    async def call(request: Any, params: Any) -> types.CallToolResult:  # noqa: ANN401  # see above
        answer = await _answer(client, request.scope[CALLER], params.name, params.arguments or {})
        return types.CallToolResult.model_validate(answer)

    async def list_tools(*_: object) -> Any:  # noqa: ANN401
        return listed

    async def call_tool(context: Any, params: Any) -> Any:  # noqa: ANN401
        return await call(context.request, params)

    if not hasattr(Server, "list_tools"):
        return Server(_NAME, version=version(_PACKAGE), on_list_tools=list_tools, on_call_tool=call_tool)

    # mcp 1.x, whose handlers receive the whole request and wrap their results.
    first: Any = types
    server: Any = Server(_NAME, version=version(_PACKAGE))

    async def call_first(asked: Any) -> Any:  # noqa: ANN401
        return first.ServerResult(await call(server.request_context.request, asked.params))

    async def list_first(_: object) -> Any:  # noqa: ANN401
        return first.ServerResult(listed)

    server.request_handlers |= {types.ListToolsRequest: list_first, types.CallToolRequest: call_first}
    return server


async def _answer(client: CoordinatorClient, caller: Caller, name: str, arguments: JsonObject) -> JsonObject:
    """Return the result of `tools/call`. Each item of a list is a text, as in the existing runner."""
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

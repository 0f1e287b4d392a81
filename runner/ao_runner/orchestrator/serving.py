"""The MCP server of a worker: one on the loopback address for all its runs."""

import asyncio
import hmac
import importlib
import json
import logging
import os
import secrets
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from ao_runner.coordinators.http.transport import Exchange, Timing
from ao_runner.errors import RunnerError
from ao_runner.orchestrator.coordinator_client import CoordinatorClient, Timeouts
from ao_runner.orchestrator.mcp_sdk import (
    CALLER,
    SDK_MODULES,
    Application,
    Message,
    Receive,
    Send,
    caller_from,
    headers_of,
    over_http,
)
from ao_runner.orchestrator.tools import AGENT_TOOLS, Caller
from ao_runner.own_host import is_of_another_site, is_own_host
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
        """By session."""

    def grant(self, run_id: str, session_id: str) -> str:
        """Return the token of a session. It is valid at least until the run is revoked."""
        self._forget_what_ended()
        self._runs[run_id] = session_id
        if session_id not in self._tokens:
            self._tokens[session_id] = self._new_token()
        return self._tokens[session_id]

    def revoke(self, run_id: str) -> None:
        """End a run. The token of its session stays while another run or a kept process needs it."""
        self._runs.pop(run_id, None)
        self._forget_what_ended()

    def session_of(self, token: str) -> str | None:
        """Return the session of a valid token; None for any other. It is compared with all, in constant time."""
        given, found = token.encode("utf-8", "surrogatepass"), None
        for session_id, known in self._tokens.items():
            if hmac.compare_digest(given, known.encode()):
                found = session_id
        return found if found is not None and self._is_live(found) else None

    def _is_live(self, session_id: str) -> bool:
        return session_id in self._runs.values() or self._is_kept(session_id)

    def _forget_what_ended(self) -> None:
        self._tokens = {session_id: token for session_id, token in self._tokens.items() if self._is_live(session_id)}


SESSION_HEADER: Final = "x-agent-session-id"
MAX_BODY_BYTES: Final = 1024 * 1024
MOST_CALLS_OF_A_SESSION: Final = 32
"""The maximum number of concurrent calls. A waiting call occupies a connection, and other runs need some, too."""
LOOPBACK: Final = "127.0.0.1"


@dataclass(eq=False)
class _Refused(Exception):
    status: HTTPStatus
    reason: str


class Door:
    """The ASGI application that accepts `POST /TOKEN/mcp` with a valid token. A GET is refused: no events are sent.

    A foreign `Host` or `Origin` is refused.
    """

    def __init__(self, grants: Grants, inside: Application) -> None:
        self._grants = grants
        self._inside = inside
        self._calls: Counter[str | None] = Counter()
        self._waiting: set[asyncio.Event] = set()

    def dismiss(self) -> None:
        """End the waiting of all calls: their responses are no longer needed."""
        for gone in self._waiting:
            gone.set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        from ao_runner.connections import admit, limited

        try:
            caller = self._admitted(scope)
        except _Refused as refusal:
            await _send_refusal(send, refusal)
            return
        admit(scope)
        receive_some = limited(receive, MAX_BODY_BYTES)

        async def watched() -> Message:
            message = await receive_some()
            if message["type"] == "http.disconnect":
                caller.gone.set()
            return message

        self._calls[caller.session_id] += 1
        self._waiting.add(caller.gone)
        try:
            # Without the token, so that no message about the request contains it.
            await self._inside({**scope, "path": "/mcp", "raw_path": b"/mcp", CALLER: caller}, watched, send)
        finally:
            self._waiting.discard(caller.gone)
            self._calls[caller.session_id] -= 1
            self._calls += Counter()  # removes the sessions without calls

    def _admitted(self, scope: Message) -> Caller:
        headers = headers_of(scope)
        if not is_own_host(headers.get("host", "")):
            raise _Refused(HTTPStatus.FORBIDDEN, "foreign Host")
        if is_of_another_site(headers):
            raise _Refused(HTTPStatus.FORBIDDEN, "foreign Origin")
        token, slash, rest = scope["path"].removeprefix("/").partition("/")
        session_id = self._grants.session_of(token) if slash and rest == "mcp" else None
        if session_id is None:
            raise _Refused(HTTPStatus.NOT_FOUND, "no such address, or it is not valid any more")
        if scope["method"] != "POST":
            raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, "POST only")
        if headers.get(SESSION_HEADER, session_id) not in {session_id, ""}:
            raise _Refused(HTTPStatus.FORBIDDEN, "X-Agent-Session-Id is not the session that this address is for")
        if int(headers.get("content-length", 0)) > MAX_BODY_BYTES:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {MAX_BODY_BYTES} bytes")
        if self._calls[session_id] >= MOST_CALLS_OF_A_SESSION:
            raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, f"more than {MOST_CALLS_OF_A_SESSION} calls at once")
        return caller_from(headers, session_id)


async def _send_refusal(send: Send, refusal: _Refused) -> None:
    body = json.dumps({"error": refusal.reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": refusal.status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})


MOST_CONNECTIONS: Final = 256
GOODBYE_SECONDS: Final = 1
_HEAVY: Final = (*SDK_MODULES, "ao_runner.connections")
_LOGGERS: Final = ("mcp", "sse_starlette", "uvicorn.error")


class CannotHost(RunnerError):
    """The server cannot be started."""

    def __init__(self, reason: str) -> None:
        advice = "or give its address with --runner-value orchestrator_mcp_url=URL"
        super().__init__(f"the orchestrator MCP server cannot be served: {reason}; {advice}")


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
            listener = socket.create_server((LOOPBACK, port))
        except ImportError as error:
            raise CannotHost(f"{error}; install ao-executor-protocol[worker]") from error
        except OSError as error:
            raise CannotHost(f"port {port}: {os.strerror(error.errno or 0)}") from error
        with listener:
            self._port = listener.getsockname()[1]
            async with (
                self._exchange,
                over_http(self._client, AGENT_TOOLS) as tools,
                _listening(self._grants, tools, listener),
            ):
                yield self._port


@asynccontextmanager
async def _listening(grants: Grants, tools: Application, listener: socket.socket) -> AsyncIterator[None]:
    """Run uvicorn without its own loop, which would handle the worker's signals and wake up ten times a second."""
    from ao_runner.connections import BoundedConfig, BoundedServer, Bounds, fitting_connections

    for name in _LOGGERS:
        # A worker's log has one form, and errors of requests are in the responses.
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    door = Door(grants, tools)
    config = BoundedConfig(door, Bounds(fitting_connections(MOST_CONNECTIONS)), GOODBYE_SECONDS)
    config.load()
    server = BoundedServer(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup(sockets=[listener])
    try:
        yield
    finally:
        door.dismiss()
        server.force_exit = True
        await server.shutdown()

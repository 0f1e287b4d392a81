"""Who may call the tools: an ASGI application in front of the MCP server. What it refuses never reaches MCP."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from ao_protocol.wire import JsonObject
from ao_runner.orchestrator.grants import Grants
from ao_runner.orchestrator.tools import Caller

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

SESSION_HEADER: Final = "x-agent-session-id"
TAGS_HEADER: Final = "x-agent-tags"
DEMANDS_HEADER: Final = "x-additional-demands"
CALLER: Final = "ao.caller"
"""Where in the ASGI scope the MCP server finds the `Caller`."""
MAX_BODY_BYTES: Final = 1024 * 1024
BODY_SECONDS: Final = 20.0
"""For the whole body of a request, which comes from this machine."""
MOST_CALLS_OF_A_SESSION: Final = 32
"""At once. A call that waits for a run has a connection, of which other runs need theirs."""
_OURS: Final = ("127.0.0.1", "localhost")


@dataclass(eq=False)
class _Refused(Exception):
    status: HTTPStatus
    reason: str


class Door:
    """Lets requests through that bear a valid token: `POST /TOKEN/mcp`. A GET is refused: no event goes that way.

    A foreign `Host` or `Origin` is refused because a page in a browser could reach the port through a name of its own
    (DNS rebinding). `port` is set as soon as it is known.
    """

    def __init__(self, grants: Grants, inside: Application) -> None:
        self.port = 0
        self._grants = grants
        self._inside = inside
        self._calls: Counter[str] = Counter()
        self._waiting: set[asyncio.Event] = set()

    def dismiss(self) -> None:
        """Tell all calls that nobody waits for their answers any more."""
        for gone in self._waiting:
            gone.set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            caller = self._admitted(scope)
            body = await _body_of(receive)
        except _Refused as refusal:
            await _answer(send, refusal)
            return
        if body is not None:
            await self._let_in(caller, scope, _Replay(body, receive, caller.gone), send)

    async def _let_in(self, caller: Caller, scope: Message, receive: Receive, send: Send) -> None:
        self._calls[caller.session_id] += 1
        self._waiting.add(caller.gone)
        try:
            # Without the token, so that it is in nothing that is said about the request.
            without_token = {**scope, "path": "/mcp", "raw_path": b"/mcp", CALLER: caller}
            await self._inside(without_token, receive, send)
        finally:
            self._waiting.discard(caller.gone)
            self._calls[caller.session_id] -= 1
            self._calls += Counter()  # without those that have none

    def _admitted(self, scope: Message) -> Caller:
        headers = _headers(scope["headers"])
        if headers.get("host") not in {f"{host}:{self.port}" for host in _OURS}:
            raise _Refused(HTTPStatus.FORBIDDEN, "foreign Host")
        if headers.get("origin", f"http://{_OURS[0]}:{self.port}") not in {
            f"http://{host}:{self.port}" for host in _OURS
        }:
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


class _Replay:
    """Gives a body that was read already, then what comes: that the client has gone."""

    def __init__(self, body: bytes, receive: Receive, gone: asyncio.Event) -> None:
        self._body: bytes | None = body
        self._receive = receive
        self._gone = gone

    async def __call__(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._gone.set()
        return message


async def _body_of(receive: Receive) -> bytes | None:
    """Return the whole body, or None where the client went before its end."""
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


async def _answer(send: Send, refusal: _Refused) -> None:
    body = json.dumps({"error": refusal.reason}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST"))
    if refusal.status in {HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.REQUEST_TIMEOUT}:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers by lower-case name. One that is there twice is joined, and so is none of those expected."""
    found: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _demands(text: str) -> JsonObject:
    """Return what a child's runner must have; what is no object of JSON is left out, as the existing runner does."""
    try:
        demands = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return demands if isinstance(demands, dict) else {}

"""The stand-in as an HTTP server on a port of its own, which misbehaves when it is told to."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from tests.foreign_coordinator.bodies import Reply
from tests.foreign_coordinator.faults import DOWN, Fault
from tests.foreign_coordinator.state import State


@dataclass
class Planned:
    """A fault that the next so many requests meet whose `METHOD path` matches."""

    pattern: re.Pattern[str]
    fault: Fault
    times: int


@dataclass
class ForeignCoordinator:
    """A `with` block owns it. It serves from the loop that entered it; what it keeps is in `state`."""

    state: State = field(default_factory=State)
    token: str | None = None
    port: int = 0
    requests: list[str] = field(default_factory=list)
    """Every request that came, as `METHOD path`."""
    on_request: Callable[[str], None] = lambda _: None
    _planned: list[Planned] = field(default_factory=list)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def misbehave(self, fault: Fault, requests: str = "", times: int = 1) -> None:
        """Let the next requests that match a regular expression meet a fault."""
        self._planned.append(Planned(re.compile(requests), fault, times))

    def behave(self) -> None:
        """Let no further request meet a fault."""
        self._planned.clear()

    def count(self, requests: str) -> int:
        """Say how many requests came that match a regular expression."""
        return sum(1 for request in self.requests if re.search(requests, request))

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.split("\r\n", 1)[0].split(" ")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
        }
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        parts = urlsplit(target)
        request = f"{method} {parts.path}"
        self.requests.append(request)
        self.on_request(request)

        async def perform() -> Reply:
            if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
                return 401, {"detail": "invalid token"}
            path = [unquote(part) for part in parts.path.strip("/").split("/")]
            return await self.state.answer(method, path, parts.query, json.loads(body or b"{}"))

        return await self._reply(self._fault(request), perform, writer)

    def _fault(self, request: str) -> Fault | None:
        for planned in self._planned:
            if planned.times and planned.pattern.search(request):
                planned.times -= 1
                return planned.fault
        return None

    async def _reply(
        self, fault: Fault | None, perform: Callable[[], Awaitable[Reply]], writer: asyncio.StreamWriter
    ) -> bool:
        if fault == DOWN:
            return False
        if fault is not None and fault.kind == "never_answer":
            await asyncio.Event().wait()
        if fault is not None and fault.kind == "answer":
            writer.write(_response(fault.status, fault.body, fault.headers))
            return True
        status, document = await perform()
        if fault is not None:
            return False
        writer.write(_response(status, _encoded(document), ()))
        return True


def _encoded(document: Any) -> bytes:
    if document is None or isinstance(document, bytes):
        return document or b""
    return json.dumps(document).encode()


def _response(status: int, body: bytes, headers: tuple[str, ...]) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body

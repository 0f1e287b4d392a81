"""`POST /mcp`: the tools with which agents start agents, for any MCP client. They use the API of this server."""

import asyncio
import importlib
import json
from typing import Final

import httpx
from fastapi import FastAPI
from starlette.routing import Route

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.transport import ServerReply, understood
from ao_runner.orchestrator.coordinator_client import CoordinatorClient
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
from ao_runner.orchestrator.tools import TOOLS
from ao_server.gate import with_whole_segments

PLACE: Final = "ao serve"
_OF_JSON: Final = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
MOST_WAITING: Final = 10_000
"""The calls that wait for a run at a time. Each is a task of this process and no connection."""


class McpEndpoint:
    """The route, and the task that serves it from its first request on, since few servers need the MCP SDK.

    A caller has no session: runs that it starts have no parent.

    Args:
        closing: Set when the server stops: calls that wait have to end then.
    """

    def __init__(self, closing: asyncio.Event) -> None:
        self.route = Route("/mcp", self, methods=["POST"], include_in_schema=False)
        self._closing = closing
        self._wanted = asyncio.Event()
        self._ready = asyncio.Event()
        self._inside: Application

    async def serve(self, app: FastAPI) -> None:
        """Serve the tools, which use the API of an application, until the task is cancelled."""
        await self._wanted.wait()
        for name in SDK_MODULES:
            await asyncio.to_thread(importlib.import_module, name)
        client = CoordinatorClient(_OwnApi(app), held=asyncio.Semaphore(MOST_WAITING))
        async with over_http(client, TOOLS) as self._inside:
            self._ready.set()
            await asyncio.Event().wait()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """ServerReply one request."""
        self._wanted.set()
        await self._ready.wait()
        caller = caller_from(headers_of(scope), session_id=None)

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                caller.gone.set()
            return message

        async def dismiss() -> None:
            await self._closing.wait()
            caller.gone.set()

        async with asyncio.TaskGroup() as tasks:
            leaving = tasks.create_task(dismiss())
            await self._inside({**scope, CALLER: caller}, watched, send)
            leaving.cancel()


class _OwnApi:
    """The API of this server, asked without a connection."""

    def __init__(self, app: FastAPI) -> None:
        async def behind_gate(scope: Message, receive: Receive, send: Send) -> None:
            await app(with_whole_segments(scope), receive, send)

        transport = httpx.ASGITransport(behind_gate, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost", trust_env=False)

    async def ask(
        self, method: str, path: str, document: JsonObject | None = None, seconds: float | None = None
    ) -> ServerReply:
        """Return the response. Nothing bounds its time: it comes from this process."""
        # Not with httpx's own JSON, which cannot write what the API is to refuse.
        body = None if document is None else json.dumps(document)
        response = await self._client.request(method, path, content=body, headers=_OF_JSON)
        return understood(PLACE, response.status_code, response.headers, response.content)

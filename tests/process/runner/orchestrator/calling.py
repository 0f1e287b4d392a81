"""Agents that call the tools: directly, or with the real MCP client at the server of a worker."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import httpx2
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

from ao_runner.coordinators.http.transport import Exchange, Timing
from ao_runner.orchestrator.coordinator_client import CoordinatorClient, Timeouts, ToolRefused
from ao_runner.orchestrator.serving import OrchestratorServer
from ao_runner.orchestrator.tools import TOOLS, Caller
from tests.process.runner.orchestrator.small_coordinator import SmallCoordinator

QUICK = Timeouts(first_pause_seconds=0.01, longest_pause_seconds=0.02, sync_seconds=10)
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def play(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(100):
            await story

    asyncio.run(bounded())


@asynccontextmanager
async def hosted(
    coordinator: SmallCoordinator, timeouts: Timeouts = QUICK, port: int = 0
) -> AsyncIterator[OrchestratorServer]:
    server = OrchestratorServer(coordinator.url, {"AO_COORDINATOR_TOKEN": "s3cret-token"}, timeouts=timeouts)
    async with server.served(port):
        yield server


@asynccontextmanager
async def client_at(url: str, headers: Mapping[str, str] = NO_HEADERS) -> AsyncIterator[ClientSession]:
    async with (
        # There is no TLS on the loopback; a server on a busy machine may be slow to start a thread.
        httpx2.AsyncClient(headers=headers, verify=False, timeout=100) as http,
        streamable_http_client(url, http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def mcp_agent(
    coordinator: SmallCoordinator, headers: Mapping[str, str] = NO_HEADERS
) -> AsyncIterator[ClientSession]:
    """An agent's client, in the session `ses_me`."""
    async with (
        coordinator.serving(),
        hosted(coordinator) as server,
        client_at(server.grant("run_me", "ses_me")[0], headers) as session,
    ):
        yield session


@dataclass
class Agent:
    """An agent in the session `ses_me`, or a client without a session, that calls tools without MCP."""

    client: CoordinatorClient
    session_id: str | None = "ses_me"
    demands: dict[str, Any] = field(default_factory=dict)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, tool: str, **arguments: Any) -> Any:
        caller = Caller(self.session_id, None, self.demands, self.gone)
        (found,) = (one for one in TOOLS if one.name == tool)
        try:
            return await found.answer(self.client, caller, arguments)
        except ToolRefused as refusal:
            return {"error": str(refusal), **refusal.details}


def with_agent(
    story: Callable[[Agent], Coroutine[Any, Any, None]], coordinator: SmallCoordinator, timeouts: Timeouts = QUICK
) -> None:
    async def whole() -> None:
        async with coordinator.serving(), Exchange(coordinator.url, None, Timing()) as exchange:
            coordinator.add("ses_me", status="running")
            await story(Agent(CoordinatorClient(exchange, timeouts)))

    play(whole())


async def told(session: ClientSession, tool: str, **arguments: Any) -> Any:
    """Return what a tool says: the document of its only text."""
    result = await session.call_tool(tool, arguments)
    (block,) = result.content
    assert block.type == "text"
    return json.loads(block.text)

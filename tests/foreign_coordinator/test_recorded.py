"""The simulated server answers as the real one did: statuses and shapes, and errors word for word."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import httpx
import pytest

from tests.foreign_coordinator.recording import Names, load
from tests.foreign_coordinator.server import ForeignCoordinator
from tests.foreign_coordinator.state import State

Exchange = dict[str, Any]
EXCHANGES: Final[list[Exchange]] = load()["exchanges"]
CONFIGURED: Final = ("/mcp-servers", "/scripts", "/agents")
"""What the administrator of a server changes. That is no part of the contract: the state has it at once."""


def flat(exchanges: list[Exchange]) -> Iterator[Exchange]:
    for exchange in exchanges:
        yield from flat(exchange.get("meanwhile", []))
        yield exchange


def shape(value: Any) -> Any:
    """Return the names and types of a document; those of any text and number that may differ."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value]
    return value if isinstance(value, bool) else type(value).__name__


def comparable(status: int, body: Any) -> tuple[int, Any]:
    """Return what has to be the same: the status, all of an error, and the shape of anything else."""
    if isinstance(body, dict) and (names := body.get("sync_scripts")):
        return status, sorted(set(names) - {"hello_world", "json_checker", "current-working-directory"})
    return status, body if status >= 400 else with_states(body, shape(body))


def with_states(body: Any, shaped: Any) -> Any:
    """Put the values back that a runner acts upon: states, demands, prompts, blueprints."""
    for name in ("run", "session"):
        if isinstance(body, dict) and isinstance(body.get(name), dict):
            return {**shaped, name: with_states(body[name], shaped[name])}
    kept = ("status", "type", "demands", "parameters", "project_dir", "resolved_agent_blueprint", "message")
    if isinstance(body, dict):
        shaped |= {name: body[name] for name in kept if name in body}
    return shaped


class Replay:
    """Makes the recorded calls to the simulated server."""

    def __init__(self, server: ForeignCoordinator, http: httpx.AsyncClient) -> None:
        self._server, self._http, self._names = server, http, Names()
        self.answers: dict[int, tuple[int, Any]] = {}

    async def play(self, exchanges: list[Exchange]) -> None:
        for exchange in exchanges:
            if not self._configure(exchange):
                await self._ask(exchange)

    async def _ask(self, exchange: Exchange) -> None:
        request = self._names.fill(exchange["request"])
        body = {} if request["body"] is None else {"json": request["body"]}
        asking = asyncio.create_task(self._http.request(request["method"], request["path"], **body))
        if "meanwhile" in exchange:
            polled = asyncio.Event()
            self._server.on_request = lambda _: polled.set()
            await polled.wait()
            await self.play(exchange["meanwhile"])
        response = await asking
        is_json = response.content[:1] in {b"{", b"["}
        if is_json and response.is_success:
            self._names.keep(exchange.get("keeps", {}), response.json())
        self.answers[id(exchange)] = response.status_code, self._names.cover(response.json()) if is_json else None

    def _configure(self, exchange: Exchange) -> bool:
        state, request, body = self._server.state, exchange["request"], exchange["answer"]["body"]
        if request["method"] == "GET" or not request["path"].startswith(CONFIGURED):
            return False
        match request["path"].split("/")[1:], request["method"]:
            case ["mcp-servers"], _:
                state.mcp_servers[body["id"]] = body
            case ["scripts", name], "DELETE":
                state.remove_script(name)
            case ["scripts", *_], _:
                state.keep_script(body)
        return True


async def replayed() -> Replay:
    async with asyncio.timeout(100), ForeignCoordinator(State(poll_seconds=1, heartbeat_seconds=60)) as server:
        (agents,) = (exchange for exchange in EXCHANGES if exchange["name"] == "agents")
        server.state.agents = {agent["name"]: agent for agent in agents["answer"]["body"]}
        async with httpx.AsyncClient(base_url=server.url) as http:
            replay = Replay(server, http)
            await replay.play(EXCHANGES)
            return replay


@pytest.fixture(scope="module")
def answers() -> dict[int, tuple[int, Any]]:
    return asyncio.run(replayed()).answers


@pytest.mark.parametrize("exchange", list(flat(EXCHANGES)), ids=lambda exchange: exchange["name"])
def test_the_simulated_server_answers_as_the_real_one(exchange: Exchange, answers: dict[int, tuple[int, Any]]) -> None:
    if id(exchange) not in answers:
        assert exchange["request"]["path"].startswith(CONFIGURED)
        return
    recorded = exchange["answer"]
    assert comparable(*answers[id(exchange)]) == comparable(recorded["status"], recorded["body"])


def test_a_session_is_wrapped_and_mcp_servers_have_no_type() -> None:
    by_name = {exchange["name"]: exchange["answer"]["body"] for exchange in EXCHANGES}
    assert list(by_name["session of 1 while it is idle"]) == ["session"]
    servers = by_name["poll with MCP servers"]["run"]["resolved_agent_blueprint"]["mcp_servers"]
    assert {name: sorted(server) for name, server in servers.items()} == {
        "shelf": ["config", "url"],
        "tools": ["config", "url"],
    }


def test_the_file_says_of_whom_it_was_recorded() -> None:
    document = json.loads(json.dumps(load()))
    assert document["repository"] == "https://github.com/rawe/claude-agent-orchestrator"
    assert len(document["commit"]) == 40

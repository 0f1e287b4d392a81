"""The server of a worker: what the real MCP client gets from it, and whom it refuses."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from mcp.client.client import Client

from ao_runner.orchestrator.coordinator_client import Timeouts
from ao_runner.orchestrator.serving import MOST_CONNECTIONS, CannotHost, OrchestratorServer
from tests.process.runner.orchestrator.calling import client_at, hosted, mcp_agent, play, told
from tests.process.runner.orchestrator.small_coordinator import SmallCoordinator

PARAMETERS = {"title": "Parameters", "type": "object", "additionalProperties": True}
SESSION_ID = {"title": "Session Id", "type": "string"}
MODE = {"title": "Mode", "type": "string", "default": "sync"}
OPTIONAL = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
ARGUMENTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "list_agent_blueprints": ({}, []),
    "list_agent_sessions": ({}, []),
    "start_agent_session": (
        {
            "parameters": PARAMETERS,
            "agent_name": {**OPTIONAL, "title": "Agent Name"},
            "project_dir": {**OPTIONAL, "title": "Project Dir"},
            "mode": MODE,
        },
        ["parameters"],
    ),
    "resume_agent_session": (
        {"session_id": SESSION_ID, "parameters": PARAMETERS, "mode": MODE},
        ["session_id", "parameters"],
    ),
    "get_agent_session_status": ({"session_id": SESSION_ID}, ["session_id"]),
    "get_agent_session_result": ({"session_id": SESSION_ID}, ["session_id"]),
    "delete_all_agent_sessions": ({}, []),
}
"""Read from `tools/list` of the existing runner."""
OF_A_RUN = {
    "output_schema", "output_schema_name", "output_schema_options", "no_schema", "keep_rejected", "timeout_seconds",
    "labels", "metadata", "attachments",
}  # fmt: skip
ADDED: dict[str, tuple[set[str], list[str]]] = {
    "start_agent_session": (OF_A_RUN, []),
    "resume_agent_session": (OF_A_RUN, []),
    "stop_agent_session": ({"session_id"}, ["session_id"]),
    "delete_agent_session": ({"session_id"}, ["session_id"]),
    "list_named_schemas": (set(), []),
    "get_named_schema": ({"name"}, ["name"]),
    "list_waiting_requests": (set(), []),
}
"""An agent gets no `answer_waiting_request`: a person answers."""
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_agent_sessions", "arguments": {}}}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def test_the_tools_have_the_names_and_arguments_of_the_existing_runner_and_some_of_their_own() -> None:
    async def story() -> None:
        async with mcp_agent(SmallCoordinator()) as session:
            tools = {tool.name: tool.input_schema for tool in (await session.list_tools()).tools}
        assert tools.keys() == ARGUMENTS.keys() | ADDED.keys()
        for name, schema in tools.items():
            (properties, required), (more, demanded) = ARGUMENTS.get(name, ({}, [])), ADDED.get(name, (set(), []))
            assert schema["properties"].keys() == properties.keys() | more
            for argument, written in properties.items():
                assert schema["properties"][argument] == {**schema["properties"][argument], **written}
            assert {*schema.get("required", [])} == {*required, *demanded}

    play(story())


def test_the_session_is_that_of_the_address_and_the_coordinator_is_asked_with_the_worker_s_token() -> None:
    coordinator = SmallCoordinator()

    async def story() -> None:
        headers = {"X-Agent-Session-Id": "ses_me", "X-Additional-Demands": '{"tags": ["gpu"]}'}
        async with mcp_agent(coordinator, headers) as session:
            answer = await told(session, "start_agent_session", parameters={"prompt": "Hi"})
            assert answer == {"session_id": "ses_new", "result_text": "Done.", "result_data": {"of": "ses_new"}}

    play(story())
    (run,) = coordinator.runs
    assert (run["parent_session_id"], run["additional_demands"]) == ("ses_me", {"tags": ["gpu"]})
    assert coordinator.tokens == {"Bearer s3cret-token"}


def test_clients_of_the_newest_protocol_are_served_too() -> None:
    coordinator = SmallCoordinator()

    async def story() -> None:
        async with (
            coordinator.serving(),
            hosted(coordinator) as server,
            Client(server.grant("run_me", "ses_me")[0], mode="2026-07-28") as client,
        ):
            result = await client.call_tool("get_agent_session_status", {"session_id": "ses_x"})
            assert "not_existent" in str(result.content)

    play(story())


def test_lists_are_a_text_for_each_item_and_structured_as_a_whole() -> None:
    agents: list[dict[str, Any]] = [
        {"name": "a", "status": "active", "tags": ["t"], "parameters_schema": {"type": "object"}, "prompt": "hidden"},
        {"name": "b", "status": "inactive"},
        {"name": "c", "status": "active", "description": "C", "type": "procedural"},
    ]
    shown = [
        {"name": "a", "description": "", "type": "autonomous", "tags": ["t"], "parameters_schema": {"type": "object"}},
        {"name": "c", "description": "C", "type": "procedural", "tags": [], "parameters_schema": None},
    ]
    coordinator = SmallCoordinator(agents=agents)

    async def story() -> None:
        async with mcp_agent(coordinator, {"X-Agent-Tags": "internal,fast"}) as session:
            result = await session.call_tool("list_agent_blueprints", {})
            assert result.structured_content == {"result": shown}
            assert len(result.content) == 2

    play(story())
    assert coordinator.asked == ["GET /agents?tags=internal%2Cfast"]


def test_calls_that_are_none_and_coordinators_that_are_away_are_told() -> None:
    async def story() -> None:
        coordinator = SmallCoordinator(url="http://127.0.0.1:9")
        async with hosted(coordinator) as server, client_at(server.grant("run_me", "ses_me")[0]) as session:
            result = await session.call_tool("start_agent_session", {})
            assert result.is_error
            assert '$: "parameters" is a required property' in str(result.content)
            result = await session.call_tool("delete_everything", {})
            assert result.is_error
            assert "Unknown tool: delete_everything" in str(result.content)
            answer = await told(session, "list_agent_sessions")
            assert "coordinator http://127.0.0.1:9 is not available" in answer["error"]

    play(story())


def test_a_client_that_goes_away_ends_the_wait_for_its_child() -> None:
    coordinator = SmallCoordinator(asks_until_end=1_000_000)

    async def call(url: str) -> None:
        async with client_at(url) as session:
            await told(session, "start_agent_session", parameters={"prompt": "Hi"})

    async def story() -> None:
        timeouts = Timeouts(first_pause_seconds=0.01, longest_pause_seconds=0.01)
        async with coordinator.serving(), hosted(coordinator, timeouts) as server:
            calling = asyncio.create_task(call(server.grant("run_me", "ses_me")[0]))
            await coordinator.until(lambda: "GET /runs/run_new?wait=25" in coordinator.asked)
            calling.cancel()
            await asyncio.wait({calling})
            await coordinator.until_quiet(0.1)

    play(story())


@pytest.mark.parametrize(
    ("method", "headers", "body", "status"),
    [
        pytest.param("POST", {}, CALL, 200, id="a call"),
        pytest.param("POST", {"X-Agent-Session-Id": "ses_me"}, CALL, 200, id="its own session"),
        pytest.param("POST", {"X-Agent-Session-Id": "ses_other"}, CALL, 403, id="another session"),
        pytest.param("POST", {"Host": "evil.example"}, CALL, 403, id="a foreign host"),
        pytest.param("POST", {"Origin": "http://evil.example"}, CALL, 403, id="a foreign origin"),
        pytest.param("GET", {}, None, 405, id="a stream of events"),
        pytest.param("DELETE", {}, None, 405, id="the end of a session"),
        pytest.param("POST", {}, {"pad": "x" * 1024 * 1024}, 413, id="a long body"),
        pytest.param("POST", {}, "no message", 400, id="no message"),
    ],
)
def test_requests_are_answered_by_who_sends_them(method: str, headers: dict[str, str], body: Any, status: int) -> None:
    coordinator = SmallCoordinator()

    async def story() -> None:
        async with coordinator.serving(), hosted(coordinator) as server, httpx.AsyncClient(verify=False) as http:  # noqa: S501
            url = server.grant("run_me", "ses_me")[0]
            answer = await http.request(method, url, headers=ACCEPT | headers, json=body)
            assert answer.status_code == status

    play(story())
    assert len(coordinator.asked) == (status == 200)


def test_connections_that_ask_nothing_lock_out_no_agent() -> None:
    async def story() -> None:
        coordinator = SmallCoordinator()
        async with coordinator.serving(), hosted(coordinator) as server, AsyncExitStack() as stack:
            url = server.grant("run_me", "ses_me")[0]
            silent = []
            for _ in range(MOST_CONNECTIONS + 20):
                reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)
                stack.callback(writer.close)
                writer.write(b"P")
                silent.append(asyncio.ensure_future(reader.read()))
            async with httpx.AsyncClient(verify=False) as http:  # noqa: S501
                assert (await http.post(url, headers=ACCEPT, json=CALL)).status_code == 200
            while sum(one.done() for one in silent) < 20:
                await asyncio.wait([one for one in silent if not one.done()], return_when=asyncio.FIRST_COMPLETED)
            for one in silent:
                one.cancel()
            await asyncio.gather(*silent, return_exceptions=True)

    play(story())


def test_an_address_is_valid_until_its_run_ends_and_for_nobody_else() -> None:
    async def story() -> None:
        coordinator = SmallCoordinator()
        async with coordinator.serving(), hosted(coordinator) as server, httpx.AsyncClient(verify=False) as http:  # noqa: S501

            async def status(url: str) -> int:
                return (await http.post(url, headers=ACCEPT, json=CALL)).status_code

            url, token = server.grant("run_me", "ses_me")
            assert await status(url) == 200
            assert await status(url.replace(token, "")) == 404
            assert await status(url.replace(token, "x" * len(token))) == 404
            assert await status(f"{url}/more") == 404
            server.revoke("run_me")
            assert await status(url) == 404

    play(story())


def test_a_port_that_somebody_else_has_is_told() -> None:
    async def story() -> None:
        coordinator = SmallCoordinator()
        async with OrchestratorServer("http://127.0.0.1:9", {}).served() as port:
            with pytest.raises(CannotHost, match=f"port {port}: Address already in use"):
                async with hosted(coordinator, port=port):
                    pass

    play(story())

"""The MCP server, asked by the official client over both transports."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from shutil import which
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from ao_runner.coordinators.http.transport import Exchange, Timing
from ao_runner.orchestrator.coordinator_client import CoordinatorClient
from ao_runner.orchestrator.tools import MODES, TOOLS
from ao_runner.store.opening import StorePlace
from ao_runner.store.records import Session, timestamp
from tests.process.runner.orchestrator.calling import client_at, told
from tests.process.server.conftest import BOUND_SECONDS, Serve, Served, wait_for
from tests.process.server.test_inputs import INPUT, runs_that_ask

Connect = Callable[[str, str | None], AbstractAsyncContextManager[ClientSession]]

REVIEWER = {
    "name": "reviewer",
    "profile": "scripted",
    "executor_config": {"script": {"answers": [{"text": "Fine."}, {"json": {"grade": 2}}, {"text": "Yes."}]}},
}
WAITING = {"name": "waiting", "profile": "scripted", "executor_config": {"script": {"answers": [{"fault": "hang"}]}}}
GRADE = {"type": "object", "required": ["grade"], "properties": {"grade": {"type": "integer"}}}
HI = {"prompt": "Hi"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def over_http(url: str, token: str | None = None) -> AbstractAsyncContextManager[ClientSession]:
    return client_at(f"{url}/mcp", {} if token is None else {"Authorization": f"Bearer {token}"})


@asynccontextmanager
async def over_stdio(url: str, token: str | None = None) -> AsyncIterator[ClientSession]:
    variables = {"AO_SERVER": url, "AO_SERVER_TOKEN": token or "", "NO_PROXY": "*"}
    program = StdioServerParameters(command=sys.executable, args=["-m", "ao_runner", "mcp"], env=variables)
    async with stdio_client(program) as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        yield session


async def structured(session: ClientSession, tool: str, **arguments: Any) -> Any:
    """Return the structured result, which the client has validated against the tool's output schema."""
    result = await session.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content.get("result", result.structured_content)


TRANSPORTS = pytest.mark.parametrize("connect", [over_http, over_stdio])


@pytest.fixture
def server(share: Serve) -> Served:
    """A server with a worker, an agent that answers and one that does not."""
    one = share()
    one.add_agent(REVIEWER)
    one.add_agent(WAITING)
    return one


async def until_status(server: Served, session_id: str, status: str) -> None:
    path = f"/sessions/{session_id}/status"
    await asyncio.to_thread(wait_for, lambda: server.client.get(path).json()["status"] == status)


@TRANSPORTS
async def test_a_client_lists_starts_and_resumes_agents_under_contracts(server: Served, connect: Connect) -> None:
    async with connect(server.url, None) as session:
        agents = await session.call_tool("list_agent_blueprints", {})
        assert agents.structured_content is not None
        assert [agent["name"] for agent in agents.structured_content["result"]] == ["reviewer", "waiting"]
        start = {"agent_name": "reviewer", "parameters": HI, "output_schema": GRADE}
        answer = await told(session, "start_agent_session", **start)
        assert (answer["validated_output"], answer["schema_validation"]["retry_count"]) == ({"grade": 2}, 1)
        session_id = answer["session_id"]
        assert await told(session, "get_agent_session_result", session_id=session_id) == answer
        resumed = await told(session, "resume_agent_session", session_id=session_id, parameters=HI)
        assert resumed == {"session_id": session_id, "result_text": "Yes.", "result_data": None}
        assert answer["result_text"] is None


@TRANSPORTS
async def test_a_client_starts_an_agent_without_waiting_and_stops_it(server: Served, connect: Connect) -> None:
    async with connect(server.url, None) as session:
        start = {"agent_name": "waiting", "parameters": HI, "mode": "async_poll"}
        session_id = (await told(session, "start_agent_session", **start))["session_id"]
        await until_status(server, session_id, "running")
        stopped = await told(session, "stop_agent_session", session_id=session_id)
        assert stopped == {"session_id": session_id, "status": "stopping"}
        await until_status(server, session_id, "stopped")
        result = await told(session, "get_agent_session_result", session_id=session_id)
        assert result == {"error": f"Session not finished: {session_id} (status: stopped)"}


REFUSED: dict[str, dict[str, Any]] = {
    "404: Agent not found: nobody": {"agent_name": "nobody"},
    "output_schema is not an acceptable JSON Schema": {"output_schema": {"type": "text"}},
    "there is no schema 'none'": {"output_schema_name": "none"},
    "$.output_schema_options.retries: is not known": {"output_schema": {}, "output_schema_options": {"retries": 1}},
    "this client has no session": {"mode": "async_callback"},
}


async def test_what_cannot_be_started_is_told_and_queues_nothing(share: Serve) -> None:
    server = share("--no-worker")
    async with over_http(server.url) as session:
        for reason, arguments in REFUSED.items():
            result = await session.call_tool("start_agent_session", {"parameters": HI, **arguments})
            assert result.is_error
            (block,) = result.content
            assert block.type == "text"
            assert reason in json.loads(block.text)["error"]
        tools = {tool.name: tool.model_dump() for tool in (await session.list_tools()).tools}
    assert tools["list_agent_sessions"]["annotations"]["read_only_hint"]
    assert tools["delete_all_agent_sessions"]["annotations"]["destructive_hint"]
    assert tools["start_agent_session"]["input_schema"]["properties"]["mode"]["enum"] == list(MODES)
    assert server.client.get("/runs").json()["runs"] == []


async def test_a_client_reads_schemas_and_answers_a_request_in_the_name_of_a_person(share: Serve) -> None:
    server = share("--no-worker")
    server.client.post("/schemas", json={"name": "grade", "schema": GRADE}).raise_for_status()
    with runs_that_ask(server.home) as asking:
        asking("run_1", request_id="call/1%2F")
        async with over_http(server.url) as session:
            (listed,) = await structured(session, "list_named_schemas")
            assert listed["name"] == "grade"
            assert (await structured(session, "get_named_schema", name="grade"))["schema"] == GRADE
            (request,) = await structured(session, "list_waiting_requests")
            assert (request["title"], request["tool_input"]) == ("May Bash <b>run</b>?", INPUT)
            answer = {"run_id": "run_1", "request_id": request["request_id"]}
            wrong = await session.call_tool("answer_waiting_request", {**answer, "option_id": "maybe"})
            assert wrong.is_error
            assert "expected one of allow, deny" in str(wrong.content)
            assert (await structured(session, "answer_waiting_request", **answer, option_id="deny")) == {
                "request_id": "call/1%2F", "outcome": "declined", "next_run_id": None,
            }  # fmt: skip
            assert await structured(session, "list_waiting_requests") == []
            deleted = await session.call_tool("delete_agent_session", {"session_id": "ses_none"})
            assert deleted.is_error


async def test_every_tool_describes_its_parameters_and_its_result(share: Serve) -> None:
    server = share("--no-worker")
    async with over_http(server.url) as session:
        tools = (await session.list_tools()).tools
    assert {tool.name for tool in tools} == {tool.name for tool in TOOLS}
    for tool in tools:
        assert tool.annotations is not None
        assert tool.output_schema is not None
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert all(one.get("description") for one in tool.input_schema["properties"].values()), tool.name
        assert tool.output_schema["type"] == "object"
    (start,) = (tool.input_schema["properties"] for tool in tools if tool.name == "start_agent_session")
    assert start["output_schema_options"]["properties"]["validation_mode"]["enum"] == ["strict", "lenient"]


OTHER_CLIENTS = {
    "mcp-inspector": "the TypeScript SDK: npm install -g @modelcontextprotocol/inspector",
    "fastmcp": "pipx install fastmcp",
}


def arguments_of(client: str, url: str, tool: str | None, arguments: dict[str, Any]) -> list[str]:
    """Return the command line with which a client lists the tools, or calls one."""
    if client == "fastmcp":
        called = ["list", url] if tool is None else ["call", url, tool, "--input-json", json.dumps(arguments)]
        return [*called, "--json"]
    called = ["tools/list"] if tool is None else ["tools/call", "--tool-name", tool]
    for name, one in arguments.items():
        called += ["--tool-arg", f"{name}={one if isinstance(one, str) else json.dumps(one)}"]
    return ["--cli", url, "--transport", "http", "--method", *called]


@pytest.mark.slow
@pytest.mark.parametrize("client", OTHER_CLIENTS)
def test_other_clients_than_the_official_one_use_the_tools(share: Serve, tmp_path: Path, client: str) -> None:
    if (program := which(client)) is None:
        pytest.skip(f"the MCP client {client} is not on PATH; {OTHER_CLIENTS[client]}")
    server = share()
    server.add_agent(REVIEWER)

    def call(tool: str | None, **arguments: Any) -> dict[str, Any]:
        argv = [program, *arguments_of(client, f"{server.url}/mcp", tool, arguments)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=BOUND_SECONDS, cwd=tmp_path, check=False)
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    assert {tool["name"] for tool in call(None)["tools"]} == {tool.name for tool in TOOLS}
    answer = call("start_agent_session", agent_name="reviewer", parameters=HI, output_schema=GRADE)
    structured = answer.get("structuredContent") or answer["structured_content"]
    assert structured["validated_output"] == {"grade": 2}
    refused = call("start_agent_session", agent_name="nobody", parameters=HI)
    assert refused.get("isError") or refused["is_error"]
    assert "Agent not found: nobody" in refused["content"][0]["text"]


@TRANSPORTS
async def test_a_server_with_tokens_serves_its_clients(share: Serve, connect: Connect) -> None:
    server = share("--token", "--no-worker")
    tokens = json.loads((server.home / "server" / "tokens.json").read_text())
    async with connect(server.url, tokens["client"]) as session:
        assert not (await session.call_tool("list_agent_sessions", {})).is_error
    for role, status in ((None, 401), ("reader", 403), ("worker", 403), ("client", 200)):
        headers = ACCEPT if role is None else {**ACCEPT, "Authorization": f"Bearer {tokens[role]}"}
        assert server.client.post("/mcp", json=LIST, headers=headers).status_code == status


def test_only_calls_of_this_machine_are_answered(share: Serve) -> None:
    server = share("--no-worker")
    for method, headers, status in (
        ("POST", {}, 200),
        ("POST", {"Origin": "http://evil.example"}, 403),
        ("POST", {"Host": "evil.example"}, 403),
        ("GET", {}, 405),
    ):
        answer = server.client.request(method, "/mcp", json=LIST, headers=ACCEPT | headers)
        assert answer.status_code == status


def test_a_server_that_stops_ends_the_calls_that_wait(serve: Serve) -> None:
    server = serve("--no-worker")
    server.add_agent(REVIEWER)
    start = {"name": "start_agent_session", "arguments": {"agent_name": "reviewer", "parameters": HI}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": start}
    with ThreadPoolExecutor(1) as pool:  # not the official client: it asks the server that stops for more
        calling = pool.submit(server.client.post, "/mcp", json=call, headers=ACCEPT)
        wait_for(lambda: server.client.get("/runs").json()["runs"])
        server.process.send_signal(signal.SIGTERM)
        answer = calling.result().text
    assert "nobody waits for the answer any more" in answer
    server.process.wait(BOUND_SECONDS)


async def test_the_status_of_a_run_is_held_back_until_its_end(server: Served) -> None:
    run_id = server.start("waiting", HI)["run_id"]
    async with httpx.AsyncClient(base_url=server.url, timeout=BOUND_SECONDS, trust_env=False) as http:
        assert (await http.get(f"/runs/{run_id}?wait=0.1")).json()["completed_at"] is None
        assert (await http.get(f"/runs/{run_id}?wait=100ms")).json()["completed_at"] is None
        assert "expected a duration: seconds as a number" in (await http.get(f"/runs/{run_id}?wait=1x")).text
        held = asyncio.create_task(http.get(f"/runs/{run_id}?wait=30"))
        assert (await http.post(f"/runs/{run_id}/stop")).status_code == 200
        assert (await held).json()["status"] == "stopped"
        assert (await http.get(f"/runs/{run_id}?wait=31")).status_code == 422


@pytest.mark.parametrize("ends_by", [None, signal.SIGINT], ids=["end of stdin", "ctrl-c"])
def test_the_program_for_stdio_ends_with_its_client(ends_by: signal.Signals | None) -> None:
    argv = [sys.executable, "-m", "ao_runner", "mcp"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(json.dumps({**LIST, "method": "ping"}).encode() + b"\n")
        program.stdin.flush()
        assert json.loads(program.stdout.readline())["id"] == 1
        if ends_by is None:
            program.stdin.close()
        else:
            program.send_signal(ends_by)
        assert program.wait(BOUND_SECONDS) == (0 if ends_by is None else -ends_by)


async def test_the_descendants_of_a_session_are_found_however_many_there_are(serve: Serve, place: StorePlace) -> None:
    server = serve("--no-worker", home=place.home / "home", store=place.url)
    with StorePlace(server.home, place.url).open() as store, store.transaction():
        for number in range(450):
            parent = "ses_top" if number else None
            name = f"ses_{number}" if number else "ses_top"
            store.sessions.add(Session(name, timestamp(), "echo", "echo", "/", {"name": "a"}, parent_session_id=parent))
    async with Exchange(server.url, None, Timing()) as exchange:
        found = await CoordinatorClient(exchange).descendants("ses_top")
    assert sorted(found) == sorted(f"ses_{number}" for number in range(1, 450))

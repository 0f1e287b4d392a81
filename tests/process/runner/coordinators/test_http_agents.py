"""Agents of the REST contract: blueprints of resumes, scripts of the server, and agents of the worker's own."""

import asyncio
import io
import json
import os
import tarfile
import time
from pathlib import Path

import pytest

from ao_runner.coordinators.http.assignments import MAX_TAR_BYTES, UnusableScript, unpack
from ao_runner.coordinators.http.http_coordinator import HttpCoordinator
from ao_runner.coordinators.http.registration import OwnedAgent, RunnerIdentity, UnusableAgent, load_agents
from tests.foreign_coordinator.server import ForeignCoordinator
from tests.process.runner.coordinators.drivers import IDENTITY, QUICK, the_run
from tests.process.runner.coordinators.lines import result

TOOLS = RunnerIdentity("host", "/project", "tools", "procedural", "ao-procedural-exec")
SCRIPT = {
    "name": "greet",
    "description": "",
    "script_file": "greet.sh",
    "script_content": "#!/bin/sh\necho hello\n",
    "parameters_schema": {"type": "object", "required": ["who"]},
}
SERVERS = {"desk": {"ref": "orchestrator", "config": {"X-Tags": "research"}}}
RESOLVED = {
    "desk": {
        "type": "http",
        "required": False,
        "url": "${runner.orchestrator_mcp_url}",
        "headers": {"X-Session": "${runtime.session_id}", "X-Tags": "research"},
    }
}


def worker(server: ForeignCoordinator, folder: Path, identity: RunnerIdentity = IDENTITY) -> HttpCoordinator:
    return HttpCoordinator(server.url, identity, lambda _: None, {}, QUICK, folder=folder)


def offer_desk(server: ForeignCoordinator) -> None:
    """Have the server know an agent with an MCP server of its registry."""
    server.state.mcp_servers["orchestrator"] = {
        "url": "${runner.orchestrator_mcp_url}",
        "default_config": {"X-Session": "${runtime.session_id}"},
    }
    server.state.agents["desk"] = {
        "name": "desk",
        "type": "autonomous",
        "system_prompt": "Ask others.",
        "tags": [],
        "mcp_servers": SERVERS,
    }


async def test_a_resume_keeps_the_blueprint_that_its_session_began_with(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server, worker(server, tmp_path) as coordinator:
        blueprint = {"name": "desk", "system_prompt": "About tea."}
        server.state.enqueue("run_1", "ses_1", agent_name="desk", resolved_agent_blueprint=blueprint)
        first = await the_run(coordinator)
        await coordinator.started(first.key)
        await coordinator.terminal(first.key, 1, result(1))
        server.state.sessions["ses_1"]["executor_session_id"] = "exec_1"
        server.state.enqueue("run_2", "ses_1", type="resume_session", agent_name="desk")

        second = await the_run(coordinator)
        assert second.session.blueprint == first.session.blueprint == blueprint
        assert (first.is_resolved, second.is_resolved) == (True, True)


async def test_a_resume_without_a_blueprint_gets_that_of_its_agent(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server, worker(server, tmp_path) as coordinator:
        offer_desk(server)
        server.state.enqueue("run_1", "ses_1", type="resume_session", agent_name="desk")
        server.state.sessions["ses_1"]["executor_session_id"] = "exec_1"

        assignment = await the_run(coordinator)
        blueprint = assignment.session.blueprint

        assert not assignment.is_resolved
        assert blueprint["system_prompt"] == "Ask others."
        assert blueprint["mcp_servers"] == RESOLVED


async def test_a_run_that_a_dead_workers_poll_claimed_is_performed_by_the_next_worker(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server:
        offer_desk(server)
        _, answer = await server.state.answer("POST", ["runner", "register"], "", IDENTITY.to_document())
        server.state.enqueue("run_1", "ses_1", agent_name="desk")
        query = f"runner_id={answer['runner_id']}"
        await server.state.answer("GET", ["runner", "runs"], query, {})  # its answer reaches nobody
        server.state.forget_runners()

        async with worker(server, tmp_path) as coordinator:
            assignment = await the_run(coordinator)

        assert assignment.key.run_id == "run_1"
        assert assignment.session.blueprint["mcp_servers"] == RESOLVED


async def test_a_worker_takes_the_place_of_one_that_was_killed_at_once(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server:
        dead = worker(server, tmp_path)
        await dead.__aenter__()
        for task in dead._tasks:
            task.cancel()
        await asyncio.wait(dead._tasks)
        await dead._exchange.__aexit__()
        dead._note.__exit__()  # the system releases the lock of a killed process

        async with worker(server, tmp_path):
            assert len(server.state.runners) == 1
        assert server.state.runners == {}


async def test_a_living_worker_is_not_replaced(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server, worker(server, tmp_path):
        with pytest.raises(Exception, match="same identity"):
            await worker(server, tmp_path).__aenter__()
        assert server.count("DELETE") == 0


async def test_a_worker_that_leaves_ends_its_poll_so_that_no_run_is_claimed_for_nobody(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server:
        server.state.poll_seconds = 15
        polled = asyncio.Event()
        server.on_request = lambda request: polled.set() if request == "GET /runner/runs" else None
        async with worker(server, tmp_path):
            await polled.wait()
        server.state.enqueue("run_1", "ses_1")
        async with worker(server, tmp_path) as successor:
            assert (await the_run(successor)).key.run_id == "run_1"


async def test_a_worker_that_leaves_ends_a_poll_whose_connection_broke_too(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server:
        server.state.poll_seconds = 15
        async with worker(server, tmp_path) as coordinator:
            while not server.count("GET /runner/runs"):  # noqa: ASYNC110  # of somebody else's state
                await asyncio.sleep(0.01)
            (runner_id,) = server.state.runners
            orphan = asyncio.ensure_future(server.state.answer("GET", ["runner", "runs"], f"runner_id={runner_id}", {}))
            await asyncio.sleep(0)
            coordinator._polling._lost_until = time.monotonic() + 30
        assert await orphan == (200, {"deregistered": True})
        assert server.state.runners == {}


async def test_a_draining_worker_polls_no_more_and_still_reports_on_its_runs(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server, worker(server, tmp_path) as coordinator:
        server.state.poll_seconds = 15
        server.state.enqueue("run_1", "ses_1")
        key = (await the_run(coordinator)).key
        await coordinator.started(key)
        coordinator.drain()
        await coordinator._polling.has_stopped.wait()
        server.state.enqueue("run_2", "ses_2")
        await coordinator.terminal(key, 1, result(1))
        assert [server.state.runs[f"run_{number}"]["status"] for number in (1, 2)] == ["completed", "pending"]


async def test_a_script_is_fetched_once_and_again_when_the_server_says_that_it_changed(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server, worker(server, tmp_path, TOOLS) as coordinator:
        programs = []
        for number, content in enumerate(["echo 1", "echo 1", "echo 2"]):
            if number != 1:
                server.state.keep_script({**SCRIPT, "script_content": content})
                await coordinator._polling._enrolment.say("/runner/heartbeat")
            server.state.enqueue(
                f"run_{number}",
                f"ses_{number}",
                agent_name="greeter",
                resolved_agent_blueprint={"name": "greeter", "type": "procedural", "script": "greet"},
                demands={"executor_type": "procedural"},
            )
            session = (await the_run(coordinator)).session
            assert session.blueprint["command"] == "greet.sh"
            assert session.blueprint["parameters_schema"] == SCRIPT["parameters_schema"]
            program = Path(str(session.executor_config["commands_dir"])) / "greet.sh"
            assert os.access(program, os.X_OK)
            programs.append(program.read_text())
        assert programs == ["echo 1", "echo 1", "echo 2"]
        assert server.count("GET /scripts/greet/download") == 2


async def test_a_run_whose_script_is_not_there_says_so(tmp_path: Path) -> None:
    async with ForeignCoordinator() as server, worker(server, tmp_path, TOOLS) as coordinator:
        server.state.enqueue(
            "run_1",
            "ses_1",
            resolved_agent_blueprint={"name": "greeter", "type": "procedural", "script": "greet"},
            demands={"executor_type": "procedural"},
        )
        await coordinator.claim(1)
        (end,) = server.state.runs["run_1"]["said"]
        assert end["failed"]["error"] == "dependency_missing: the server has no script 'greet'"


def packed(*members: tuple[str, bytes | None, bytes]) -> bytes:
    """Return an archive of (name, content or None for a link, type)."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content, kind in members:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            entry.size = len(content or b"")
            entry.linkname = "/etc/passwd"
            tar.addfile(entry, io.BytesIO(content or b""))
    return file.getvalue()


def packed_with_a_long_name(length: int) -> bytes:
    """Return an archive that says of one file that its name is so long."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("greet/" + length * "x"))
    return file.getvalue()


META = ("greet/script.json", json.dumps(SCRIPT).encode(), tarfile.REGTYPE)


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (b"not an archive", "cannot be unpacked"),
        (packed(META), "script_file is 'greet.sh'"),
        (packed(("greet/x", b"", tarfile.REGTYPE)), r"no readable script\.json"),
        (packed(META, ("greet/../../out", b"x", tarfile.REGTYPE)), "expected files below greet/"),
        (packed(META, ("/greet/out", b"x", tarfile.REGTYPE)), "expected files below greet/"),
        (packed(META, ("greet/greet.sh", None, tarfile.SYMTYPE)), "expected files below greet/"),
        (packed(META, ("greet/greet.sh", None, tarfile.LNKTYPE)), "expected files below greet/"),
        (packed(META, ("greet/pipe", None, tarfile.FIFOTYPE)), "expected files below greet/"),
        (packed(META, *[(f"greet/{number}", b"", tarfile.REGTYPE) for number in range(1001)]), "more than 1000 files"),
        (packed_with_a_long_name(MAX_TAR_BYTES), f"more than {MAX_TAR_BYTES} bytes unpacked"),
    ],
    ids=["bytes", "no_program", "no_meta", "parent", "absolute", "symlink", "hard_link", "pipe", "many", "long_name"],
)
def test_an_archive_that_is_no_script_is_refused_and_leaves_nothing(
    tmp_path: Path, archive: bytes, reason: str
) -> None:
    with pytest.raises(UnusableScript, match=reason):
        unpack(archive, tmp_path / "greet", "greet")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_agents_of_the_workers_own_are_announced_and_found_beside_their_programs(tmp_path: Path) -> None:
    agents, base = tmp_path / "agents", tmp_path / "base"
    (base / "scripts").mkdir(parents=True)
    agents.mkdir()
    (agents / "near").write_text("")
    (base / "scripts" / "far").write_text("")
    (agents / "a.json").write_text(json.dumps({"name": "a", "command": "near --fast", "x": 1}))
    (agents / "b.yaml").write_text("name: b\ncommand: scripts/far\nparameters_schema: {type: object}\n")

    found = load_agents(agents, base)

    assert [agent.commands_dir for agent in found] == [str(agents), str(base)]
    assert [agent.announcement() for agent in found] == [
        {"name": "a", "command": "near --fast"},
        {"name": "b", "command": "scripts/far", "parameters_schema": {"type": "object"}},
    ]
    identity = RunnerIdentity("h", "/p", "tools", "procedural", "x", agents=found)
    assert identity.to_document()["agents"] == [agent.announcement() for agent in found]
    assert isinstance(identity.agent("b"), OwnedAgent)


def test_an_agents_folder_of_the_existing_runner_is_used_from_any_working_directory(tmp_path: Path) -> None:
    executor, elsewhere = tmp_path / "procedural-executor", tmp_path / "elsewhere"
    for folder in (executor / "agents", executor / "scripts" / "test", elsewhere):
        folder.mkdir(parents=True)
    (executor / "scripts" / "test" / "test").write_text("#!/bin/sh\n")
    (executor / "agents" / "test.json").write_text('{"name": "test", "command": "scripts/test/test"}')

    (agent,) = load_agents(executor / "agents", elsewhere)

    assert agent.commands_dir == str(executor)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "holds no blueprint"),
        ({"a.json": '{"name": "a"}'}, "it has no command"),
        ({"a.json": '{"name": "a", "command": "missing"}'}, "'missing' is not below any of"),
        ({"a.json": '{"name": "a", "command": "\'"}'}, "cannot be split into words"),
        ({"a.json": '{"name": "a", "type": "autonomous", "command": "p"}'}, "only procedural agents"),
        (
            {"a.json": '{"name": "a", "command": "p"}', "b.json": '{"name": "a", "command": "p"}'},
            "has the name 'a'",
        ),
    ],
    ids=["none", "no_command", "missing", "quote", "autonomous", "twice"],
)
def test_a_folder_of_agents_with_a_fault_is_refused(tmp_path: Path, files: dict[str, str], reason: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "p").write_text("")
    with pytest.raises(UnusableAgent, match=reason):
        load_agents(tmp_path, tmp_path)

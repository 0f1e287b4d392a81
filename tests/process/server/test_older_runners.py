"""Runners and clients of the older contract, and what becomes of what they report."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from ao_runner.store.opening import StorePlace
from tests.process.server.conftest import BOUND_SECONDS, EXAMPLES, Serve, Served, wait_for
from tests.process.server.test_workers import UNTIL_TOLD, log_behind, without_worker

IDENTITY: Final = {
    "hostname": "elsewhere",
    "project_dir": "/project",
    "executor_profile": "talk",
    "executor": {"type": "autonomous", "command": "executor", "config": {}, "lifecycle": "persistent"},
}
OLDER: Final = (
    "from ao_runner.coordinators.http import leased\n"
    "async def speaks_leases(*_): return False\n"
    "leased.speaks_leases = speaks_leases\n"
    "from ao_runner.__main__ import main\n"
    "main()\n"
)
"""`ao`, whose worker speaks the older contract also to a server that speaks the newer one."""


class Runner:
    """A runner, as its calls look to the server."""

    def __init__(self, server: Served) -> None:
        self.server = server
        self.runner_id = server.client.post("/runner/register", json=IDENTITY).raise_for_status().json()["runner_id"]

    def poll(self) -> dict[str, Any]:
        answer = self.server.client.get("/runner/runs", params={"runner_id": self.runner_id})
        return dict(answer.raise_for_status().json())

    def report(self, run: dict[str, Any], what: str, **fields: Any) -> httpx.Response:
        path = f"/runner/runs/{run['run_id']}/{what}"
        return self.server.client.post(path, json={"runner_id": self.runner_id, **fields})

    def post(self, run: dict[str, Any], event_type: str, **fields: Any) -> httpx.Response:
        at = {"session_id": run["session_id"], "timestamp": "2026-01-10T12:00:00"}
        return self.server.client.post(
            f"/sessions/{run['session_id']}/events", json={"event_type": event_type, **at, **fields}
        )

    def begun(self) -> dict[str, Any]:
        """Queue a run, take it and begin it."""
        started(self.server)
        run = dict(self.poll()["run"])
        assert self.report(run, "started").json() == {"ok": True}
        return run


def started(server: Served, **more: Any) -> dict[str, Any]:
    body = {"type": "start_session", "parameters": {"prompt": "Hi"}, "profile": "talk", **more}
    return dict(server.client.post("/runs", json=body).raise_for_status().json())


def bodies(server: Served, run: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the stored events of a run without what is the same in all."""
    envelope = {"session_id", "run_id", "timestamp"}
    log = server.client.get(f"/sessions/{run['session_id']}/log").json()["events"]
    return [{name: value for name, value in one["event"].items() if name not in envelope} for one in log]


@pytest.fixture
def runner(share: Serve) -> Iterator[Runner]:
    made = Runner(share("--no-worker"))
    yield made
    made.server.client.delete(f"/runners/{made.runner_id}", params={"self": True})


def test_what_an_older_runner_reports_becomes_events_of_the_protocol(runner: Runner) -> None:
    run = runner.begun()
    text = [{"type": "text", "text": "Hi"}]
    runner.post(run, "message", role="user", content=text)
    runner.post(run, "pre_tool", tool_name="Read", tool_input={"path": "a"})
    runner.post(run, "post_tool", tool_name="Read", tool_input={"path": "a"}, tool_output="b")
    runner.post(run, "post_tool", tool_name="Bash", error="no")
    runner.post(run, "pre_tool", tool_name="Wait")
    runner.post(run, "result", result_data={"answer": 42})
    assert runner.report(run, "completed", session_status="finished").json() == {"ok": True}
    executor = {"name": "talk", "version": "older"}
    assert bodies(runner.server, run) == [
        {"event_type": "run_started", "seq": 1, "schema_version": "3.0", "executor": executor},
        {"event_type": "message", "seq": 2, "message_id": "msg_2", "role": "user", "content": text},
        {"event_type": "tool_started", "seq": 3, "tool_call_id": "call_3", "tool_name": "Read",
         "tool_input": {"path": "a"}},
        {"event_type": "tool_finished", "seq": 4, "tool_call_id": "call_3", "tool_name": "Read", "status": "completed",
         "tool_input": {"path": "a"}, "tool_output": "b"},
        {"event_type": "tool_started", "seq": 5, "tool_call_id": "call_5", "tool_name": "Bash"},
        {"event_type": "tool_finished", "seq": 6, "tool_call_id": "call_5", "tool_name": "Bash", "status": "failed",
         "error": "no"},
        {"event_type": "tool_started", "seq": 7, "tool_call_id": "call_7", "tool_name": "Wait"},
        {"event_type": "_ao/older-result", "seq": 8, "result_text": None, "result_data": {"answer": 42}},
        {"event_type": "tool_finished", "seq": 9, "tool_call_id": "call_7", "tool_name": "Wait", "status": "cancelled",
         "error": "the run ended before the tool call did"},
        {"event_type": "result", "seq": 10, "result_text": None, "result_data": {"answer": 42},
         "stop_reason": "end_turn"},
    ]  # fmt: skip
    listed = runner.server.client.get(f"/sessions/{run['session_id']}/events").json()["events"]
    kinds = ["message", "pre_tool", "post_tool", "pre_tool", "post_tool", "pre_tool", "result", "post_tool"]
    assert [row["event_type"] for row in listed] == kinds


@pytest.mark.parametrize(
    ("what", "fields", "status", "error"),
    [
        ("failed", {"error": "rate_limited: slow down"}, "failed", "rate_limited: slow down"),
        ("failed", {"error": "no"}, "failed", "internal_error: no"),
        ("stopped", {"signal": "SIGTERM"}, "stopped", "cancelled: stopped on request, by SIGTERM"),
    ],
)
def test_the_end_of_a_run_is_that_of_its_first_report(
    runner: Runner, what: str, fields: dict[str, Any], status: str, error: str
) -> None:
    run = runner.begun()
    assert runner.report(run, what, **fields).status_code == 200
    assert runner.report(run, "completed").status_code == 200
    found = runner.server.run(run["run_id"])
    assert (found["status"], found["error"]) == (status, error)


def test_a_report_about_another_attempt_is_refused(runner: Runner) -> None:
    run = runner.begun()
    assert runner.report(run, "completed", attempt=run["attempt"] + 1).status_code == 409
    assert runner.post(run, "message", content=[], attempt=run["attempt"] + 1).status_code == 409
    assert runner.report(run, "completed", attempt=run["attempt"]).status_code == 200


def test_a_posted_result_survives_a_killed_server(serve: Serve, place: StorePlace) -> None:
    server = without_worker(serve, place)
    run = (runner := Runner(server)).begun()
    assert runner.post(run, "result", result_text="kept").status_code == 201
    server.process.kill()
    server.process.wait(BOUND_SECONDS)
    again = without_worker(serve, place)
    runner.server = again
    assert runner.post(run, "message", role="assistant", content=[]).status_code == 201
    assert runner.report(run, "completed").status_code == 200
    assert again.client.get(f"/sessions/{run['session_id']}/result").json()["result_text"] == "kept"
    assert [event["seq"] for event in bodies(again, run)] == [1, 2, 3, 4]


def test_a_runner_that_leaves_ends_its_runs_and_returns_those_that_never_began(runner: Runner) -> None:
    begun = runner.begun()
    waiting = started(runner.server)
    assert runner.poll()["run"]["run_id"] == waiting["run_id"]
    runner.server.client.delete(f"/runners/{runner.runner_id}", params={"self": True}).raise_for_status()
    assert runner.server.run(begun["run_id"])["error_type"] == "attempt_lost"
    assert runner.server.run(waiting["run_id"])["status"] == "pending"


def test_a_run_with_attachments_ends_instead_of_being_handed_out_without_them(runner: Runner) -> None:
    note = {"name": "note.txt", "media_type": "text/plain", "data": "YQ=="}
    run, other = started(runner.server, attachments=[note]), started(runner.server)
    assert runner.poll()["run"]["run_id"] == other["run_id"]
    ended = runner.server.run(run["run_id"])
    assert (ended["status"], ended["error_type"]) == ("failed", "unsupported_capability")
    assert ended["failure"]["details"] == {"missing": ["attachments"]}
    assert ended["attachments"] == [{"name": "note.txt", "media_type": "text/plain", "bytes": 1}]


def test_a_blueprint_is_resolved_but_for_the_runners_own_placeholders(runner: Runner) -> None:
    runner.server.add_agent(
        {
            "name": "filled",
            "system_prompt": "Do ${params.what} in ${runtime.session_id}, $${params.what}, ${env.HOME}${env.AO_HOME}",
            "parameters_schema": {"type": "object", "required": ["what"]},
            "mcp_servers": {"own": {"type": "http", "url": "${runner.orchestrator_mcp_url}", "headers": {"X": "y"}}},
        }
    )
    ids = started(runner.server, agent_name="filled", parameters={"what": "code"})
    blueprint = runner.poll()["run"]["resolved_agent_blueprint"]
    prompt = f"Do code in {ids['session_id']}, $${{params.what}}, {os.environ['HOME']}${{env.AO_HOME}}"
    assert blueprint["system_prompt"] == prompt
    assert blueprint["mcp_servers"] == {"own": {"url": "${runner.orchestrator_mcp_url}", "config": {"X": "y"}}}


@contextmanager
def older_worker(server: Served, home: Path) -> Iterator[None]:
    command = [sys.executable, "-c", OLDER, "worker", "--coordinator", server.url, "--profile", UNTIL_TOLD]
    with (
        (home.parent / "older.log").open("wb") as log,
        subprocess.Popen(command, env={**os.environ, "AO_HOME": str(home)}, cwd=home.parent, stderr=log) as worker,
    ):
        try:
            yield
        finally:
            worker.terminate()


def test_our_worker_performs_runs_by_the_older_contract(serve: Serve, place: StorePlace, tmp_path: Path) -> None:
    server, told = without_worker(serve, place), tmp_path / "told"
    with older_worker(server, tmp_path / "elsewhere"):
        wait_for(lambda: server.client.get("/runners").json()["runners"])
        run = started(server, profile=None, parameters={"prompt": str(told)})
        log_behind(server, run, 4)
        told.touch()
        assert server.ended(run["run_id"])["status"] == "completed"
        assert server.client.get(f"/sessions/{run['session_id']}/result").json()["result_text"] == "done"
        stopped = started(server, profile=None, parameters={"prompt": "/never"})
        log_behind(server, stopped, 2)
        server.client.post(f"/runs/{stopped['run_id']}/stop")
        assert server.ended(stopped["run_id"])["status"] == "stopped"


def test_runs_of_any_worker_are_listed_in_the_older_vocabulary_in_pages(served: Served) -> None:
    run = served.ended(served.start("echo", {"message": "Hi"})["run_id"])
    path = f"/sessions/{run['session_id']}/events"
    rows = served.client.get(path).json()["events"]
    assert (rows[-1]["event_type"], rows[-1]["result_data"]) == ("result", {"echo": ["Hi"], "tags": []})
    pages = [served.client.get(path, params={"after": row["id"], "limit": 1}).json()["events"] for row in rows]
    assert pages == [*([row] for row in rows[1:]), []]


def test_a_client_follows_all_sessions(serve: Serve) -> None:
    server = serve("--no-worker")
    server.add_agent(json.loads((EXAMPLES / "echo/blueprint.json").read_text()))
    seen: list[tuple[str, dict[str, Any]]] = []

    def names() -> set[str]:
        return {name for name, _ in seen}

    def follow() -> None:
        with httpx.stream("GET", f"{server.url}/sse/sessions", timeout=BOUND_SECONDS, trust_env=False) as stream:
            name = ""
            for line in stream.iter_lines():
                name = line.removeprefix("event: ") if line.startswith("event: ") else name
                if line.startswith("data: "):
                    seen.append((name, json.loads(line.removeprefix("data: "))))
                results = [one for kind, one in seen if kind == "event" and one["data"]["event_type"] == "result"]
                if results and "session_updated" in names():
                    return

    reader = threading.Thread(target=follow)
    reader.start()
    wait_for(lambda: seen)
    run = server.start("echo", {"message": "Hi"})
    wait_for(lambda: "session_created" in names())
    command = [sys.executable, "-m", "ao_runner", "worker", "--until-idle", "--home", str(server.home)]
    subprocess.run(command, check=True, capture_output=True, timeout=BOUND_SECONDS)
    reader.join(BOUND_SECONDS)
    assert seen[0] == ("init", {"sessions": []})
    assert names() == {"init", "session_created", "session_updated", "event"}
    assert {document["session"]["session_id"] for name, document in seen if name == "session_created"} == {
        run["session_id"]
    }


def test_agents_of_a_runner_are_listed_as_long_as_its_lease(serve: Serve, place: StorePlace) -> None:
    server = without_worker(serve, place)
    agents = [{"name": "own", "command": "work"}]
    server.client.post("/runner/register", json={**IDENTITY, "agents": agents}).raise_for_status()
    server.add_agent({"name": "another"})
    assert [one["name"] for one in server.client.get("/agents").json()] == ["another", "own"]
    with StorePlace(server.home, place.url).open() as store:
        over = "UPDATE workers SET lease_until = 1"
        store.write(over if place.is_local else "UPDATE workers SET lease_until = 'epoch'")
    assert [one["name"] for one in server.client.get("/agents").json()] == ["another"]
    assert ">own<" not in server.client.get("/ui/agents", headers={"accept": "text/html"}).text


def test_a_runner_that_requires_matching_tags_is_handed_out_only_such_runs(serve: Serve, place: StorePlace) -> None:
    server = without_worker(serve, place)
    more = {"tags": ["gpu"], "require_matching_tags": True}
    runner = {"runner_id": server.client.post("/runner/register", json={**IDENTITY, **more}).json()["runner_id"]}
    for demands in ({}, {"hostname": "elsewhere"}, {"tags": ["other"]}):
        started(server, additional_demands=demands)
    wanted = [started(server, additional_demands={"tags": ["gpu"]})["run_id"] for _ in range(2)]
    assert server.client.get("/runner/runs", params=runner).json()["run"]["run_id"] == wanted[0]
    server.process.kill()
    server.process.wait(BOUND_SECONDS)
    again = without_worker(serve, place, server.port)
    assert again.client.get("/runner/runs", params=runner).json()["run"]["run_id"] == wanted[1]
    assert [one["require_matching_tags"] for one in again.client.get("/runners").json()["runners"]] == [True]


@pytest.mark.parametrize("path", ["/scripts", "/scripts/x/download", "/mcp-servers/x"])
def test_what_is_not_served_says_what_to_use(share: Serve, path: str) -> None:
    answer = share("--no-worker").client.get(path)
    assert answer.status_code == 501
    assert answer.json()["detail"]["error"] == "not_served"
    assert "; " in answer.json()["detail"]["message"]

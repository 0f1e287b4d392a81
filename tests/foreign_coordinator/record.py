"""Record the answers of a real server: `python -m tests.foreign_coordinator.record URL COMMIT`.

The server must be fresh, with authentication off. It is given MCP servers, a script and agents of its own; then every
call of the contract is made, the wrong ones too. A poll that finds nothing takes half a minute.
"""

import concurrent.futures
import io
import json
import sys
import tarfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import httpx

from tests.foreign_coordinator.recording import RECORDED, Names

REPOSITORY: Final = "https://github.com/rawe/claude-agent-orchestrator"
PLACE: Final = {"hostname": "recorder", "project_dir": "/project"}
HEADERS: Final = ("content-type", "content-disposition")
AT: Final = "2026-01-10T12:00:0"


class Recorder:
    """Makes calls and keeps what was asked and answered."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=60)
        self._names = Names()
        self._exchanges: list[dict[str, Any]] = []
        self._threads = concurrent.futures.ThreadPoolExecutor()

    def call(self, name: str, request: str, body: Any = None, **keeps: str) -> None:
        """Make a call, `METHOD path`; `run_1="run.run_id"` names a value of its answer `<run_1>`."""
        exchange = self._begin(name, request, body, keeps)
        self._end(exchange, self._ask(exchange))

    def poll(self, name: str, runner: str, meanwhile: Callable[[], None]) -> None:
        """Make a call that stays open while others are made, which the file has in `meanwhile`."""
        exchange = self._begin(name, f"GET /runner/runs?runner_id={runner}", None, {})
        answer = self._threads.submit(self._ask, exchange)
        time.sleep(0.7)
        outer, self._exchanges = self._exchanges, []
        meanwhile()
        exchange["meanwhile"], self._exchanges = self._exchanges, outer
        self._end(exchange, answer.result())

    def save(self, commit: str) -> None:
        """Write the file."""
        head = {"date": datetime.now(UTC).date().isoformat(), "repository": REPOSITORY, "commit": commit}
        head["placeholders"] = "<name>: an id; <time>: a time; 0 in `id` and `seconds_since_heartbeat`: a number"
        lines = ",\n".join(json.dumps(exchange) for exchange in self._exchanges)
        text = json.dumps(head, indent=1).removesuffix("\n}") + f',\n "exchanges": [\n{lines}\n]}}\n'
        RECORDED.write_text(text, encoding="utf-8")

    def _begin(self, name: str, request: str, body: Any, keeps: dict[str, str]) -> dict[str, Any]:
        method, path = request.split(" ")
        exchange: dict[str, Any] = {"name": name, "request": {"method": method, "path": path, "body": body}}
        if keeps:
            exchange["keeps"] = {f"<{placeholder}>": path for placeholder, path in keeps.items()}
        self._exchanges.append(exchange)
        return exchange

    def _ask(self, exchange: dict[str, Any]) -> httpx.Response:
        request = self._names.fill(exchange["request"])
        body = {} if request["body"] is None else {"json": request["body"]}
        return self._http.request(request["method"], request["path"], **body)

    def _end(self, exchange: dict[str, Any], response: httpx.Response) -> None:
        headers = {name: response.headers[name] for name in HEADERS if name in response.headers}
        exchange["answer"] = {"status": response.status_code, "headers": headers, "body": None}
        if response.content and headers["content-type"] == "application/json":
            self._names.keep(exchange.get("keeps", {}), response.json())
            exchange["answer"]["body"] = self._names.cover(response.json())
        elif response.content:
            with tarfile.open(fileobj=io.BytesIO(response.content)) as archive:
                exchange["answer"]["members"] = sorted(archive.getnames())


def runner(profile: str, executor_type: str, **fields: Any) -> dict[str, Any]:
    executor = {"type": executor_type, "command": "executor", "config": {}, "lifecycle": "persistent"}
    return {**PLACE, "executor_profile": profile, "executor": executor, "tags": ["uv"], **fields}


def configuration(on: Recorder) -> None:
    on.call("health", "GET /health")
    shelf = {"id": "recorded-shelf", "name": "Shelf", "url": "http://127.0.0.1:9501/mcp"}
    on.call("mcp server", "POST /mcp-servers", {**shelf, "default_config": {"X-Partition": "${runtime.session_id}"}})
    tools = {"id": "recorded-tools", "name": "Tools", "url": "${runner.orchestrator_mcp_url}"}
    on.call("mcp server of the runner", "POST /mcp-servers", tools)
    schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    script = {
        "name": "recorded_script",
        "description": "Greets",
        "script_file": "hi.py",
        "script_content": "print(1)\n",
    }
    on.call("script", "POST /scripts", {**script, "parameters_schema": schema, "demands": {"tags": ["uv"]}})
    on.call("script nobody uses", "POST /scripts", {**script, "name": "recorded_unused"})
    servers = {"shelf": {"ref": "recorded-shelf"}, "tools": {"ref": "recorded-tools", "config": {"X-Tags": "a"}}}
    agent = {"description": "d", "tags": ["recorded"]}
    autonomous = {"system_prompt": "You are in ${runtime.session_id}.", "mcp_servers": servers}
    on.call("agent with MCP servers", "POST /agents", {**agent, "name": "recorded-tools", **autonomous})
    typed = {"parameters_schema": schema, "output_schema": schema}
    on.call("agent with schemas", "POST /agents", {**agent, "name": "recorded-typed", **typed})
    procedural = {"type": "procedural", "script": "recorded_script"}
    on.call("procedural agent", "POST /agents", {**agent, "name": "recorded-procedural", **procedural})
    on.call("agents", "GET /agents?tags=recorded")
    on.call("agent", "GET /agents/recorded-procedural")
    on.call("agent, unknown", "GET /agents/nobody")
    on.call("script download", "GET /scripts/recorded_script/download")
    on.call("script download, unknown", "GET /scripts/nobody/download")


def registration(on: Recorder) -> None:
    on.call("register without a profile", "POST /runner/register", PLACE)
    on.call("register", "POST /runner/register", runner("talk", "autonomous"), talker="runner_id")
    on.call("register twice", "POST /runner/register", runner("talk", "autonomous"))
    own = [{"name": "recorded-own", "description": "Its own", "command": "scripts/own", "parameters_schema": None}]
    on.call(
        "register agents", "POST /runner/register", runner("proc", "procedural", agents=own), procedural="runner_id"
    )
    on.call("register an agent's name twice", "POST /runner/register", runner("other", "procedural", agents=own))
    on.call("register another type", "POST /runner/register", runner("odd", "odd"), odd="runner_id")
    on.call("runners", "GET /runners")
    on.call("heartbeat", "POST /runner/heartbeat", {"runner_id": "<talker>"})
    on.call("heartbeat, unknown", "POST /runner/heartbeat", {"runner_id": "lnch_0"})
    on.call("poll, unknown", "GET /runner/runs?runner_id=lnch_0")
    on.call("poll as nobody", "GET /runner/runs")
    on.call("poll of a procedural runner after it registered", "GET /runner/runs?runner_id=<procedural>")
    change = {"script_content": "print(2)\n"}
    changing = partial(on.call, "script changed", "PATCH /scripts/recorded_script", change)
    on.poll("poll when a script changes", "<procedural>", changing)
    removing = partial(on.call, "script removed", "DELETE /scripts/recorded_unused")
    on.poll("poll when a script is removed", "<procedural>", removing)
    on.call("agent of a runner", "GET /agents/recorded-own")


def start(on: Recorder, number: str, agent: str | None = None, **fields: Any) -> None:
    """Have a run begin in a new session, which is bound."""
    body = {"type": "start_session", "agent_name": agent, "parameters": {"prompt": "Hi"}, **fields}
    on.call(f"start {number}", "POST /runs", body, **{f"run_{number}": "run_id", f"ses_{number}": "session_id"})
    on.call(f"poll {number}", "GET /runner/runs?runner_id=<talker>")
    tell(on, number, "started")
    bind = {"executor_session_id": f"exec_{number}", "hostname": "recorder", "executor_profile": "talk"}
    on.call(f"bind {number}", f"POST /sessions/<ses_{number}>/bind", bind)


def tell(on: Recorder, number: str, what: str, **fields: Any) -> None:
    on.call(f"{what} {number}", f"POST /runner/runs/<run_{number}>/{what}", {"runner_id": "<talker>", **fields})


def event(on: Recorder, number: str, event_type: str, second: int, **fields: Any) -> None:
    body = {"event_type": event_type, "session_id": f"<ses_{number}>", "timestamp": f"{AT}{second}Z", **fields}
    on.call(f"{event_type} {number}", f"POST /sessions/<ses_{number}>/events", body)


def look(on: Recorder, number: str, when: str) -> None:
    on.call(f"run {number} {when}", f"GET /runs/<run_{number}>")
    on.call(f"session of {number} {when}", f"GET /sessions/<ses_{number}>")
    on.call(f"result of {number} {when}", f"GET /sessions/<ses_{number}>/result")


def resume(on: Recorder, number: str, of: str, name: str, **fields: Any) -> None:
    body = {"type": "resume_session", "session_id": f"<ses_{of}>", "parameters": {"prompt": "More"}, **fields}
    on.call(name, "POST /runs", body, **{f"run_{number}": "run_id", f"ses_{number}": "session_id"})


def a_session(on: Recorder) -> None:
    body: dict[str, Any] = {"type": "start_session", "agent_name": "recorded-tools", "parameters": {"prompt": "Hi"}}
    on.call("start with MCP servers", "POST /runs", body, run_1="run_id", ses_1="session_id")
    look(on, "1", "while it is pending")
    on.call("poll with MCP servers", "GET /runner/runs?runner_id=<talker>")
    look(on, "1", "while it is claimed")
    on.call("started of an unknown run", "POST /runner/runs/run_0/started", {"runner_id": "<talker>"})
    on.call("started by an unknown runner", "POST /runner/runs/<run_1>/started", {"runner_id": "lnch_0"})
    on.call("started by nobody", "POST /runner/runs/<run_1>/started", {})
    tell(on, "1", "started")
    on.call("bind without hostname and profile", "POST /sessions/<ses_1>/bind", {"executor_session_id": "exec_1"})
    binding = {"executor_session_id": "exec_1", "hostname": "recorder", "executor_profile": "talk"}
    on.call("bind an unknown session", "POST /sessions/ses_0/bind", binding)
    on.call("bind", "POST /sessions/<ses_1>/bind", {**binding, "project_dir": "/project"})
    look(on, "1", "while it is running")
    on.call("session, unknown", "GET /sessions/ses_0")


def events(on: Recorder) -> None:
    event(on, "1", "message", 1, role="user", content=[{"type": "text", "text": "Hi"}])
    event(on, "1", "pre_tool", 2, tool_name="Read", tool_input={"path": "a"})
    event(on, "1", "post_tool", 3, tool_name="Read", tool_input={"path": "a"}, tool_output="b", error=None)
    event(on, "1", "result", 4, result_text="Hello", result_data=None)
    event(on, "1", "unheard_of", 5)
    event(on, "1", "result", 6, result_data=[1])
    on.call("event without a type", "POST /sessions/<ses_1>/events", {"session_id": "<ses_1>", "timestamp": f"{AT}7Z"})
    stray = {"event_type": "message", "session_id": "ses_0", "timestamp": f"{AT}8Z"}
    on.call("event of another session", "POST /sessions/<ses_1>/events", stray)
    on.call("event of an unknown session", "POST /sessions/ses_0/events", stray)
    on.call("events", "GET /sessions/<ses_1>/events")
    on.call("events, unknown", "GET /sessions/ses_0/events")


def ends(on: Recorder) -> None:
    on.call("metadata", "PATCH /sessions/<ses_1>/metadata", {"last_resumed_at": f"{AT}9Z"})
    on.call("metadata of an unknown session", "PATCH /sessions/ses_0/metadata", {})
    on.call("completed by nobody", "POST /runner/runs/<run_1>/completed", {"status": "success"})
    on.call("completed of an unknown run", "POST /runner/runs/run_0/completed", {"runner_id": "<talker>"})
    tell(on, "1", "completed", status="success", session_status="idle")
    look(on, "1", "while it is idle")
    tell(on, "1", "started")
    look(on, "1", "after a late started")
    tell(on, "1", "completed", status="success", session_status="heard_of_never")
    look(on, "1", "in a state that nobody knows")
    tell(on, "1", "completed", session_status="idle")
    on.call("events with the server's own", "GET /sessions/<ses_1>/events")


def turns(on: Recorder) -> None:
    resume(on, "2", "1", "resume an idle session")
    on.call("poll with a resume", "GET /runner/runs?runner_id=<talker>")
    tell(on, "2", "started")
    look(on, "2", "while it is resumed")
    on.call("stop of a second turn", "POST /runs/<run_2>/stop")
    look(on, "2", "after its stop")
    tell(on, "2", "completed", session_status="finished")
    resume(on, "3", "1", "resume a finished session")
    on.call("poll with a resume of a finished session", "GET /runner/runs?runner_id=<talker>")
    tell(on, "3", "started")
    look(on, "3", "while a finished session is resumed")
    on.call("stop of a turn in a finished session", "POST /sessions/<ses_1>/stop")
    tell(on, "3", "failed", error="model_error: no")
    look(on, "3", "after a failure")
    resume(on, "4", "1", "resume a failed session")
    on.call("poll with a resume of a failed session", "GET /runner/runs?runner_id=<talker>")
    tell(on, "4", "started")
    resume(on, "5", "1", "resume a busy session")
    tell(on, "4", "stopped", signal="SIGTERM")
    on.call("poll with a resume of a busy session", "GET /runner/runs?runner_id=<talker>")
    tell(on, "5", "completed")
    on.call("failed without an error", "POST /runner/runs/<run_5>/failed", {"runner_id": "<talker>"})


def wrong_runs(on: Recorder) -> None:
    body = {"type": "start_session", "parameters": {"prompt": "Hi"}}
    on.call("start of no type", "POST /runs", {**body, "type": "begin"})
    on.call("start without parameters", "POST /runs", {"type": "start_session"})
    on.call("start without a prompt", "POST /runs", {**body, "parameters": {}})
    on.call("start with wrong parameters", "POST /runs", {**body, "agent_name": "recorded-typed"})
    typed = {**body, "agent_name": "recorded-typed", "parameters": {"name": 1}}
    on.call("start with a wrong type in the parameters", "POST /runs", typed)
    script = {**body, "agent_name": "recorded-procedural"}
    on.call("start a script with wrong parameters", "POST /runs", script)
    on.call("start a session that exists", "POST /runs", {**body, "session_id": "<ses_1>"})
    on.call("resume nothing", "POST /runs", {**body, "type": "resume_session"})
    on.call("resume an unknown session", "POST /runs", {**body, "type": "resume_session", "session_id": "ses_0"})
    nobody = {**body, "agent_name": "nobody", "additional_demands": {"tags": ["nowhere"]}}
    on.call("start an unknown agent", "POST /runs", nobody, run_6="run_id", ses_6="session_id")
    look(on, "6", "while nobody can take it")
    on.call("stop of a pending run", "POST /runs/<run_6>/stop")
    look(on, "6", "after its stop")
    on.call("run, unknown", "GET /runs/run_0")
    on.call("stop of an unknown run", "POST /runs/run_0/stop")
    on.call("stop of an unknown session", "POST /sessions/ses_0/stop")


def stops(on: Recorder) -> None:
    start(on, "7")
    on.poll("poll when a run is stopped", "<talker>", partial(on.call, "stop", "POST /runs/<run_7>/stop"))
    look(on, "7", "while it is stopping")
    on.call("stop again", "POST /runs/<run_7>/stop")
    tell(on, "7", "stopped", signal="SIGTERM")
    look(on, "7", "after it was stopped")
    on.call("stop after the end", "POST /sessions/<ses_7>/stop")
    start(on, "8")
    tell(on, "8", "completed", session_status="idle")
    on.call("result of a session without one", "GET /sessions/<ses_8>/result")
    stopping = partial(on.call, "stop of an idle session", "POST /sessions/<ses_8>/stop")
    on.poll("poll when an idle session is stopped", "<talker>", stopping)
    status = "POST /runner/sessions/<ses_8>/status"
    on.call("session status of no kind", status, {"runner_id": "<talker>", "status": "running"})
    on.call("session status", status, {"runner_id": "<talker>", "status": "stopped"})
    on.call("session status by an unknown runner", status, {"runner_id": "lnch_0", "status": "stopped"})
    unknown = "POST /runner/sessions/ses_0/status"
    on.call("session status, unknown", unknown, {"runner_id": "<talker>", "status": "stopped"})


def callbacks(on: Recorder) -> None:
    start(on, "parent", "recorded-tools")
    child: dict[str, Any] = {"parent_session_id": "<ses_parent>", "execution_mode": "async_callback"}
    start(on, "child", **child)
    event(on, "child", "result", 1, result_text="Done")
    tell(on, "parent", "completed", session_status="idle")
    tell(on, "child", "completed")
    on.call("poll with a callback", "GET /runner/runs?runner_id=<talker>", run_back="run.run_id")
    start(on, "failing", **child)
    tell(on, "failing", "failed", error="no")
    start(on, "second", **child)
    event(on, "second", "result", 1, result_data={"a": 1})
    tell(on, "second", "completed")
    tell(on, "back", "started")
    tell(on, "back", "completed", session_status="idle")
    on.call("poll with two callbacks", "GET /runner/runs?runner_id=<talker>", run_both="run.run_id")
    tell(on, "both", "completed", session_status="idle")
    start(on, "killed", **child)
    tell(on, "killed", "stopped")
    on.call("poll with a callback of a stopped child", "GET /runner/runs?runner_id=<talker>", run_last="run.run_id")
    tell(on, "last", "completed")
    resume(on, "again", "child", "resume a child", **child)
    on.call("poll with a resumed child", "GET /runner/runs?runner_id=<talker>")
    tell(on, "again", "started")
    tell(on, "again", "completed", session_status="idle")
    on.call("poll with a callback of a resumed child", "GET /runner/runs?runner_id=<talker>")


def scripts(on: Recorder) -> None:
    body = {"type": "start_session", "agent_name": "recorded-procedural", "parameters": {"name": "a"}}
    on.call("start a script", "POST /runs", body, run_s="run_id", ses_s="session_id")
    on.call("poll with a script", "GET /runner/runs?runner_id=<procedural>")
    more = {"type": "resume_session", "session_id": "<ses_s>", "parameters": {"prompt": "More"}}
    on.call("resume a script", "POST /runs", more)
    own = {**body, "agent_name": "recorded-own"}
    on.call("start a runner's own agent", "POST /runs", own, run_o="run_id", ses_o="session_id")
    on.call("poll with a runner's own agent", "GET /runner/runs?runner_id=<procedural>")
    on.call("start a run for others", "POST /runs", own, run_p="run_id", ses_p="session_id")
    on.call("poll without a run that fits", "GET /runner/runs?runner_id=<odd>")


def goodbye(on: Recorder) -> None:
    on.call("deregister an unknown runner", "DELETE /runners/lnch_0")
    on.poll("poll of a runner that is sent away", "<odd>", partial(on.call, "send away", "DELETE /runners/<odd>"))
    on.call("heartbeat of a runner that was sent away", "POST /runner/heartbeat", {"runner_id": "<odd>"})
    start(on, "9")
    start(on, "10")
    tell(on, "10", "completed", session_status="idle")

    def meanwhile() -> None:
        on.call("leave", "DELETE /runners/<talker>?self=true")
        body = {"type": "start_session", "parameters": {"prompt": "Hi"}}
        on.call("start a run after the runner left", "POST /runs", body, run_11="run_id", ses_11="session_id")

    on.poll("poll of a runner that has left", "<talker>", meanwhile)
    look(on, "11", "after a runner that has left claimed it")
    on.call("stop of a run whose runner has left", "POST /runs/<run_11>/stop")
    look(on, "9", "after its runner has left")
    on.call("session that was idle when its runner left", "GET /sessions/<ses_10>")
    on.call("completed by a runner that has left", "POST /runner/runs/<run_9>/completed", {"runner_id": "<talker>"})


def main() -> None:
    url, commit = sys.argv[1:]
    on = Recorder(url)
    for part in (
        configuration,
        registration,
        a_session,
        events,
        ends,
        turns,
        wrong_runs,
        stops,
        callbacks,
        scripts,
        goodbye,
    ):
        part(on)
    on.save(commit)


if __name__ == "__main__":
    main()

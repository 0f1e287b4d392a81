"""Play what docs/coordinators.md compares against a real server, with its own runner or with `ao worker`.

    python -m tests.foreign_coordinator.replay URL --runner existing --existing-runner PATH --python PATH [--json FILE]
    python -m tests.foreign_coordinator.replay URL --runner ao [--only SCENARIO] [--json FILE] [--beside FILE]

One row is printed per scenario, with the results of the other runner if `--beside` names their file.
Claude runs against a simulated model. Linux only; nothing but the runner is started.
"""

import argparse
import http.server
import json
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from ao_model_simulator import ModelSimulator, Script
from tests.foreign_coordinator.rivals import DONE, Coordinator, Gate, Rival, adopt_orphans, descendants, kill_all, wait

HELLO: Final = [{"text": "Hello.", "repeat": "forever"}]
SAMPLES: Final[dict[str, Any]] = {"string": "A question of some length?", "integer": 100, "boolean": True, "object": {}}


@dataclass
class Scene:
    """The server, and the runner whose turn it is."""

    on: Coordinator
    rival: Rival

    @contextmanager
    def model(self, answers: list[dict[str, Any]]) -> Iterator[ModelSimulator]:
        """Have a simulated model answer the claudes of runners that are started now."""
        with tempfile.TemporaryDirectory() as home, ModelSimulator(Script.from_answers(answers)) as sim:
            names = ("HOME", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR")
            self.rival.environ = {
                **dict.fromkeys(names, home),
                "ANTHROPIC_BASE_URL": sim.base_url("anthropic"),
                "ANTHROPIC_API_KEY": "sk-ant-fake",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "IS_SANDBOX": "1",
            }
            yield sim
            self.rival.environ = {}

    def timed(self, run_id: str, seconds: float = 30) -> tuple[str, float]:
        """Wait until a run has ended; return its status and how long that took."""
        began_at = time.monotonic()
        wait(lambda: self.on.run(run_id)["status"] in DONE, seconds, 0.005)
        return self.on.run(run_id)["status"], time.monotonic() - began_at


def latency_of_an_echo_run(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "echo"):
        times = [scene.timed(scene.on.start("Hi")[0])[1] for _ in range(20)]
    return f"{statistics.median(times) * 1000:.0f} ms median"


def a_hundred_echo_runs_at_once(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "echo") as runner:
        began_at = time.monotonic()
        runs = [scene.on.start(f"Hi {number}") for number in range(100)]
        mine = {run_id for run_id, _ in runs}

        def open_runs() -> int:
            known = scene.on.http.get("/runs").json()["runs"]
            return sum(run["status"] not in DONE for run in known if run["run_id"] in mine)

        wait(lambda: not open_runs(), 60, 0.2)
        still, seconds = open_runs(), time.monotonic() - began_at
        living, left = len(descendants()) - 1, runner.leave()
    readable = sum(scene.on.result(session_id) is not None for _, session_id in runs)
    ended = "" if not still else f", {still} not ended"
    return f"{seconds:.1f} s{ended}; {living} processes at the end, {left} after the runner left; {readable} readable"


def runner_killed(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "odd") as runner:
        run_id, _ = scene.on.start("forever")
        scene.on.began(run_id)
        runner.process.kill()
        runner.process.wait()
        wait(lambda: not descendants(), 5)
        left = len(descendants())
        status, _ = scene.timed(run_id, 10)
    return f"{left} processes left; run {status} after 10 s"


def executor_killed(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "odd"):
        run_id, session_id = scene.on.start("forever")
        scene.on.began(run_id)
        for pid, command in descendants().items():
            if command.rstrip().endswith("odd"):
                os.kill(pid, 9)
        status, seconds = scene.timed(run_id)
    return f"{status} after {seconds:.1f} s: {error_of(scene, run_id)}; result {scene.on.result(session_id)}"


def coordinator_away(scene: Scene) -> str:
    gate = Gate(scene.on.url)
    with scene.rival.started(gate.address, "odd") as runner:
        run_id, session_id = scene.on.start("slow 3")
        scene.on.began(run_id)
        gate.shut()
        time.sleep(20)
        gate.is_shut = False
        status, _ = scene.timed(run_id, 30)
        stays = "stays" if runner.process.poll() is None else "exits"
    return f"{status}, result {scene.on.result(session_id)!r}; runner {stays}"


def exit_without_a_result(scene: Scene) -> str:
    return run_of_odd(scene, "nothing")


def only_garbage_on_stdout(scene: Scene) -> str:
    return run_of_odd(scene, "garbage")


def run_of_odd(scene: Scene, prompt: str) -> str:
    with scene.rival.started(scene.on.url, "odd") as runner:
        run_id, session_id = scene.on.start(prompt)
        status, seconds = scene.timed(run_id, 40)
        peak = runner.peak_megabytes()
    error = f" ({error_of(scene, run_id)})" if status == "failed" else ""
    result = "with" if scene.on.result(session_id) else "without"
    return f"{status}{error}, {result} a result, after {seconds:.1f} s; runner had {peak} MB"


def error_of(scene: Scene, run_id: str) -> str:
    return (scene.on.run(run_id)["error"] or "no error")[:60]


def executor_ignores_sigterm(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "odd"):
        run_id, _ = scene.on.start("stubborn")
        scene.on.began(run_id)
        before = len(descendants())
        scene.on.http.post(f"/runs/{run_id}/stop").raise_for_status()
        status, seconds = scene.timed(run_id, 40)
        ended = wait(lambda: len(descendants()) < before, 5)
    return f"{status} after {seconds:.1f} s; {'no process' if ended else 'the process lives'}"


def two_hundred_megabytes_on_stdout(scene: Scene) -> str:
    return run_of_odd(scene, "flood_stdout")


def two_hundred_megabytes_on_stderr(scene: Scene) -> str:
    return run_of_odd(scene, "flood_stderr")


def a_child_keeps_stdout_open(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "odd"):
        first, _ = scene.on.start("leave_child")
        scene.on.began(first)
        time.sleep(1)
        second, _ = scene.on.start("Hi")
        status, seconds = scene.timed(second, 40)
    return f"another run {status} after {seconds:.1f} s"


def thirty_quick_resumes(scene: Scene) -> str:
    return quick_resumes(scene, "echo")


def thirty_quick_resumes_of_claude(scene: Scene) -> str:
    with scene.model(HELLO):
        return quick_resumes(scene, "claude")


def quick_resumes(scene: Scene, profile: str) -> str:
    with scene.rival.started(scene.on.url, profile):
        run_id, session_id = scene.on.start("Hi")
        scene.timed(run_id)
        ends: list[str] = []
        for number in range(30):
            run_id, _ = scene.on.resume(session_id, f"More {number}")
            ends.append(scene.timed(run_id, 5)[0])
            if ends[-5:] == ["running"] * 5:
                break
        time.sleep(1)
        last = scene.on.run(run_id)["status"]
    counts = {status: ends.count(status) for status in sorted(set(ends))}
    return ", ".join(f"{count} {status}" for status, count in counts.items()) + f"; the last one is {last} then"


def executor_events(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "odd"):
        run_id, _ = scene.on.start("events 500")
        began_at = wait(lambda: scene.on.run(run_id)["started_at"], 20) and time.monotonic()
        status, _ = scene.timed(run_id, 60)
        seconds = time.monotonic() - float(began_at or 0)
    return f"500 in {seconds:.1f} s, {500 / seconds:.0f} a second; {status}"


def all_shipped_agents(scene: Scene) -> str:
    agents = [agent for agent in scene.on.http.get("/agents").json() if not agent.get("runner_id")]
    kinds = {"claude": "autonomous", "procedural": "procedural"}
    ends: dict[str, str] = {}
    with scene.model(HELLO):
        for profile, kind in kinds.items():
            with scene.rival.started(scene.on.url, profile):
                chosen = [agent for agent in agents if agent["type"] == kind and "recorded" not in agent["tags"]]
                for begin in range(0, len(chosen), 4):
                    runs = {agent["name"]: start_with_samples(scene, agent) for agent in chosen[begin : begin + 4]}
                    ends |= {name: scene.on.ended(run_id, 30) if run_id else "refused" for name, run_id in runs.items()}
    others = ", ".join(f"{name} {status}" for name, status in ends.items() if status != "completed")
    return f"{list(ends.values()).count('completed')} of {len(ends)} complete; not: {others or 'none'}"


def start_with_samples(scene: Scene, agent: dict[str, Any]) -> str | None:
    """Start an agent with parameters that its schema allows."""
    schema = agent.get("parameters_schema") or {"required": ["prompt"], "properties": {}}
    if agent["type"] == "procedural":
        schema = agent.get("parameters_schema") or {}
    parameters: dict[str, Any] = {}
    for name in schema.get("required", []):
        wanted = schema.get("properties", {}).get(name, {})
        parameters[name] = wanted.get("enum", [SAMPLES.get(wanted.get("type", "string"))])[0]
    if agent["type"] == "procedural" and "file" in parameters:
        parameters["file"] = str(Path(__file__).parent / "recorded.json")
    try:
        return scene.on.start(agent=agent["name"], parameters=parameters)[0]
    except httpx.HTTPStatusError:
        return None


def resume(scene: Scene) -> str:
    with scene.model(HELLO) as sim, scene.rival.started(scene.on.url, "claude"):
        run_id, session_id = scene.on.start("The word is Kaleidoscope.")
        first = scene.on.ended(run_id, 30)
        second = scene.on.ended(scene.on.resume(session_id, "Which word?")[0], 30)
        knows = "Kaleidoscope" in json.dumps(sim.requests[-1].body) if sim.requests else False
    return (
        f"{first}, {second}; the model {'sees' if knows and second == 'completed' else 'does not see'} the first turn"
    )


def callback(scene: Scene, children: list[str], parent: str = "Hi", *, resumed: bool = False) -> bool:
    """Tell whether a parent heard of its children and answered."""
    with scene.rival.started(scene.on.url, "odd-stays"):
        run_id, parent_id = scene.on.start(parent)
        (scene.on.began if parent.startswith("slow") else scene.timed)(run_id)
        fields = {"parent_session_id": parent_id, "execution_mode": "async_callback"}
        if resumed:
            first, child_id = scene.on.start("Hi")
            scene.timed(first)
            scene.on.resume(child_id, children[0], **fields)
        else:
            for prompt in children:
                scene.on.start(prompt, **fields)

        def turns() -> list[dict[str, Any]]:
            return [run for run in scene.on.runs_of(parent_id)[1:] if run["status"] in DONE]

        found = wait(turns, 25) or []
        text = json.dumps([run["parameters"] for run in found])
        heard = f'count=\\"{len(children)}\\"' in text.replace("\\\\", "\\") if len(children) > 1 else bool(found)
        return heard and all(run["status"] == "completed" for run in found)


def callbacks_to_a_parent(scene: Scene) -> str:
    kinds = {
        "single": callback(scene, ["Hi"]),
        "failed child": callback(scene, ["fail"]),
        "several while busy": callback(scene, ["Hi", "Ho"], "slow 6"),
        "resumed child": callback(scene, ["Hi"], resumed=True),
    }
    missing = [kind for kind, is_fine in kinds.items() if not is_fine]
    return f"{4 - len(missing)} of 4" + (f"; not: {', '.join(missing)}" if missing else "")


class McpServer(http.server.BaseHTTPRequestHandler):
    """A server with one tool, which remembers a header."""

    seen: Final[set[str]] = set()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.seen.add(self.headers.get("X-Replay", ""))
        answers = {
            "initialize": {
                "protocolVersion": asked.get("params", {}).get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "replay", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "ping", "description": "d", "inputSchema": {"type": "object"}}]},
        }
        found = answers.get(asked["method"])
        body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": found or {}}).encode()
        self.send_response(200 if "id" in asked else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body) if "id" in asked else 0))
        self.end_headers()
        self.wfile.write(body if "id" in asked else b"")

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    do_DELETE = do_GET  # noqa: N815  # the name is the parent's

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the parent's
        """Say nothing."""


def agent_with_an_mcp_server(scene: Scene) -> str:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), McpServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    name = f"replay-{server.server_port}"
    known = {"id": name, "name": "Replay", "url": f"http://127.0.0.1:{server.server_port}/mcp"}
    scene.on.http.post("/mcp-servers", json={**known, "default_config": {"X-Replay": name}}).raise_for_status()
    agent = {"name": name, "description": "d", "mcp_servers": {"replay": {"ref": name}}}
    scene.on.http.post("/agents", json=agent).raise_for_status()
    try:
        status, tools = tools_of(scene, name)
    finally:
        scene.on.http.delete(f"/agents/{name}")
        scene.on.http.delete(f"/mcp-servers/{name}")
        server.shutdown()
    found = "mcp__replay__ping" in tools
    return (
        f"{status}; {'with' if found else 'without'} its tool; header {'arrived' if name in McpServer.seen else 'lost'}"
    )


def orchestrator_tools(scene: Scene) -> str:
    status, tools = tools_of(scene, "agent-orchestrator")
    return f"{status}; {sum(tool.startswith('mcp__orchestrator__') for tool in tools)} tools"


def tools_of(scene: Scene, agent: str) -> tuple[str, set[str]]:
    with scene.model(HELLO) as sim, scene.rival.started(scene.on.url, "claude"):
        status = scene.on.ended(scene.on.start("Hi", agent)[0], 40)
        bodies: list[Any] = [request.body for request in sim.requests]
        text = json.dumps(bodies)
        deferred = {word for word in text.replace("\\n", " ").replace('"', " ").split() if word.startswith("mcp__")}
    return status, deferred | {tool["name"] for body in bodies for tool in body.get("tools", [])}


def central_script(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "procedural"):
        run_id, session_id = scene.on.start(agent="json-checker", parameters={"file": __file__})
        status, seconds = scene.timed(run_id)
    return f"{status} after {seconds:.1f} s, result {'yes' if scene.on.result(session_id) else 'no'}"


def a_runners_own_agent(scene: Scene) -> str:
    more: tuple[str, ...] = ()
    if scene.rival.kind == "ao":
        folder = scene.rival.folder / "agents" / "test"
        (folder / "scripts").mkdir(parents=True, exist_ok=True)
        script = folder / "scripts" / "test"
        script.write_text("#!/bin/sh\necho own\n")
        script.chmod(0o755)
        agent = {"name": "test", "description": "d", "command": "scripts/test"}
        (folder / "test.json").write_text(json.dumps(agent))
        more = ("--agents", str(folder))
    with scene.rival.started(scene.on.url, "procedural", *more):
        run_id, session_id = scene.on.start(agent="test", parameters={})
        status, seconds = scene.timed(run_id)
    return f"{status} after {seconds:.1f} s, result {'yes' if scene.on.result(session_id) else 'no'}"


def dashboard_chat_of_two_messages(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "echo"):
        run_id, session_id = scene.on.start("One")
        scene.timed(run_id)
        state = scene.on.status(session_id)
        second, other_id = scene.on.resume(session_id, "Two") if state == "idle" else scene.on.start("Two")
        status, _ = scene.timed(second)
    return f"{'one session' if other_id == session_id else 'two sessions'} ({state} between them); {status}"


def claude_start(scene: Scene) -> str:
    with scene.model(HELLO), scene.rival.started(scene.on.url, "claude"):
        ends = [scene.timed(scene.on.start("Hi")[0]) for _ in range(3)]
    return f"{ends[0][0]} in {ends[0][1]:.2f} s; then {ends[1][1]:.2f} s, {ends[2][1]:.2f} s"


def stop_in_an_answer(scene: Scene) -> str:
    with scene.model([{"stall": True, "repeat": "forever"}]) as sim, scene.rival.started(scene.on.url, "claude"):
        run_id, _ = scene.on.start("Hi")
        wait(lambda: sim.requests, 20)
        scene.on.http.post(f"/runs/{run_id}/stop").raise_for_status()
        status, seconds = scene.timed(run_id, 20)
    return f"{status} after {seconds:.1f} s"


def stop_of_a_second_turn(scene: Scene) -> str:
    with scene.rival.started(scene.on.url, "odd-stays"):
        run_id, session_id = scene.on.start("Hi")
        scene.timed(run_id)
        run_id, _ = scene.on.resume(session_id, "forever")
        wait(lambda: scene.on.run(run_id)["status"] == "running", 20)
        answer = scene.on.http.post(f"/runs/{run_id}/stop").json()
        status, _ = scene.timed(run_id, 15)
    return f"the server says {answer['status']}; the run is {status} after 15 s"


SCENARIOS: Final[tuple[Callable[[Scene], str], ...]] = (
    latency_of_an_echo_run,
    a_hundred_echo_runs_at_once,
    runner_killed,
    executor_killed,
    coordinator_away,
    exit_without_a_result,
    only_garbage_on_stdout,
    executor_ignores_sigterm,
    two_hundred_megabytes_on_stdout,
    two_hundred_megabytes_on_stderr,
    a_child_keeps_stdout_open,
    thirty_quick_resumes,
    thirty_quick_resumes_of_claude,
    executor_events,
    all_shipped_agents,
    resume,
    callbacks_to_a_parent,
    agent_with_an_mcp_server,
    orchestrator_tools,
    central_script,
    a_runners_own_agent,
    dashboard_chat_of_two_messages,
    claude_start,
    stop_in_an_answer,
    stop_of_a_second_turn,
)


def play(scenario: Callable[[Scene], str], scene: Scene) -> str:
    """Return the cell of a scenario; one that breaks says so and leaves the others alone."""
    try:
        return scenario(scene)
    except Exception as error:  # noqa: BLE001  # whatever it is, it belongs into the table
        return f"broken: {type(error).__name__}: {error}"
    finally:
        kill_all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--runner", choices=["existing", "ao"], default="ao")
    parser.add_argument("--existing-runner", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="that runs the existing runner")
    parser.add_argument("--only", action="append", choices=[one.__name__ for one in SCENARIOS])
    parser.add_argument("--json", type=Path, help="results are added to this file")
    parser.add_argument("--beside", type=Path, help="results of the other runner, for a table of both")
    given = parser.parse_args()
    if given.runner == "existing" and given.existing_runner is None:
        parser.error("--runner existing needs --existing-runner")
    adopt_orphans()
    folder = Path(tempfile.mkdtemp(prefix="replay-"))
    rival = Rival(given.runner, folder, given.existing_runner, given.python)
    rival.prepare()
    scene = Scene(Coordinator(given.url), rival)
    cells: dict[str, str] = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    others: dict[str, str] = json.loads(given.beside.read_text()) if given.beside else {}
    for scenario in SCENARIOS:
        if given.only and scenario.__name__ not in given.only:
            continue
        cells[scenario.__name__] = play(scenario, scene)
        row = [scenario.__name__.replace("_", " "), cells[scenario.__name__]]
        row[1:1] = [others.get(scenario.__name__, "not played")] if given.beside else []
        sys.stdout.write(f"| {' | '.join(row)} |\n")
        sys.stdout.flush()
        if given.json:
            given.json.write_text(json.dumps(cells, indent=1))
    shutil.copy(folder / "log", Path(tempfile.gettempdir()) / f"replay-{given.runner}.log")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()

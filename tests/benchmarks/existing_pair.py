"""Claude runs by `ao worker` and by the runner of the existing pair, in turn, each at a fresh server of that pair.

usage: python -m tests.benchmarks.existing_pair FOLDER --python PYTHON [--runs N] [--rounds N]

FOLDER is a checkout of rawe/claude-agent-orchestrator, PYTHON one that has the packages of its server and its runner:
fastapi, uvicorn, PyJWT, httpx, jsonschema, python-multipart, typer, `mcp<2`, `fastmcp<3`, and claude-agent-sdk in the
version of this project. Prints JSON: by side and round the seconds from the submission of one run until the server
says `completed`, those from its `claimed_at` to its `completed_at` (medians of eight after a first one; the server
hands out runs every 0.5 s, which the second leaves out), those of N runs at once, and how busy other processes kept
the machine before, from 0 to 1. All files are compiled first. The CLI is real, the model is simulated; sessions are
kept on both sides. The existing runner starts executors with `uv run --script`; here a script runs PYTHON in its place,
which saves it the time of `uv`.
"""

import argparse
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from ao_model_simulator import ModelSimulator, Script, claude_environment

HERE: Final = Path(__file__).parents[2]
ENDED: Final = {"completed", "failed", "stopped"}
ANSWERS: Final[list[dict[str, Any]]] = [{"text": "Hello.", "repeat": "forever"}]
SECRET: Final = "ANTHROPIC_API_KEY"
PROFILE: Final = f"""executor: claude-code
lifecycle: persistent
config: {{permission_mode: bypassPermissions, model: opus}}
secrets: [{SECRET}]
"""
PATIENCE_SECONDS: Final = 300.0


def wait(condition: Callable[[], Any], what: str) -> None:
    """Wait until a condition is true. Raises `TimeoutError`."""
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while True:
        with suppress(httpx.TransportError):
            if condition():
                return
        if time.monotonic() > ends_at:
            raise TimeoutError(what)
        time.sleep(0.05)  # each look costs the server as much as a call of a runner


def kill_all(home: Path) -> None:
    """Kill the processes whose HOME is a folder, and wait for their end."""
    mark = f"HOME={home}\0".encode()

    def living() -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):
                found += [int(path.parent.name)] * (mark in path.read_bytes())
        return found

    def killed() -> bool:
        for pid in living():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not living()

    wait(killed, "processes stay")


@contextmanager
def serving(side: str, folder: Path, python: Path) -> Iterator[httpx.Client]:
    """Start a server and one runner of a side, and yield a client of the server once the runner is registered."""
    servers = folder / "servers"
    with tempfile.TemporaryDirectory() as name, ModelSimulator(Script.from_answers(ANSWERS)) as model:
        home = Path(name)
        for part in ("tmp", "bin", "project"):
            (home / part).mkdir()
        (home / "bin" / "uv").write_text(f'#!/bin/sh\nshift 2\nexec {python} "$@"\n')
        (home / "bin" / "uv").chmod(0o755)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        claude = {**claude_environment(model.url, home), "IS_SANDBOX": "1"}
        environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
            **claude,
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "AGENT_ORCHESTRATOR_API_URL": f"http://127.0.0.1:{port}",
            "AGENT_ORCHESTRATOR_DB_PATH": str(home / "server.db"),
            "AGENT_ORCHESTRATOR_AGENTS_DIR": str(home / "agents"),
            "PROJECT_DIR": str(home / "project"),
        }
        profile = home / "claude.yaml"
        profile.write_text(PROFILE + f"environment: {{pass: {sorted(claude.keys() - {SECRET})}}}\n")
        runners = {
            "existing": [str(python), str(servers / "agent-runner" / "agent-runner"), "--profile", "claude-code"],
            "ao": [
                *(sys.executable, "-m", "ao_runner", "worker", "--coordinator", f"http://127.0.0.1:{port}"),
                *("--profile", str(profile), "--home", str(home / "ao"), "--concurrency", "100"),
            ],
        }
        server = [str(python), "-m", "uvicorn", "main:app", "--port", str(port), "--log-level", "warning"]
        with (Path(tempfile.gettempdir()) / f"existing_pair_{side}.log").open("wb") as log:
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                    start = partial(subprocess.Popen, env=environment, stdout=log, stderr=log)
                    start(server, cwd=servers / "agent-coordinator")
                    wait(lambda: client.get("/health").is_success, "the server does not answer")
                    start(runners[side], cwd=home / "project")
                    wait(lambda: client.get("/runners").json()["runners"], f"no runner registers; see {log.name}")
                    yield client
            finally:
                kill_all(home)


def performed(client: httpx.Client, runs: int) -> tuple[float, float]:
    """Submit runs at once; return the seconds until all have ended, and the median from a claim to the end.

    Exits if a run is not completed, or its result cannot be read.
    """
    began_at = time.perf_counter()
    body = {"type": "start_session", "parameters": {"prompt": "Hi"}}
    mine = {}
    for _ in range(runs):
        answer = client.post("/runs", json=body).raise_for_status().json()
        mine[answer["run_id"]] = answer["session_id"]

    def rows() -> list[dict[str, Any]]:
        return [run for run in client.get("/runs").json()["runs"] if run["run_id"] in mine]

    wait(lambda: ENDED.issuperset(run["status"] for run in rows()), "a run does not end")
    seconds = time.perf_counter() - began_at
    readable = sum("Hello." in client.get(f"/sessions/{session_id}/result").text for session_id in mine.values())
    if (counts := Counter(run["status"] for run in rows())) != {"completed": runs} or readable != runs:
        sys.exit(f"of {runs} runs: {dict(counts)}, {readable} with a readable result")
    times = [[datetime.fromisoformat(run[name]) for name in ("claimed_at", "completed_at")] for run in rows()]
    return seconds, statistics.median((ended - claimed).total_seconds() for claimed, ended in times)


def busy_share() -> float:
    """Return the share of the processors' time that is used while this process waits two seconds."""
    counts = []
    for pause in (2, 0):
        ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        counts.append((sum(ticks), ticks[3] + ticks[4]))
        time.sleep(pause)
    (all_before, idle_before), (all_after, idle_after) = counts
    return 1 - (idle_after - idle_before) / (all_after - all_before)


def measure(side: str, folder: Path, python: Path, runs: int) -> dict[str, Any]:
    busy = busy_share()
    with serving(side, folder, python) as client:
        first, _ = performed(client, 1)
        singles = []
        for _ in range(8):
            time.sleep(random.random() / 2)  # anywhere between two of the moments in which the server hands out runs
            singles.append(performed(client, 1))
        at_once, _ = performed(client, runs)
    told = {"first": first, "one": statistics.median(one for one, _ in singles)}
    told |= {"one_claimed": statistics.median(one for _, one in singles), f"{runs}_at_once": at_once, "busy": busy}
    return {"side": side, **{name: round(value, 2) for name, value in told.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    if not (folder / "servers" / "agent-runner" / "agent-runner").is_file():
        sys.exit(f"{folder} is no checkout of rawe/claude-agent-orchestrator: it has no servers/agent-runner")
    sources = [HERE / part for part in ("executors", "protocol", "runner")]
    for python, sources_of_it in ((Path(sys.executable), sources), (asked.python, [folder / "servers"])):
        subprocess.run([python, "-m", "compileall", "-q", *sources_of_it], check=False)
    for _ in range(asked.rounds):
        for side in ("existing", "ao"):
            print(json.dumps(measure(side, folder, asked.python.absolute(), asked.runs)), flush=True)


if __name__ == "__main__":
    main()

"""The doors of a worker: lines of a pipe, and assignments of a coordinator."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from ao_runner.store.ownership import host_name
from tests.foreign_coordinator.server import ForeignCoordinator
from tests.process.doors.playing import (
    BOUND_SECONDS,
    NO_ASKING_SESSION,
    Door,
    Outcome,
    Request,
)
from tests.process.doors.server_doors import Api
from tests.process.doors.spelling import document_of, line_of, placed
from tests.process.doors.stored import prepare, told
from tests.process.doors.table import AGENTS, Accepted
from tests.process.server.conftest import Served


def worker(folder: Path, *arguments: str, profiles: Sequence[str] = ("teller", "other")) -> list[str]:
    """Return the command of a worker with profiles of a folder."""
    named = [word for name in profiles for word in ("--profile", name)]
    return [sys.executable, "-P", "-m", "ao_runner", "worker", *named, "--concurrency", "8", *arguments]


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of a worker."""
    return {**os.environ, "AO_HOME": str(folder / "home"), "AO_STORE": "local", "NO_PROXY": "*"}


class Pipe(Door):
    """Lines on the stdin of a worker."""

    is_stored = False
    names = {"agent": "blueprint", "requires": "tags"}
    lacks = {
        **dict.fromkeys(
            ("priority", "not_before", "requeue", "requires"), "lines are in no queue: the writer orders them"
        ),
        **NO_ASKING_SESSION,
        "session": "a pipe keeps no sessions; a line brings the executor's own id along",
        "model_script": "the lines of a pipe are for a real worker",
        "keep_rejected": "nothing is stored of a pipe",
        "executor_config": "the settings are those of the worker's profile, and its operator's",
        "output_schema_name": "a pipe has no store of named schemas; a line brings its schema along",
    }
    not_played = {
        "no agent": "a line names an agent",
        "no profile": "the profile of the worker, as it says",
        "a session id that is taken": "a pipe keeps no sessions",
    }

    def opened(self, folder: Path) -> Any:
        raise NotImplementedError

    def play(self, requests: Mapping[str, Request], folder: Path) -> dict[str, Outcome]:
        prepare(folder / "home")
        numbers = {name: number for number, name in enumerate(requests, 1)}
        lines = [json.dumps(line_of(one.asked, folder, f"run_{numbers[name]}")) for name, one in requests.items()]
        done = subprocess.run(
            worker(folder, "--coordinator", "stdout"),
            input="\n".join(lines).encode(),
            capture_output=True,
            cwd=folder / "work",
            env=environment(folder),
            timeout=BOUND_SECONDS,
            check=False,
        )
        events = [json.loads(line) for line in done.stdout.splitlines()]
        ends = [event for event in events if event["event_type"] in {"result", "failure"}]
        by_run = {event["run_id"]: event for event in ends if event["run_id"]}
        by_line = {(event.get("error", {}).get("details") or {}).get("line"): event for event in ends}
        names = {request.asked.get("run_id") or f"run_{numbers[name]}": name for name, request in requests.items()}
        found = {names[run_id]: event for run_id, event in by_run.items() if run_id in names}
        found |= {name: by_line[number] for name, number in numbers.items() if number in by_line}
        return {name: _end(found[name], folder) for name in requests}


def _end(event: Mapping[str, Any], folder: Path) -> Outcome:
    if event["event_type"] == "result":
        return Outcome(told(json.loads(event["result_text"]), folder))
    error = event["error"]
    return Outcome(None, f"{error['type']}: {error['message']} {error.get('validation_errors')}")


class Leased(Api):
    """A run of a server, performed by a worker that claims it over HTTP."""

    is_stored = False

    def takes(self, name: str, request: Request) -> bool:
        """Return whether a worker with the profiles of the table performs it."""
        return isinstance(request, Accepted) and name != "no profile" and super().takes(name, request)

    def play(self, requests: Mapping[str, Request], folder: Path) -> dict[str, Outcome]:
        prepare(folder / "home", host=host_name())
        ids: dict[str, str] = {}
        with self.serving(folder) as server:
            refused = {}
            for name, request in requests.items():
                answer = server.client.post("/runs", json=document_of(request.asked, folder))
                if answer.status_code == 201:
                    ids[name] = answer.json()["run_id"]
                else:
                    refused[name] = Outcome(None, answer.text)
            arguments = ("--coordinator", server.url, "--until-idle", "--tag", "gpu", "--tag", "host:here")
            subprocess.run(
                worker(folder, *arguments),
                cwd=folder / "work",
                env={
                    **environment(folder),
                    "AO_HOME": str(folder / "worker"),
                    "AO_PROFILES": str(folder / "home/profiles"),
                },
                capture_output=True,
                timeout=BOUND_SECONDS,
                check=True,
            )
            return {**refused, **{name: self._shown(server, run_id, folder) for name, run_id in ids.items()}}

    def _shown(self, server: Served, run_id: str, folder: Path) -> Outcome:
        answer = server.client.get(f"/runs/{quote(run_id, safe='')}/result")
        if answer.status_code != 200:
            return Outcome(None, server.client.get(f"/runs/{quote(run_id, safe='')}").text)
        return Outcome(told(json.loads(answer.json()["result_text"]), folder))


class Foreign(Door):
    """An assignment of a coordinator of the older contract."""

    is_stored = False
    lacks = {
        **dict.fromkeys(
            (
                "output_schema", "output_schema_name", "output_schema_options", "no_schema", "keep_rejected",
                "timeout_seconds", "metadata", "labels", "attachments", "profile", "executor_config", "model_script",
                "session",
            ),
            "the older contract has no such field",
        ),
        **dict.fromkeys(("priority", "not_before", "requeue", "requires"), "the coordinator has decided it"),
        **dict.fromkeys(("parent_session_id", "execution_mode"), "the coordinator tells the parent"),
    }  # fmt: skip
    names = {"agent": "agent_name"}
    always = {"metadata": {"execution_mode": "sync"}}

    given: ClassVar = {"profile": "teller"}
    not_played = {
        "no profile": "the profile of the worker, as it says",
        "no agent": "the agent is the worker's own, which is called like its profile",
        "an unknown agent": "the coordinator knows its agents, and a run without one is a model's",
        "half a surrogate pair": "the coordinator's server refuses the text",
        "a session id that is taken": "the coordinator knows its sessions",
        "a procedural agent": "a worker of this profile takes autonomous agents",
    }

    def opened(self, folder: Path) -> Any:
        raise NotImplementedError

    def play(self, requests: Mapping[str, Request], folder: Path) -> dict[str, Outcome]:
        prepare(folder / "home")
        return asyncio.run(asyncio.wait_for(self._story(requests, folder), BOUND_SECONDS))

    async def _story(self, requests: Mapping[str, Request], folder: Path) -> dict[str, Outcome]:
        ids: dict[str, str] = {}
        async with ForeignCoordinator() as server:
            for number, (name, request) in enumerate(requests.items()):
                asked = request.asked
                run_id = ids[name] = asked.get("run_id", f"run_{number}")
                agent = asked.get("agent")
                server.state.enqueue(
                    run_id,
                    asked.get("session_id", f"ses_{number}"),
                    agent_name=agent,
                    parameters=asked["parameters"],
                    project_dir=placed(asked.get("project_dir"), folder),
                    resolved_agent_blueprint=None if agent is None else AGENTS[agent],
                )
            process = await asyncio.create_subprocess_exec(
                *worker(folder, "--coordinator", server.url, profiles=["teller"]),
                cwd=folder / "work",
                env=environment(folder),
                stderr=asyncio.subprocess.DEVNULL,
            )
            heard = asyncio.Event()
            server.on_request = lambda _: heard.set()
            runs = server.state.runs
            try:
                while any(runs[run_id]["status"] in {"pending", "claimed", "running"} for run_id in ids.values()):
                    heard.clear()
                    await heard.wait()
            finally:
                process.send_signal(signal.SIGTERM)
                await process.wait()
            return {name: self._end(server, run_id, folder) for name, run_id in ids.items()}

    def _end(self, server: ForeignCoordinator, run_id: str, folder: Path) -> Outcome:
        run = server.state.runs[run_id]
        if run["status"] != "completed":
            return Outcome(None, run["error"])
        results = [event for event in server.state.events[run["session_id"]] if event["event_type"] == "result"]
        return Outcome(told(json.loads(results[-1]["result_text"]), folder))

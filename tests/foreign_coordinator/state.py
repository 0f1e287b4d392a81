"""What the simulated server keeps, and what it answers to runners. It knows no connections.

`test_recorded.py` compares it with recorded answers of the real one, whose gaps it has, too: nobody checks whose run it
is, events have no ids, a `started` that comes late turns a run that has ended back into a running one, a poll of a
runner that has left claims a run, and a stop is meant for the first run of a session, which may have ended long ago.
"""

import asyncio
import hashlib
import io
import json
import tarfile
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from pydantic import ValidationError

from tests.foreign_coordinator.bodies import SAID, Document, OfRunner, Registration, Reply, SessionStatus, unprocessable
from tests.foreign_coordinator.sessions import ENDED, NO_RUN, NO_SESSION, Commands, Sessions, now

UNKNOWN_RUNNER: Reply = (401, {"detail": "Runner not registered"})
OK: Reply = (200, {"ok": True})


@dataclass
class State(Sessions):
    """Runs, sessions, runners, and what waits for a poll. Tests read it and change it as they like."""

    poll_seconds: float = 0.2
    heartbeat_seconds: float = 0.05
    registration_extra: Document = field(default_factory=dict)
    heartbeats: int = 0
    notices: deque[Document] = field(default_factory=deque)
    """Answers for the next polls, whoever's they are."""
    _sent_away: set[str] = field(default_factory=set)

    def stop(self, run_id: str) -> None:
        """Do what the button does: the status at once, and the next poll of the worker says so."""
        self.stop_run(self.runs[run_id])

    def notify(self, notice: Document) -> None:
        """Answer the next poll with this."""
        self.notices.append(notice)
        self._news.set()

    def forget_runners(self) -> None:
        """Restart, with the memory of who is there lost."""
        self.runners.clear()
        self._commands.clear()

    def keep_script(self, script: Document) -> None:
        """Add or change a script, and have the procedural runners fetch it."""
        self.scripts[script["name"]] = script
        for runner_id in self._procedural():
            self._commands[runner_id].sync.append(script["name"])

    def remove_script(self, name: str) -> None:
        """Remove a script, and have the procedural runners forget it."""
        del self.scripts[name]
        for runner_id in self._procedural():
            self._commands[runner_id].remove.append(name)

    async def answer(self, method: str, path: list[str], query: str, body: Document) -> Reply:
        """Carry out a request."""
        asked = dict(parse_qsl(query))
        try:
            match method, path:
                case "GET", ["runner", "runs"]:
                    return await self._poll(asked.get("runner_id"))
                case _, ["runner" | "runners" | "scripts" | "health", *_]:
                    return self._of_runner(method, path, asked, body)
                case _:
                    return self.answer_client(method, path, asked, body)
        except ValidationError as error:
            return unprocessable(error)

    def _of_runner(self, method: str, path: list[str], asked: dict[str, str], body: Document) -> Reply:  # noqa: PLR0911
        match method, path:
            case "POST", ["runner", "register"]:
                return self._register(Registration(**body), body)
            case "POST", ["runner", "heartbeat"]:
                self.heartbeats += (is_known := OfRunner(**body).runner_id in self.runners)
                return OK if is_known else UNKNOWN_RUNNER
            case "POST", ["runner", "runs", run_id, what] if what in SAID:
                return self._say(run_id, what, body)
            case "POST", ["runner", "sessions", session_id, "status"]:
                return self._end_idle(session_id, SessionStatus(**body))
            case "DELETE", ["runners", runner_id]:
                return self._leave(runner_id, asked.get("self") == "true")
            case "GET", ["runners"]:
                return 200, {"runners": [self._shown_runner(*one) for one in self.runners.items()]}
            case "GET", ["scripts", name, "download"]:
                return self._download(name)
            case "GET", ["health"]:
                return 200, {"status": "healthy"}
            case _:
                return 404, {"detail": "Not Found"}

    def _register(self, wanted: Registration, body: Document) -> Reply:
        who = {
            "hostname": wanted.hostname,
            "project_dir": wanted.project_dir,
            "executor_profile": wanted.executor_profile,
        }
        named = [*who.values(), (wanted.executor or {}).get("command", "")]
        runner_id = "lnch_" + hashlib.sha256(":".join(named).encode()).hexdigest()[:12]
        if runner_id in self.runners:
            identity = (
                f"Runner with identity ({', '.join(who.values())}) is already registered and online as {runner_id}"
            )
            return 409, {"detail": {"error": "duplicate_runner", "message": identity, "runner_id": runner_id, **who}}
        for other_id, other in self.runners.items():
            for name in {agent.name for agent in wanted.agents or []} & {
                one["name"] for one in other.get("agents") or []
            }:
                message = f"Agent '{name}' is already registered by runner '{other_id}'"
                collision = {"error": "agent_name_collision", "message": message, "agent_name": name}
                return 409, {"detail": {**collision, "existing_runner_id": other_id}}
        self.runners[runner_id] = {"registered_at": now(), "last_heartbeat": now(), **body}
        self._commands[runner_id] = Commands()
        if runner_id in self._procedural():
            self._commands[runner_id].sync = list(self.scripts)
        return 200, {
            "runner_id": runner_id,
            "poll_endpoint": "/runner/runs",
            "poll_timeout_seconds": self.poll_seconds,
            "heartbeat_interval_seconds": self.heartbeat_seconds,
            **self.registration_extra,
        }

    def _procedural(self) -> list[str]:
        return [name for name, one in self.runners.items() if (one.get("executor") or {}).get("type") == "procedural"]

    async def _poll(self, runner_id: str | None) -> Reply:
        if runner_id is None:
            missing = {"type": "missing", "loc": ["query", "runner_id"], "msg": "Field required", "input": None}
            return 422, {"detail": [missing]}
        runner = self.runners.get(runner_id)
        if runner is None:
            return UNKNOWN_RUNNER
        ends_at = asyncio.get_running_loop().time() + self.poll_seconds
        while (found := self._found(runner_id, runner)) is None:
            left = ends_at - asyncio.get_running_loop().time()
            if left <= 0:
                return 204, None
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(self.tick_seconds or left, left)):
                    await self._news.wait()
        return 200, found

    def _found(self, runner_id: str, runner: Document) -> Document | None:
        """Return what a poll answers; the runner may have left since it was asked."""
        commands = self._commands.get(runner_id, Commands())
        if self.notices:
            return self.notices.popleft()
        if commands.stop:
            stop, commands.stop = commands.stop, []
            return {"stop_sessions": stop}
        if commands.sync or commands.remove:
            self._commands[runner_id] = Commands()
            return {"sync_scripts": commands.sync, "remove_scripts": commands.remove}
        if runner_id in self._sent_away:
            self._forget(runner_id)
            return {"deregistered": True}
        run = next((run for run in self.pending if suits(runner, run["demands"])), None)
        if run is None:
            return None
        self.pending.remove(run)
        run |= {"status": "claimed", "runner_id": runner_id, "claimed_at": now()}
        return {"run": {name: value for name, value in run.items() if name != "said"}}

    def _say(self, run_id: str, what: str, body: Document) -> Reply:
        if SAID[what](**body).runner_id not in self.runners:
            return UNKNOWN_RUNNER
        run = self.runs.get(run_id)
        if run is None:
            return NO_RUN
        run["status"] = {"started": "running"}.get(what, what)
        run["started_at" if what == "started" else "completed_at"] = now()
        run.setdefault("said", []).append({what: {name: value for name, value in body.items() if name != "runner_id"}})
        self.heard(run, what, body)
        return OK

    def _end_idle(self, session_id: str, said: SessionStatus) -> Reply:
        if said.runner_id not in self.runners:
            return UNKNOWN_RUNNER
        if session_id not in self.sessions:
            return NO_SESSION
        if said.status not in ENDED:
            return 400, {"detail": "Status must be 'finished', 'failed', or 'stopped'"}
        self.sessions[session_id]["status"] = said.status
        return OK

    def _leave(self, runner_id: str, is_its_own_wish: bool) -> Reply:
        if runner_id not in self.runners:
            return 404, {"detail": "Runner not found"}
        if not is_its_own_wish:
            self._sent_away.add(runner_id)
            self._news.set()
            return 200, {"ok": True, "message": "Runner marked for deregistration", "initiated_by": "external"}
        self._forget(runner_id)
        self.lose_runs_of(runner_id)
        return 200, {"ok": True, "message": "Runner deregistered", "initiated_by": "self"}

    def _forget(self, runner_id: str) -> None:
        self._sent_away.discard(runner_id)
        self.runners.pop(runner_id, None)
        self._commands.pop(runner_id, None)

    def _shown_runner(self, runner_id: str, runner: Document) -> Document:
        shown = {"runner_id": runner_id, "tags": [], "require_matching_tags": False, "status": "online", **runner}
        shown.pop("agents", None)
        return {**shown, "seconds_since_heartbeat": 0.1}

    def _download(self, name: str) -> Reply:
        if name not in self.scripts:
            return 404, {"detail": f"Script not found: {name}"}
        script, packed = self.scripts[name], io.BytesIO()
        content = {"script.json": json.dumps(script), script["script_file"]: script["script_content"]}
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            folder = tarfile.TarInfo(name)
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
            for member, text in content.items():
                entry = tarfile.TarInfo(f"{folder.name}/{member}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))
        return 200, packed.getvalue()


def suits(runner: Document, demands: Document | None) -> bool:
    """Tell whether a runner is what a run demands."""
    demands = demands or {}
    executor_type = (runner.get("executor") or {}).get("type")
    has = {**runner, "executor_type": executor_type}
    names = ("hostname", "project_dir", "executor_profile", "executor_type")
    tags, own = set(demands.get("tags", [])), set(runner.get("tags") or [])
    return (
        all(not demands.get(name) or demands[name] == has[name] for name in names)
        and tags <= own
        and (not runner.get("require_matching_tags") or bool(tags & own))
    )

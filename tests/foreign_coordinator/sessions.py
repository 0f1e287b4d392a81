"""Sessions and runs of the simulated server, and what it answers to whoever asks about them: executors and clients."""

import asyncio
import json
import uuid
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from jsonschema import Draft7Validator

from tests.foreign_coordinator.bodies import PROMPT_ONLY, Binding, Document, Event, Metadata, NewRun, Reply
from tests.foreign_coordinator.callbacks import Callbacks, worded

ENDED = frozenset({"stopped", "finished", "failed"})
NO_SESSION: Reply = (404, {"detail": "Session not found"})
NO_RUN: Reply = (404, {"detail": "Run not found"})
MAX_ROWS = 100
RUN_FIELDS = ("run_id", "type", "session_id", "agent_name", "parameters", "project_dir", "parent_session_id")
TIMES = ("created_at", "claimed_at", "started_at", "completed_at", "timeout_at")
SHOWN = (*RUN_FIELDS, "status", "execution_mode", "demands", "runner_id", "error", *TIMES)
"""What a client is shown of a run: neither scope nor blueprint."""
SESSION_FIELDS = ("project_dir", "agent_name", "last_resumed_at", "parent_session_id")
BOUND_FIELDS = ("executor_session_id", "executor_profile", "hostname")
BODIES: dict[tuple[str, ...], type[Binding | Metadata | Event]] = {
    ("POST", "bind"): Binding,
    ("PATCH", "metadata"): Metadata,
    ("POST", "events"): Event,
}


@dataclass
class Commands:
    """What a runner is to hear at its next poll."""

    stop: list[str] = field(default_factory=list)
    sync: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)


@dataclass
class Sessions:
    """What is kept of sessions, their runs and events, and of agents."""

    tick_seconds: float = 0
    """How often a poll looks for runs; that of the real server every 0.5 s. 0: it has them at once."""
    runs: dict[str, Document] = field(default_factory=dict)
    sessions: dict[str, Document] = field(default_factory=dict)
    events: dict[str, list[Document]] = field(default_factory=dict)
    """What executors posted, by session; rows of the server itself are elsewhere."""
    runners: dict[str, Document] = field(default_factory=dict)
    agents: dict[str, Document] = field(default_factory=dict)
    mcp_servers: dict[str, Document] = field(default_factory=dict)
    scripts: dict[str, Document] = field(default_factory=dict)
    pending: deque[Document] = field(default_factory=deque)
    _commands: dict[str, Commands] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _own_rows: dict[str, list[Document]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._callbacks = Callbacks(self._add_resume)

    def enqueue(self, run_id: str, session_id: str, **fields: Any) -> None:
        """Add a run that waits for a worker."""
        empty = dict.fromkeys((*SHOWN, "scope", "resolved_agent_blueprint"))
        defaults = {
            "type": "start_session",
            "agent_name": "greeter",
            "parameters": {"prompt": "Hi"},
            "status": "pending",
            "execution_mode": "sync",
            "demands": {"executor_type": "autonomous", "tags": []},
            "created_at": now(),
            "timeout_at": now(),
        }
        run = {**empty, **defaults, "run_id": run_id, "session_id": session_id, **fields}
        self.runs[run_id] = run
        session = dict.fromkeys(("session_id", "status", "created_at", *SESSION_FIELDS, *BOUND_FIELDS))
        known = {name: run[name] for name in ("project_dir", "agent_name", "parent_session_id")}
        session |= {"session_id": session_id, "status": "pending", "created_at": now(), **known}
        self.sessions.setdefault(session_id, session)
        self.pending.append(run)
        if not self.tick_seconds:
            self._news.set()

    def answers(self, session_id: str) -> list[Document]:
        """Return what was posted of a session but the prompts, which the worker adds itself."""
        return [row for row in self.events.get(session_id, []) if row.get("role") != "user"]

    def answer_client(  # noqa: PLR0911  # a table of routes
        self, method: str, path: list[str], asked: dict[str, str], body: Document
    ) -> Reply:
        """Carry out a request about sessions, runs or agents."""
        match method, path:
            case "GET", ["agents"]:
                tags = {tag for tag in asked.get("tags", "").split(",") if tag}
                return 200, [agent for agent in self._all_agents() if tags <= set(agent["tags"])]
            case "GET", ["agents", name]:
                agent = self._agent(name)
                return (200, agent) if agent else (404, {"detail": f"Agent not found: {name}"})
            case "GET", ["mcp-servers", name]:
                unknown = {"detail": f"MCP server not found: {name}"}
                return (200, self.mcp_servers[name]) if name in self.mcp_servers else (404, unknown)
            case "POST", ["runs"]:
                return self._add_run(NewRun(**body))
            case "GET", ["runs"]:
                wanted = [run for run in self.runs.values() if asked.get("status") in {None, run["status"]}]
                return 200, {"runs": [shown(run) for run in wanted]}
            case "GET", ["runs", run_id]:
                return (200, shown(self.runs[run_id])) if run_id in self.runs else NO_RUN
            case "POST", ["runs", run_id, "stop"]:
                return (
                    self._stop_session(self.sessions[self.runs[run_id]["session_id"]])
                    if run_id in self.runs
                    else NO_RUN
                )
            case "GET", ["sessions"]:
                return 200, {"sessions": list(self.sessions.values())}
            case _, ["sessions", session_id, *rest]:
                return self._of_session(method, session_id, rest, body)
            case _:
                return 404, {"detail": "Not Found"}

    def _of_session(self, method: str, session_id: str, rest: list[str], body: Document) -> Reply:
        given = BODIES[method, *rest](**body) if (method, *rest) in BODIES else None
        session = self.sessions.get(session_id)
        if session is None:
            return (200, {"status": "not_existent"}) if rest == ["status"] else NO_SESSION
        match given:
            case None:
                return self._about_session(method, session, rest)
            case Event() if given.session_id != session_id:
                return 400, {"detail": "Event session_id must match URL session_id"}
            case Event():
                self.events.setdefault(session_id, []).append(body)
                return 201, {"ok": True}
            case Binding():
                session["status"] = "running"
        session |= given.model_dump(exclude_none=True)
        return 200, {"ok": True, "session": session}

    def _about_session(self, method: str, session: Document, rest: list[str]) -> Reply:
        match method, rest:
            case "GET", []:
                return 200, {"session": session}
            case "GET", ["status"]:
                return 200, {"status": session["status"]}
            case "GET", ["events"]:
                return 200, {"events": self._rows(session["session_id"])[:MAX_ROWS]}
            case "GET", ["result"]:
                return self._shown_result(session)
            case "POST", ["stop"]:
                return self._stop_session(session)
            case _:
                return 404, {"detail": "Not Found"}

    def heard(self, run: Document, what: str, body: Document) -> None:
        """Do what follows from what a runner said of a run."""
        session = self.sessions[run["session_id"]]
        match what:
            case "started":
                session["parent_session_id"] = run["parent_session_id"] or session["parent_session_id"]
                if session["status"] == "idle":
                    session["status"] = "running"
                self._mark(run, "run_start")
            case "completed":
                session["status"] = body.get("session_status") or "finished"
                self._mark(run, "run_completed", exit_code=0, reason="completed")
                self._tell_parent(run, "completed", worded(self._result(run["session_id"])))
                self._callbacks.turn_completed(run["session_id"])
            case "failed":
                run["error"] = body["error"]
                self._tell_parent(run, "failed", body["error"])
                session["status"] = "failed"
            case "stopped":
                self._tell_parent(run, "failed", "Session was manually stopped")
                session["status"] = "stopped"

    def lose_runs_of(self, runner_id: str) -> None:
        """Fail the sessions that a runner leaves behind. Their runs are still shown as they were."""
        for run in [run for run in self.runs.values() if run["runner_id"] == runner_id]:
            session = self.sessions[run["session_id"]]
            if run["status"] in {"running", "claimed"}:
                session["status"] = "failed"
                self._tell_parent(run, "failed", "Runner disconnected during execution")
            elif session["status"] == "idle":
                session["status"] = "finished"

    def _tell_parent(self, run: Document, status: str, said: str) -> None:
        self._callbacks.child_ended(run, self.sessions.get(run["parent_session_id"]), status, said)

    def _mark(self, run: Document, event_type: str, **fields: Any) -> None:
        row = {"session_id": run["session_id"], "event_type": event_type, "timestamp": now(), **fields}
        self._own_rows.setdefault(run["session_id"], []).append(row)

    def _rows(self, session_id: str) -> list[Document]:
        rows = [*self.events.get(session_id, []), *self._own_rows.get(session_id, [])]
        full = [{"id": number, **Event(**row).model_dump()} for number, row in enumerate(rows, 1)]
        return sorted(full, key=lambda row: str(row["timestamp"]))

    def _result(self, session_id: str) -> Document | None:
        results = [row for row in self._rows(session_id) if row["event_type"] == "result"]
        if not results:
            return None
        return {"result_text": results[-1]["result_text"], "result_data": results[-1]["result_data"] or None}

    def _shown_result(self, session: Document) -> Reply:
        if session["status"] not in {"finished", "idle"}:
            return 400, {"detail": "Session not finished or idle"}
        result = self._result(session["session_id"])
        return (200, result) if result else (404, {"detail": "No result found"})

    def _all_agents(self) -> list[Document]:
        rest = {"type": "procedural", "tags": [], "capabilities": [], "status": "active"}
        rest |= {"created_at": "", "modified_at": ""}
        own = [agent for runner in self.runners.values() for agent in runner.get("agents") or []]
        given = [{name: value for name, value in agent.items() if value is not None} for agent in own]
        return [*self.agents.values(), *({**rest, **agent} for agent in given)]

    def _agent(self, name: str | None) -> Document | None:
        return next((agent for agent in self._all_agents() if agent["name"] == name), None)

    def _add_run(self, wanted: NewRun) -> Reply:
        session = self.sessions.get(wanted.session_id or "")
        is_resume = wanted.type == "resume_session"
        if is_resume and not wanted.session_id:
            return 400, {"detail": "session_id is required for resume_session"}
        if is_resume and session is None:
            return 404, {"detail": f"Session '{wanted.session_id}' not found"}
        name = (session and session["agent_name"]) or wanted.agent_name
        agent = self._agent(name)
        if is_resume and agent and agent["type"] == "procedural":
            message = "Procedural agents are stateless and cannot be resumed"
            return 400, {"detail": {"error": "procedural_agent_no_resume", "message": message, "agent_name": name}}
        schema = PROMPT_ONLY
        if agent and not is_resume:
            schema = agent.get("parameters_schema") or ({} if agent["type"] == "procedural" else PROMPT_ONLY)
        if errors := [fault(error) for error in Draft7Validator(schema).iter_errors(wanted.parameters)]:
            detail = {"error": "parameter_validation_failed", "agent_name": name or "(no agent)"}
            detail["message"] = "Parameters do not match agent's parameters_schema"
            return 400, {"detail": {**detail, "validation_errors": errors, "parameters_schema": schema}}
        if session and not is_resume:
            return 409, {"detail": f"Session '{wanted.session_id}' already exists"}
        session_id = wanted.session_id or f"ses_{uuid.uuid4().hex[:12]}"
        fields = wanted.model_dump(exclude={"session_id", "additional_demands"})
        fields["resolved_agent_blueprint"] = agent and self._resolved(agent, session_id)
        run_id = self._queue(session_id, fields, wanted.additional_demands or {})
        return 201, {"run_id": run_id, "session_id": session_id, "status": "pending"}

    def _add_resume(self, session_id: str, prompt: str) -> None:
        """Resume a parent. The blueprint of its agent does not come along."""
        self._queue(session_id, {"type": "resume_session", "parameters": {"prompt": prompt}, "agent_name": None}, {})

    def _queue(self, session_id: str, fields: Document, demanded: Document) -> str:
        session, demands = self.sessions.get(session_id), {}
        if session and fields["type"] == "resume_session":
            given = {name: value for name, value in fields.items() if value is not None}
            fields = {"agent_name": session["agent_name"], "project_dir": session["project_dir"], **given}
            demands = {name: session[name] for name in ("hostname", "executor_profile") if session[name]}
        agent = self._agent(fields["agent_name"]) or {"type": "autonomous"}
        for runner in self.runners.values():
            if any(own["name"] == fields["agent_name"] for own in runner.get("agents") or []):
                demands |= {name: runner[name] for name in ("hostname", "project_dir", "executor_profile")}
        others = (agent, self.scripts.get(agent.get("script", ""), {}))
        tags = {tag for one in others for tag in one.get("demands", {}).get("tags", [])} | set(demanded.get("tags", []))
        demands = {**demanded, **demands, "executor_type": agent["type"], "tags": list(tags)}
        run_id = f"run_{uuid.uuid4().hex[:12]}"
        self.enqueue(run_id, session_id, **fields, demands=demands)
        return run_id

    def _resolved(self, agent: Document, session_id: str) -> Document:
        servers: Document = {}
        for name, wanted in agent.get("mcp_servers", {}).items():
            known = self.mcp_servers[wanted["ref"]]
            config = {**(known["default_config"] or {}), **wanted.get("config", {})}
            servers[name] = {"url": known["url"], "config": config}
        text = json.dumps({**agent, "mcp_servers": servers} if servers else agent)
        resolved: Document = json.loads(text.replace("${runtime.session_id}", session_id))
        return resolved

    def _stop_session(self, session: Document) -> Reply:
        session_id = session["session_id"]
        answer = {"ok": True, "session_id": session_id, "status": session["status"]}
        if session["status"] == "stopping":
            return 200, {**answer, "message": "Session is already being stopped"}
        if session["status"] in ENDED:
            return 200, {**answer, "message": f"Session already {session['status']}"}
        run = next(run for run in self.runs.values() if run["session_id"] == session_id)
        if session["status"] == "idle":
            if not self.tell_to_stop(run["runner_id"], session_id):
                return 500, {"detail": "Failed to queue stop command"}
            session["status"] = "stopping"
            return 200, {**answer, "status": "stopping", "message": "Stop command queued for idle session"}
        if run["status"] not in {"pending", "claimed", "running"}:
            session["status"] = "stopped" if session["status"] == "running" else session["status"]
            message = f"Run already in RunStatus.{run['status'].upper()} state - session marked as stopped"
            return 200, {**answer, "run_id": run["run_id"], "status": "stopped", "message": message}
        return self.stop_run(run)

    def stop_run(self, run: Document) -> Reply:
        """Stop a run that has not ended."""
        answer = {"ok": True, "run_id": run["run_id"], "session_id": run["session_id"], "status": "stopping"}
        session = self.sessions[run["session_id"]]
        if run["status"] == "pending":
            self.pending.remove(run)
            run |= {"status": "stopped", "completed_at": now()}
            session["status"] = "stopped"
            return 200, {**answer, "status": "stopped", "message": "Run cancelled before execution"}
        if not self.tell_to_stop(run["runner_id"], run["session_id"]):
            return 500, {"detail": "Failed to queue stop command"}
        run["status"] = session["status"] = "stopping"
        return 200, answer

    def tell_to_stop(self, runner_id: str, session_id: str) -> bool:
        """Have a runner hear of it at once; False where there is no such runner."""
        if runner_id not in self._commands:
            return False
        self._commands[runner_id].stop.append(session_id)
        self._news.set()
        return True


def shown(run: Document) -> Document:
    """Return what a client is shown of a run."""
    return {name: run[name] for name in SHOWN}


def fault(error: Any) -> Document:
    """Return how the server words what is wrong with parameters."""
    path = ".".join(map(str, error.absolute_path))
    where = {"path": f"$.{path}" if path else "$", "schema_path": "/".join(map(str, error.schema_path))}
    return {**where, "message": error.message}


def now() -> str:
    """Return the time as the server writes it."""
    return datetime.now(UTC).isoformat()

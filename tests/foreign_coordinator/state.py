"""What the stand-in for the existing server keeps, and what it answers. It knows no connections.

It does what was observed of that server, its gaps included: nobody checks whose run it is, events have no ids, and a
`started` that comes late turns a run that has ended back into a running one.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Document = dict[str, Any]
Reply = tuple[int, Any]

UNKNOWN_RUNNER: Reply = (401, {"detail": "unknown runner"})
NOT_FOUND: Reply = (404, {"detail": "not found"})
MAX_ROWS = 100


@dataclass
class State:
    """Runs, sessions, runners, and what waits for a poll. Tests read it and change it as they like."""

    poll_seconds: float = 0.2
    heartbeat_seconds: float = 0.05
    registration_extra: Document = field(default_factory=dict)
    runs: dict[str, Document] = field(default_factory=dict)
    sessions: dict[str, Document] = field(default_factory=dict)
    events: dict[str, list[Document]] = field(default_factory=dict)
    runners: dict[str, Document] = field(default_factory=dict)
    heartbeats: int = 0
    pending: deque[Document] = field(default_factory=deque)
    notices: deque[Document] = field(default_factory=deque)
    """Answers for the next polls that are no runs."""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def enqueue(self, run_id: str, session_id: str, **fields: Any) -> None:
        """Add a run that waits for a worker."""
        run = {
            "run_id": run_id,
            "session_id": session_id,
            "type": "start_session",
            "agent_name": "greeter",
            "parameters": {"prompt": "Hi"},
            "status": "pending",
            "resolved_agent_blueprint": None,
            **fields,
        }
        self.runs[run_id] = run
        self.sessions.setdefault(session_id, {"session_id": session_id, "executor_session_id": None})
        self.pending.append(run)
        self._news.set()

    def stop(self, run_id: str) -> None:
        """Do what the button does: the next poll of the worker says so, and the status at once."""
        run = self.runs[run_id]
        run["status"] = "stopping"
        self.notify({"stop_sessions": [run["session_id"]]})

    def answers(self, session_id: str) -> list[Document]:
        """Return the events of a session but the prompts, which the worker adds itself."""
        return [row for row in self.events.get(session_id, []) if row.get("role") != "user"]

    def notify(self, notice: Document) -> None:
        """Answer the next poll with this."""
        self.notices.append(notice)
        self._news.set()

    def forget_runners(self) -> None:
        """Restart, with the memory of who is there lost."""
        self.runners.clear()

    async def answer(  # noqa: PLR0911  # a table of routes
        self, method: str, path: list[str], query: str, body: Document
    ) -> Reply:
        """Carry out a request."""
        match method, path:
            case "POST", ["runner", "register"]:
                return self._register(body)
            case "GET", ["runner", "runs"]:
                return await self._poll(query.removeprefix("runner_id="))
            case "POST", ["runner", "heartbeat"]:
                if body["runner_id"] not in self.runners:
                    return UNKNOWN_RUNNER
                self.heartbeats += 1
                return 200, {"ok": True}
            case "POST", ["runner", "runs", run_id, what]:
                return self._say(run_id, what, body)
            case "POST", ["runner", "sessions", session_id, "status"]:
                self.sessions[session_id]["status"] = body["status"]
                return 200, {"ok": True}
            case "DELETE", ["runners", runner_id]:
                return (200, {"ok": True}) if self.runners.pop(runner_id, None) else NOT_FOUND
            case "GET", ["runs", run_id]:
                return (200, self.runs[run_id]) if run_id in self.runs else NOT_FOUND
            case _, ["sessions", session_id, *rest]:
                return self._session(method, session_id, rest, body)
            case _:
                return NOT_FOUND

    def _register(self, body: Document) -> Reply:
        named = [body[name] for name in ("hostname", "project_dir", "executor_profile")] + [body["executor"]["command"]]
        runner_id = "lnch_" + hashlib.sha256(":".join(named).encode()).hexdigest()[:12]
        if runner_id in self.runners:
            return 409, {"detail": {"error": "duplicate_runner", "message": "already online"}}
        self.runners[runner_id] = body
        return 200, {
            "runner_id": runner_id,
            "poll_endpoint": "/runner/runs",
            "poll_timeout_seconds": self.poll_seconds,
            "heartbeat_interval_seconds": self.heartbeat_seconds,
            **self.registration_extra,
        }

    async def _poll(self, runner_id: str) -> Reply:
        if runner_id not in self.runners:
            return UNKNOWN_RUNNER
        try:
            async with asyncio.timeout(self.poll_seconds):
                while not (self.notices or self.pending):
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return 204, None
        if self.notices:
            return 200, self.notices.popleft()
        run = self.pending.popleft()
        run["status"] = "claimed"
        return 200, {"run": run}

    def _say(self, run_id: str, what: str, body: Document) -> Reply:
        run = self.runs.get(run_id)
        if run is None:
            return NOT_FOUND
        run["status"] = {"started": "running"}.get(what, what)
        session = self.sessions[run["session_id"]]
        session["status"] = body.get("session_status", run["status"])
        run.setdefault("said", []).append({what: {name: value for name, value in body.items() if name != "runner_id"}})
        return 200, {"ok": True}

    def _session(self, method: str, session_id: str, rest: list[str], body: Document) -> Reply:
        session = self.sessions.get(session_id)
        if session is None:
            return NOT_FOUND
        rows = self.events.setdefault(session_id, [])
        shown: dict[tuple[str, tuple[str, ...]], Callable[[], Reply]] = {
            ("GET", ()): lambda: (200, {"session": session}),
            ("POST", ("bind",)): lambda: self._bind(session, body),
            ("POST", ("events",)): lambda: self._add_event(rows, body),
            ("GET", ("result",)): lambda: self._result(session, rows),
            ("GET", ("events",)): lambda: (200, {"events": rows[:MAX_ROWS]}),
        }
        return shown.get((method, tuple(rest)), lambda: NOT_FOUND)()

    def _result(self, session: Document, rows: list[Document]) -> Reply:
        if session.get("status") not in {"finished", "idle"}:
            return 400, {"detail": "Session not finished or idle"}
        results = [row for row in rows if row["event_type"] == "result"]
        return (200, results[-1]) if results else (404, {"detail": "No result found"})

    def _bind(self, session: Document, body: Document) -> Reply:
        if not (body.get("hostname") and body.get("executor_profile")):
            return 422, {"detail": [{"loc": ["body", "hostname"], "msg": "field required"}]}
        session |= body
        return 200, session

    def _add_event(self, rows: list[Document], body: Document) -> Reply:
        if not isinstance(body.get("result_data"), dict | None):
            return 422, {"detail": [{"loc": ["body", "result_data"], "msg": "expected an object"}]}
        rows.append(body)
        return 201, {"ok": True}

"""As much of a coordinator as the tools need, in memory. It says what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

Answered = tuple[int, Any]


@dataclass
class SmallCoordinator:
    """Runs end as `ends` says, once they have been asked for `asks_until_end` times."""

    agents: list[dict[str, Any]] = field(default_factory=list)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    ends: dict[str, Any] = field(default_factory=lambda: {"status": "completed"})
    asks_until_end: int = 1
    result_text: str = "Done."
    validation: dict[str, Any] = field(default_factory=dict)
    """Fields of a result that only some servers give."""
    refusal: Answered | None = None
    """Of every run that is posted."""
    asked: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    url: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, session_id: str, parent: str | None = None, status: str = "finished") -> None:
        self.sessions[session_id] = {
            "session_id": session_id, "status": status, "agent_name": "helper", "parent_session_id": parent,
            "created_at": "2026-01-01T00:00:00+00:00", "last_resumed_at": None, "project_dir": "/srv",
        }  # fmt: skip

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._news.clear()
            await self._news.wait()

    async def until_quiet(self, seconds: float) -> None:
        """Wait until nothing has been asked for so long."""
        while True:
            asked = len(self.asked)
            try:
                async with asyncio.timeout(seconds):
                    await self.until(lambda: len(self.asked) > asked)  # noqa: B023  # it is awaited here
            except TimeoutError:
                return

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["SmallCoordinator"]:
        writers: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            try:
                while head := await reader.readuntil(b"\r\n\r\n"):
                    await self._serve_one(head.decode(), reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for writer in writers:
                writer.close()

    async def _serve_one(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = head.splitlines()
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.tokens.add(headers.get("authorization"))
        self.asked.append(f"{method} {target}")
        status, document = self._answer(method, target, json.loads(body) if body else {})
        self._news.set()
        sent = json.dumps(document).encode()
        writer.write(f"HTTP/1.1 {status} OK\r\nContent-Length: {len(sent)}\r\n\r\n".encode() + sent)
        await writer.drain()

    def _answer(self, method: str, target: str, body: dict[str, Any]) -> Answered:  # noqa: C901, PLR0911  # a table
        match method, urlsplit(target).path.split("/")[1:]:
            case "GET", ["agents"]:
                return 200, self.agents
            case "GET", ["sessions"]:
                return 200, {"sessions": list(self.sessions.values())}
            case "GET", ["sessions", session_id, "status"]:
                return 200, {"status": self.sessions.get(session_id, {"status": "not_existent"})["status"]}
            case "GET", ["sessions", session_id, "result"]:
                return 200, {"result_text": self.result_text, "result_data": {"of": session_id}, **self.validation}
            case "POST", ["sessions", session_id, "stop"] if session_id in self.sessions:
                self.sessions[session_id]["status"] = "stopped"
                return 200, {"ok": True, "session_id": session_id, "status": "stopping"}
            case "GET", ["sessions", session_id] if session_id in self.sessions:
                return 200, {"session": self.sessions[session_id]}
            case "DELETE", ["sessions", session_id] if session_id in self.sessions:
                if self.sessions[session_id]["status"] == "running":
                    return 409, {"detail": "Stop session first"}
                del self.sessions[session_id]
                return 200, {"ok": True}
            case "POST", ["runs"]:
                return self.refusal or self._begin(body)
            case "GET", ["runs", _]:
                self.asks_until_end -= 1
                return 200, self.ends if self.asks_until_end <= 0 else {"status": "running"}
            case _:
                return 404, {"detail": "Session not found"}

    def _begin(self, run: dict[str, Any]) -> Answered:
        self.runs.append(run)
        session_id = run.get("session_id", "ses_new")
        self.add(session_id, run.get("parent_session_id"))
        return 201, {"run_id": "run_new", "session_id": session_id, "status": "pending"}

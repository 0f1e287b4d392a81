"""What the tools ask of the coordinator, with the worker's own token and proxies."""

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from pydantic import JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.answers import Answer
from ao_runner.coordinators.http.transport import Exchange
from ao_runner.coordinators.port import CoordinatorUnavailable, CoordinatorUnusable

MAX_DETAIL_CHARACTERS: Final = 20_000
"""A refusal of parameters holds the schema that they do not match, so that the agent can do better."""
MAX_GENERATIONS: Final = 64
_UNDER_WAY: Final = frozenset({"pending", "claimed", "running", "stopping"})
_SESSION_ID: Final = re.compile(r"(?!\.+\Z)[A-Za-z0-9._~:@-]{1,200}")
"""What is one segment of a path, however a server reads it."""


class ToolRefused(Exception):
    """A tool cannot do what it was asked. `details` are fields of its answer beside `error`."""

    def __init__(self, reason: str, **details: str) -> None:
        super().__init__(reason)
        self.details: Mapping[str, str] = details


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a tool waits for a run, and how often it asks."""

    first_pause_seconds: float = 0.1
    longest_pause_seconds: float = 2.0
    growth: float = 1.5
    sync_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class CoordinatorClient:
    """One method for one question. Every method raises `ToolRefused`, whose text is for an agent."""

    exchange: Exchange
    patience: Patience = Patience()  # immutable

    async def agents(self, tags: str | None) -> list[JsonObject]:
        """Return the active agents that have all of the `tags`, which are separated by commas."""
        query = f"?{urlencode({'tags': tags})}" if tags else ""
        body = (await self._asked("GET", f"/agents{query}")).body
        return [agent for agent in _objects(body) if agent.get("status") == "active"]

    async def sessions(self) -> list[JsonObject]:
        """Return all sessions."""
        return _objects((await self._asked("GET", "/sessions")).document.get("sessions"))

    async def status(self, session_id: str) -> str:
        """Return the status of a session: `not_existent` where there is none."""
        if not _SESSION_ID.fullmatch(session_id):
            return "not_existent"
        status = (await self._asked("GET", f"{_path(session_id)}/status")).document.get("status")
        return status if isinstance(status, str) else "not_existent"

    async def result(self, session_id: str) -> JsonObject:
        """Return `{result_text, result_data}` of a session's latest result."""
        return (await self._asked("GET", f"{_path(session_id)}/result")).document

    async def begin(self, run: JsonObject) -> tuple[str, str]:
        """Create a run and return its id and its session's. It is never sent twice."""
        created = (await self._asked("POST", "/runs", run)).document
        return str(created.get("run_id")), str(created.get("session_id"))

    async def is_descendant(self, session_id: str, ancestor: str) -> bool:
        """Tell whether a session was started by another one, or by one that was.

        Raises:
            ToolRefused: there is no such session.
        """
        seen = {session_id}
        while len(seen) <= MAX_GENERATIONS:
            session = (await self._asked("GET", _path(session_id), missing=f"Session not found: {session_id}")).document
            known = session.get("session")
            parent = known.get("parent_session_id") if isinstance(known, dict) else None
            if parent == ancestor:
                return True
            if not isinstance(parent, str) or parent in seen:
                return False
            seen.add(parent)
            session_id = parent
        return False

    async def descendants(self, ancestor: str) -> list[str]:
        """Return the ids of all sessions that a session has started, and those have started, the youngest first."""
        children: dict[JsonValue, list[str]] = {}
        for session in await self.sessions():
            session_id = session.get("session_id")
            if isinstance(session_id, str) and session_id != ancestor:
                children.setdefault(session.get("parent_session_id"), []).append(session_id)
        found: list[str] = []
        waiting = [ancestor]
        while waiting:
            below = [one for one in children.pop(waiting.pop(), []) if _SESSION_ID.fullmatch(one)]
            found += below
            waiting += below
        return found[::-1]

    async def delete(self, session_id: str) -> bool:
        """Delete a session; false where there was none."""
        try:
            await self._asked("DELETE", _path(session_id), missing="gone")
        except ToolRefused as refusal:
            if str(refusal) == "gone":
                return False
            raise
        return True

    async def until_completed(self, run_id: str, gone: asyncio.Event) -> None:
        """Wait until a run has completed, for as long as somebody waits for the answer.

        Raises:
            ToolRefused: it ended otherwise, it took too long, or `gone` was set meanwhile.
        """
        pause = self.patience.first_pause_seconds
        try:
            async with asyncio.timeout(self.patience.sync_seconds):
                while not await self._has_completed(run_id):
                    await _pause(pause, gone)
                    pause = min(self.patience.longest_pause_seconds, pause * self.patience.growth)
        except TimeoutError:
            bound = f"{self.patience.sync_seconds:g} s"
            raise ToolRefused(f"Session timed out: run {run_id} did not complete within {bound}; it goes on") from None

    async def _has_completed(self, run_id: str) -> bool:
        try:
            answer = await self.exchange.ask("GET", f"/runs/{quote(run_id, safe='')}")
        except CoordinatorUnavailable:
            return False  # the run goes on meanwhile
        status = answer.document.get("status") if answer.is_success else None
        if status == "completed":
            return True
        if status in _UNDER_WAY:
            return False
        if status == "failed":
            raise ToolRefused(f"Session failed: Run failed: {answer.document.get('error') or 'no reason given'}")
        if status == "stopped":
            raise ToolRefused(f"Session stopped: run {run_id} was stopped before it completed")
        raise ToolRefused(f"Session failed: run {run_id} cannot be followed: {_reason(answer)}")

    async def _asked(
        self, method: str, path: str, document: JsonObject | None = None, missing: str | None = None
    ) -> Answer:
        """Return a success; `missing` is the reason that stands for 404."""
        try:
            answer = await self.exchange.ask(method, path, document)
        except (CoordinatorUnavailable, CoordinatorUnusable) as error:
            raise ToolRefused(str(error)) from error
        if answer.status == 404 and missing is not None:
            raise ToolRefused(missing)
        if not answer.is_success:
            raise ToolRefused(_reason(answer))
        return answer


async def _pause(seconds: float, gone: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await gone.wait()
    except TimeoutError:
        return
    raise ToolRefused("nobody waits for the answer any more")


def _path(session_id: str) -> str:
    if not _SESSION_ID.fullmatch(session_id):
        raise ToolRefused(f"Session not found: {session_id[:200]}")
    return f"/sessions/{quote(session_id, safe='')}"


def _objects(value: JsonValue) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _reason(answer: Answer) -> str:
    detail = answer.document.get("detail")
    text = detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)
    return f"{answer.status}: {text[:MAX_DETAIL_CHARACTERS]}"

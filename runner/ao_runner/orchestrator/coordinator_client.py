"""The requests of the tools to a coordinator. A failure is raised as `ToolRefused`, whose text is for an agent."""

import asyncio
import json
import re
import time
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

from pydantic import JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http.transport import ServerReply
from ao_runner.coordinators.port import CoordinatorUnavailable, CoordinatorUnusable

MAX_DETAIL_CHARACTERS: Final = 20_000
"""A refusal of parameters contains the schema that they do not match, so that the agent can correct them."""
MAX_GENERATIONS: Final = 64
MARGIN_SECONDS: Final = 20.0
"""How much longer than it may hold back a server may take to answer."""
MOST_HELD: Final = 64
"""Half of the connections of an `Exchange`: other requests need some, too."""
_UNDER_WAY: Final = frozenset({"pending", "claimed", "running", "stopping"})
_SESSION_ID: Final = re.compile(r"(?!\.+\Z)[A-Za-z0-9._~:@-]{1,200}")
"""An id that is one path segment for any server."""


class ToolRefused(Exception):
    """The failure of a tool. `details` are fields of its result beside `error`."""

    def __init__(self, reason: str, **details: str) -> None:
        super().__init__(reason)
        self.details: Mapping[str, str] = details


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a tool waits for a run, and how often it requests the status, in seconds."""

    hold_seconds: float = 25.0
    """How long a server may hold back the status of an open run. Those that cannot answer at once: see the pauses."""
    first_pause_seconds: float = 0.1
    longest_pause_seconds: float = 2.0
    growth: float = 1.5
    sync_seconds: float = 600.0


class ServerAccess(Protocol):
    """The way to a server: an `Exchange`, or a server's own application."""

    async def ask(
        self, method: str, path: str, document: JsonObject | None = None, seconds: float | None = None
    ) -> ServerReply:
        """Return the response to one request, which may take `seconds`. See `Exchange.ask` for what is raised."""


@dataclass(frozen=True, slots=True)
class CoordinatorClient:
    """The requests. Every method raises `ToolRefused`."""

    exchange: ServerAccess
    timeouts: Timeouts = Timeouts()  # immutable
    held: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_HELD))
    """The requests that a server may hold back at a time. What waits beside them asks in intervals."""

    async def sessions(self) -> list[JsonObject]:
        """Return the sessions; of a server that lists no more than a thousand, the newest ones."""
        return objects_in((await self.ask("GET", "/sessions")).document.get("sessions"))

    async def status(self, session_id: str) -> str:
        """Return the status of a session; `not_existent` if it does not exist."""
        if not _SESSION_ID.fullmatch(session_id):
            return "not_existent"
        status = (await self.ask("GET", f"{path_of(session_id)}/status")).document.get("status")
        return status if isinstance(status, str) else "not_existent"

    async def is_descendant(self, session_id: str, ancestor: str) -> bool:
        """Return whether a session was started by `ancestor`, directly or through its descendants.

        Raises:
            ToolRefused: The session does not exist.
        """
        seen = {session_id}
        while len(seen) <= MAX_GENERATIONS:
            session = (await self.ask("GET", path_of(session_id), missing=f"Session not found: {session_id}")).document
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
        """Return the ids of all descendants of a session, each before its parent."""
        children: dict[JsonValue, list[str]] = {}
        after: JsonValue = ""
        while isinstance(after, str):  # a coordinator of the older contract lists all sessions at once
            page = (await self.ask("GET", f"/sessions?{urlencode({'after': after, 'limit': 200})}")).document
            for session in objects_in(page.get("sessions")):
                session_id = session.get("session_id")
                if isinstance(session_id, str) and session_id != ancestor:
                    children.setdefault(session.get("parent_session_id"), []).append(session_id)
            after = page.get("next_after")
        found: list[str] = []
        waiting = [ancestor]
        while waiting:
            below = [one for one in children.pop(waiting.pop(), []) if _SESSION_ID.fullmatch(one)]
            found += below
            waiting += below
        return found[::-1]

    async def delete(self, session_id: str) -> bool:
        """Delete a session; return False if it does not exist."""
        answer = await self._answered("DELETE", path_of(session_id))
        if answer.status == HTTPStatus.NOT_FOUND:
            return False
        _check(answer)
        return True

    async def until_completed(self, run_id: str, gone: asyncio.Event) -> None:
        """Wait until a run has completed, unless `gone` is set because the caller no longer waits.

        Raises:
            ToolRefused: The run failed or was stopped, took too long, or `gone` was set.
        """
        try:
            async with asyncio.timeout(self.timeouts.sync_seconds):
                await _unless(gone, self._followed(run_id))
        except TimeoutError:
            bound = f"{self.timeouts.sync_seconds:g} s"
            raise ToolRefused(f"Session timed out: run {run_id} did not complete within {bound}; it goes on") from None

    async def _followed(self, run_id: str) -> None:
        pause = self.timeouts.first_pause_seconds
        while True:
            hold, asked_at = 0.0 if self.held.locked() else self.timeouts.hold_seconds, time.monotonic()
            async with self.held if hold else nullcontext():
                if await self._has_completed(run_id, hold):
                    return
            if time.monotonic() - asked_at < max(pause, hold / 2):  # the server did not hold back
                await asyncio.sleep(pause)
                pause = min(self.timeouts.longest_pause_seconds, pause * self.timeouts.growth)

    async def _has_completed(self, run_id: str, hold: float) -> bool:
        path = f"/runs/{quote(run_id, safe='')}?wait={hold:g}"  # a server without this parameter ignores it
        try:
            answer = await self.exchange.ask("GET", path, seconds=hold + MARGIN_SECONDS)
        except CoordinatorUnavailable:
            return False  # the run continues meanwhile
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

    async def ask(
        self, method: str, path: str, document: JsonObject | None = None, missing: str | None = None
    ) -> ServerReply:
        """Return the response of a successful request. `missing` is the reason for status 404.

        Raises:
            ToolRefused: The request failed; the text is for an agent.
        """
        answer = await self._answered(method, path, document)
        if answer.status == HTTPStatus.NOT_FOUND and missing is not None:
            raise ToolRefused(missing)
        _check(answer)
        return answer

    async def _answered(self, method: str, path: str, document: JsonObject | None = None) -> ServerReply:
        try:
            return await self.exchange.ask(method, path, document)
        except (CoordinatorUnavailable, CoordinatorUnusable) as error:
            raise ToolRefused(str(error)) from error


async def _unless(gone: asyncio.Event, waiting: Coroutine[Any, Any, None]) -> None:
    """Await a coroutine, unless `gone` is set before its end."""
    tasks = [asyncio.ensure_future(waiting), asyncio.ensure_future(gone.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            raise ToolRefused("nobody waits for the answer any more")
        await tasks[0]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def path_of(session_id: str) -> str:
    """Return the path of a session at a coordinator.

    Raises:
        ToolRefused: No session has such an id.
    """
    if not _SESSION_ID.fullmatch(session_id):
        raise ToolRefused(f"Session not found: {session_id[:200]}")
    return f"/sessions/{quote(session_id, safe='')}"


def objects_in(value: JsonValue) -> list[JsonObject]:
    """Return the objects of a list; none for any other value."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _check(answer: ServerReply) -> None:
    if not answer.is_success:
        raise ToolRefused(_reason(answer))


def _reason(answer: ServerReply) -> str:
    detail = answer.document.get("detail")
    text = detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False)
    return f"{answer.status}: {text[:MAX_DETAIL_CHARACTERS]}"

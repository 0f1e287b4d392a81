"""The record of actions: each request that has changed something, written beside the requests and not before them."""

import asyncio
import sys
from contextlib import suppress
from contextvars import ContextVar
from typing import Final, Self

from ao_protocol.short_text import shorten
from ao_runner.connections import Application, Message, Receive, Send
from ao_runner.errors import RunnerError
from ao_runner.store.action_table import Action
from ao_runner.store.records import timestamp
from ao_server.gate import SAFE, is_call_of_worker
from ao_server.store_access import StoreAccess
from ao_server.who import name_of_sender

TOGETHER_SECONDS: Final = 0.1
"""How long actions wait for others, so that many of them cost one transaction."""
RETRY_SECONDS: Final = 1.0
MOST_WAITING: Final = 10_000
MAX_CHARACTERS: Final = 500
CHECKS: Final = ("/login", "/logout", "/mcp", "/agents/check")
"""Requests that change nothing, or that ask the API for each change."""
_targets: ContextVar[list[str] | None] = ContextVar("targets", default=None)


def note_targets(*names: str) -> None:
    """Let the record of the request that is being answered name what its path does not tell."""
    if (targets := _targets.get()) is not None:
        targets.extend(names)


class ActionLog:
    """Writes actions to the store. Leaving the `with` block writes those that wait."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access
        self._waiting: list[Action] = []
        self._is_needed = asyncio.Event()
        self._closing = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._keep_writing())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        self._is_needed.set()
        await self._task

    def add(self, action: Action) -> None:
        """Write an action soon."""
        if len(self._waiting) >= MOST_WAITING:
            _tell_lost([action])
            return
        self._waiting.append(action)
        self._is_needed.set()

    async def _keep_writing(self) -> None:
        while not self._closing.is_set() or self._waiting:
            await self._is_needed.wait()
            await self._pause(TOGETHER_SECONDS)
            self._is_needed.clear()
            actions, self._waiting = self._waiting, []
            if not actions:
                continue
            try:
                await self._access.write(lambda store: store.actions.add(actions))  # noqa: B023  # awaited here
            except RunnerError:
                if self._closing.is_set():
                    _tell_lost(actions)
                    continue
                self._waiting = [*actions, *self._waiting]
                self._is_needed.set()
                await self._pause(RETRY_SECONDS)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)


class Recording:
    """The ASGI middleware that records successful requests of clients and pages that change something."""

    def __init__(self, inside: Application, log: ActionLog) -> None:
        self._inside = inside
        self._log = log

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or not _is_action(scope["method"], scope["path"]):
            await self._inside(scope, receive, send)
            return
        targets: list[str] = []

        async def send_some(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                # Only the tools of MCP ask without the gate.
                role = f"{scope.get('state', {}).get('role', 'mcp') or ''} {name_of_sender()}".strip()
                what, target = f"{scope['method']} {scope['path']}", " ".join(targets)
                self._log.add(Action(timestamp(), role, _short(what), _short(target)))
            await send(message)

        token = _targets.set(targets)
        try:
            await self._inside(scope, receive, send_some)
        finally:
            _targets.reset(token)


def _is_action(method: str, path: str) -> bool:
    is_check = path in CHECKS or path.endswith("/_check")
    return not (method in SAFE or is_check or is_call_of_worker(method, path))


def _short(text: str) -> str:
    return shorten(text.encode(errors="replace").decode(), MAX_CHARACTERS)  # half a surrogate pair cannot be stored


def _tell_lost(actions: list[Action]) -> None:
    for one in actions:
        sys.stderr.write(f"ao: not recorded, since the store cannot be written: {one!r}\n")

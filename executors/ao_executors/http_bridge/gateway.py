"""The door to the runner's gateway: an HTTP server on this machine that stores what a session says.

Each wait is bounded. What cannot be told is a warning, for the run is worth more than its timeline. Only what a resume
or a procedural agent cannot do without is a failure.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import quote, urlsplit

from ao_executors.core import RunFailed
from ao_protocol.errors import ErrorType
from ao_protocol.wire import JsonObject

CALL_SECONDS: Final = 5.0
MAX_SILENCES: Final = 3
_MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024


class Unanswered(Exception):
    """The gateway cannot be reached, does not answer in time, or does not answer with JSON."""


class Gateway:
    """What one session tells and asks. `warn` gets what could not be told.

    A gateway that has left `MAX_SILENCES` calls in a row unanswered is told nothing more but results: a run must not
    wait for it at every event.
    """

    def __init__(self, url: str, session_id: str, warn: Callable[[str], None]) -> None:
        self._url = urlsplit(url)
        self._session_id = session_id
        self._warn = warn
        self._silences = 0

    async def bind(self, executor_session_id: str, project_dir: str) -> None:
        """Say which session of the executor this is."""
        await self._tell("POST", "/bind", {"executor_session_id": executor_session_id, "project_dir": project_dir})

    async def resumed(self) -> None:
        """Say that the session goes on."""
        await self._tell("PATCH", "/metadata", {"last_resumed_at": _now()})

    async def event(self, fields: JsonObject) -> None:
        """Store an event of the older vocabulary. Its time is now, for rows are ordered by it."""
        await self._tell("POST", "/events", {**fields, "timestamp": _now()})

    async def session(self) -> JsonObject:
        """Return what is known of the session.

        Raises:
            RunFailed: the gateway does not know it, or does not say.
        """
        path = f"/sessions/{quote(self._session_id, safe='')}"
        try:
            status, answer = await self._call("GET", path, None)
        except Unanswered as error:
            text = f"the session {self._session_id!r} cannot be resumed: GET {path}: {error}"
            raise RunFailed(ErrorType.SESSION_NOT_FOUND, text, origin="environment") from error
        session = answer.get("session", answer)
        if status != 200 or not isinstance(session, dict):
            text = f"session {self._session_id!r} not found: GET {path} was answered with {status}; start a new one"
            raise RunFailed(ErrorType.SESSION_NOT_FOUND, text, origin="caller")
        return session

    async def agent(self, name: str) -> JsonObject:
        """Return what is known of an agent; nothing where the gateway does not know it or does not say."""
        try:
            status, answer = await self._call("GET", f"/agents/{quote(name, safe='')}", None)
        except Unanswered as error:
            self._warn(f"the gateway does not tell about the agent {name!r}: {error}")
            return {}
        return answer if status == 200 else {}

    async def _tell(self, method: str, path: str, body: JsonObject) -> None:
        if self._silences >= MAX_SILENCES and body.get("event_type") != "result":
            return
        try:
            status, answer = await self._call(method, path, {**body, "session_id": self._session_id})
        except Unanswered as error:
            self._silences += 1
            self._warn(f"{method} {path} at the gateway: {error}")
            return
        self._silences = 0
        if status >= 400:
            self._warn(f"{method} {path} at the gateway was answered with {status}: {answer.get('detail')!r:.300}")

    async def _call(self, method: str, path: str, body: JsonObject | None) -> tuple[int, JsonObject]:
        try:
            async with asyncio.timeout(2 * CALL_SECONDS):  # the connection's limit is one for each read
                status, text = await asyncio.to_thread(self._ask, method, path, body)
            answer = json.loads(text) if status < 300 and text else {"detail": text.decode(errors="replace")}
        except TimeoutError as error:
            raise Unanswered("no answer in time") from error
        except (OSError, HTTPException, ValueError) as error:
            raise Unanswered(f"{type(error).__name__}: {error}") from error
        return status, answer if isinstance(answer, dict) else {}

    def _ask(self, method: str, path: str, body: JsonObject | None) -> tuple[int, bytes]:
        kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=CALL_SECONDS)
        try:
            data = None if body is None else json.dumps(body).encode()
            headers = {} if data is None else {"Content-Type": "application/json"}
            connection.request(method, self._url.path.rstrip("/") + path, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(_MAX_ANSWER_BYTES)
        finally:
            connection.close()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")

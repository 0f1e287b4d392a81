"""The connection to an agent: JSON-RPC over its stdin and stdout, one message a line.

It is read only while a response is awaited. A line that is no message, such as a banner, is skipped and noted.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ao_executors.core.program import Program
from ao_protocol.framing import LineSplitter, LineTooLong

JsonDocument: TypeAlias = dict[str, Any]
Serve: TypeAlias = Callable[[str, JsonDocument], Awaitable[object]]

_CHUNK_BYTES: Final = 256 * 1024
_MAX_LINE_BYTES: Final = 256 * 1024 * 1024
_MAX_NOTES: Final = 20
_NOTED_CHARACTERS: Final = 500
_METHOD_NOT_FOUND: Final = -32601


@dataclass(eq=False)
class AgentRefused(Exception):  # the situation
    """The agent answered a request with an error."""

    method: str
    code: int
    message: str
    data: object = None

    def __str__(self) -> str:
        told = json.dumps(self.data, ensure_ascii=False) if self.data else ""
        return f"{self.method} failed with {self.code}: {self.message}{f' {told}' if told else ''}"


class AgentEnded(Exception):
    """The agent closed its stdout, or its stdin, while an answer was awaited."""


class MethodUnknown(Exception):
    """The agent called a method that this client does not have."""


async def serve_nothing(method: str, _params: JsonDocument) -> object:
    """Ignore notifications and refuse requests.

    Raises:
        MethodUnknown: Always; it has no effect for a notification.
    """
    raise MethodUnknown(method)


class Peer:
    """One end of a JSON-RPC connection to a program.

    Args:
        program: The running program.
        note: Receives a sentence about a line that is no message; at most 20 of them.
    """

    def __init__(self, program: Program, note: Callable[[str], None]) -> None:
        self.serve: Serve = serve_nothing
        """Called for each request and notification of the agent; its value is the result of a request."""
        self.unanswered: list[object] = []
        """The ids of the agent's requests that wait for an answer."""
        self._program = program
        self._note = note
        self._notes_left = _MAX_NOTES
        self._splitter = LineSplitter(_MAX_LINE_BYTES)
        self._received: deque[JsonDocument] = deque()
        self._last_id = 0

    async def request(self, method: str, params: JsonDocument, *, idle_seconds: float) -> object:
        """Send a request and wait for its result.

        Raises:
            AgentRefused, AgentEnded, TimeoutError: As for `send` and `response`.
        """
        return await self.response(await self.send(method, params, idle_seconds), method, idle_seconds)

    async def send(self, method: str, params: JsonDocument, idle_seconds: float) -> int:
        """Send a request and return its id. Messages that arrived before it are dropped, requests refused.

        Raises:
            AgentEnded: The agent does not read any more.
            TimeoutError: It did not read the request within `idle_seconds`.
        """
        while self._received:
            late = self._received.popleft()
            if "method" in late and "id" in late:
                await self._refuse(late)
        self._last_id += 1
        async with asyncio.timeout(idle_seconds):
            await self._write({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    async def response(self, request_id: int, method: str, idle_seconds: float) -> object:
        """Wait for the response to a request, and serve what the agent sends before it.

        Args:
            request_id: The value of `send`.
            method: The method, for messages.
            idle_seconds: The longest silence. Only messages end it, and other output does not.

        Returns:
            The result, which may be None.

        Raises:
            AgentRefused: The response is an error.
            AgentEnded: The agent closed its stdout.
            TimeoutError: No message came for `idle_seconds`.
        """
        while True:
            message = await self._next(idle_seconds)
            if "method" in message:
                await self._dispatch(message)
            elif message.get("id") == request_id:
                error = message.get("error")
                if error is None:
                    return message.get("result")
                given = as_object(error)
                code = given.get("code")
                told = str(given.get("message") or error)
                raise AgentRefused(method, code if isinstance(code, int) else 0, told, given.get("data"))

    async def notify(self, method: str, params: JsonDocument) -> None:
        """Send a notification. Raises `AgentEnded` if the agent does not read any more."""
        await self._write({"method": method, "params": params})

    async def answer(self, request_id: object, result: object) -> None:
        """Answer a request of the agent, unless it is answered. Raises `AgentEnded` as above."""
        if request_id in self.unanswered:
            self.unanswered.remove(request_id)
            await self._write({"id": request_id, "result": result})

    async def _dispatch(self, message: JsonDocument) -> None:
        params = as_object(message.get("params"))
        is_request = "id" in message
        if is_request:
            self.unanswered.append(message["id"])
        try:
            result = await self.serve(message["method"], params)
        except MethodUnknown:
            if is_request:
                self.unanswered.remove(message["id"])
                await self._refuse(message)
            return
        if is_request:
            await self.answer(message["id"], result)

    async def _refuse(self, request: JsonDocument) -> None:
        error = {"code": _METHOD_NOT_FOUND, "message": f"this client has no {request['method']}"}
        await self._write({"id": request["id"], "error": error})

    async def _write(self, message: JsonDocument) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=True).encode() + b"\n"
        try:
            await self._program.write(line)
        except ConnectionError as error:
            raise AgentEnded from error

    async def _next(self, idle_seconds: float) -> JsonDocument:
        async with asyncio.timeout(idle_seconds):
            while not self._received:
                chunk = await self._program.stdout.read(_CHUNK_BYTES)
                if not chunk:
                    raise AgentEnded
                for line in self._splitter.feed(chunk):
                    self._take(line)
        return self._received.popleft()

    def _take(self, line: bytes | LineTooLong) -> None:
        if isinstance(line, LineTooLong):
            raise line
        message = _message_on(line)
        if message is not None:
            self._received.append(message)
        elif line.strip() and self._notes_left:
            self._notes_left -= 1
            self._note(f"the agent printed: {line.decode(errors='replace')[:_NOTED_CHARACTERS]}")


def as_object(value: object) -> JsonDocument:
    """Return a JSON object, empty if the value is anything else."""
    return value if isinstance(value, dict) else {}


def objects_in(value: object) -> list[JsonDocument]:
    """Return the objects in a JSON list; empty if the value is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _message_on(line: bytes) -> JsonDocument | None:
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        document = json.loads(line)
    except ValueError:
        return None
    is_response = "id" in document and ("result" in document or "error" in document)
    return document if isinstance(document.get("method"), str) or is_response else None

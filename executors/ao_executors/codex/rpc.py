"""The app server's JSON-RPC over stdin and stdout: requests in both directions, and notifications.

The server writes one message a line, without the member `jsonrpc`. It waits for an answer to each of its own requests,
so each is answered: by a handler, or with an error if the handler does not know the method.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any, Final, TypeAlias

from ao_executors.core.program import Program
from ao_protocol.framing import LineSplitter, LineTooLong

Message: TypeAlias = dict[str, Any]
Handler: TypeAlias = "Callable[[str, Message], Awaitable[Message | None]]"
"""Returns the result of a request of the server; None for a method that it does not know."""

_CHUNK_BYTES: Final = 256 * 1024
_MAX_LINE_BYTES: Final = 256 * 1024 * 1024
_UNKNOWN_METHOD: Final = -32601
_EXIT_SECONDS: Final = 2.0
"""How long a server whose output has ended may take to exit."""


class ServerError(Exception):
    """The server answered a request with an error."""


class ServerEnded(Exception):
    """The server ended, or wrote what cannot be read."""

    def __init__(self, exit_code: int | None, told: str) -> None:
        super().__init__(exit_code, told)
        self.exit_code = exit_code
        self.told = told

    def __str__(self) -> str:
        return f"the codex CLI ended with exit code {self.exit_code}{': ' if self.told else ''}{self.told}"


class AppServer:
    """A running app server. `read` is its only reader and runs as an asyncio task."""

    def __init__(self, program: Program) -> None:
        self.handler: Handler | None = None
        """Answers the requests of the server; without one each is an error."""
        self._program = program
        self._ids = count(1)
        # The notifications in their order, an event for each caller of `caught_up`, and None after the last one.
        self._notifications: asyncio.Queue[Message | asyncio.Event | None] = asyncio.Queue()
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._ended: ServerEnded | None = None

    @property
    def is_alive(self) -> bool:
        """False once the end of the server is known."""
        return self._ended is None and self._program.is_running

    async def call(self, method: str, **params: object) -> Message:
        """Send a request and return its result.

        Raises:
            ServerError: The server refuses.
            ServerEnded: It has ended.
        """
        if self._ended is not None:
            raise self._ended
        number, answer = next(self._ids), asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._write({"id": number, "method": method, "params": params})
            response: Message = await answer
        finally:
            self._waiting.pop(number, None)
        if "error" in response:
            raise ServerError(str(response["error"].get("message", response["error"])))
        result: Message = response.get("result") or {}
        return result

    async def notify(self, method: str) -> None:
        """Send a notification without parameters."""
        await self._write({"method": method})

    async def next_notification(self) -> Message:
        """Wait for the next notification.

        Raises:
            ServerEnded: None follows.
        """
        while isinstance(notification := await self._notifications.get(), asyncio.Event):
            notification.set()
        if notification is None:
            self._notifications.put_nowait(None)
            raise self._ended or ServerEnded(None, "")
        return notification

    async def caught_up(self) -> None:
        """Wait until all notifications that have come so far are taken."""
        reached = asyncio.Event()
        self._notifications.put_nowait(reached)
        await reached.wait()

    async def read(self) -> None:
        """Read messages to the end of the output, and answer requests."""
        splitter, answers = LineSplitter(_MAX_LINE_BYTES), set[asyncio.Task[None]]()
        async with asyncio.TaskGroup() as answering:
            while chunk := await self._program.stdout.read(_CHUNK_BYTES):
                for line in splitter.feed(chunk):
                    message = None if isinstance(line, LineTooLong) else _message_on(line)
                    if message is not None and "method" in message and "id" in message:
                        answers.add(answering.create_task(self._answer(message)))
                    elif message is not None:
                        self._take(message)
            await self._end()
            for answer in answers:  # nobody reads them any more
                answer.cancel()

    def _take(self, message: Message) -> None:
        if "method" in message:
            self._notifications.put_nowait(message)
        elif (waiting := self._waiting.get(message.get("id", 0))) is not None and not waiting.done():
            waiting.set_result(message)

    async def _answer(self, request: Message) -> None:
        method, params = str(request["method"]), request.get("params") or {}
        result = await self.handler(method, params) if self.handler is not None else None
        if result is not None:
            await self._write({"id": request["id"], "result": result})
        else:
            error = {"code": _UNKNOWN_METHOD, "message": f"{method} is not answered here"}
            await self._write({"id": request["id"], "error": error})

    async def _write(self, message: Message) -> None:
        with suppress(ConnectionError):  # `read` tells the end of the server
            await self._program.write(json.dumps(message).encode() + b"\n")

    async def _end(self) -> None:
        code, told = None, b""
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_SECONDS):
                code = await self._program.wait()
                told = (await self._program.stderr()).kept
        self._ended = ServerEnded(code, _last_words(told))
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._ended)
        self._notifications.put_nowait(None)


def _message_on(line: bytes) -> Message | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _last_words(stderr: bytes) -> str:
    """Return the last line of stderr that says something; a log line is JSON with the text in `fields.message`."""
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return ""
    entry = _message_on(lines[-1].encode())
    return str(entry["fields"]["message"]) if entry and "message" in entry.get("fields", {}) else lines[-1].strip()

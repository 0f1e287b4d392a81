"""JSON-RPC with an agent over its stdin and stdout, one message a line. Internal.

Nothing reads in the background: whoever waits for the agent reads, and so sees every fault of it. A line that does not
begin as a message, such as a banner, is skipped and noted; of what does, every fault ends the run. A notification is
taken before the message behind it is read. A request of the agent is answered in a task of its own, because it may
wait for a person; the agent is read meanwhile.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ao_executors.core.executor import RunFailed
from ao_executors.core.foreign_json import (
    JsonDocument,
    MessageLines,
    UnreadableMessage,
    as_object,
    read_json,
    readable,
    shown,
    text_of,
)
from ao_executors.core.program import Captured, Program, ProgramEnded
from ao_protocol.errors import ErrorType
from ao_protocol.framing import LineSplitter, LineTooLong, NotIJson

Take: TypeAlias = Callable[[str, JsonDocument], Awaitable[None]]
Reply: TypeAlias = Callable[[str, JsonDocument], Awaitable[JsonDocument | None]]
T = TypeVar("T")

_CHUNK_BYTES: Final = 256 * 1024
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
_MAX_UNANSWERED: Final = 1000
_TOLD_CHARACTERS: Final = 2000
UNKNOWN_METHOD: Final = -32601
_LAST_WORDS_SECONDS: Final = 1.0
_EXIT_SECONDS: Final = 2.0
"""How long a program whose stdout has ended may take to exit."""


class AgentRefused(RunFailed):
    """The agent answered a request with an error: its `code`, and its message as `told`."""

    def __init__(self, method: str, error: object) -> None:
        given = as_object(error)
        code, data = given.get("code"), given.get("data")
        self.method = method
        self.code = code if type(code) is int else 0
        self.told = text_of(given.get("message") or error)
        message = f"{method} failed with {self.code}: {self.told}{f' {text_of(data)}' if data else ''}"
        super().__init__(ErrorType.INTERNAL_ERROR, message, origin="environment")


class Patience(NamedTuple):
    """How long the agent may be silent: in seconds, with the advice and the `origin` of the failure after it."""

    seconds: float
    advice: str
    origin: str = "provider"


class AgentSilent(RunFailed):
    """The agent sent no message for the seconds of a `Patience`."""

    def __init__(self, waits_for: str, name: str, patience: Patience) -> None:
        message = f"{waits_for}: {name} sent no message for {patience.seconds:g} s; {patience.advice}"
        super().__init__(ErrorType.PROVIDER_UNAVAILABLE, message, origin=patience.origin)


class AgentEnded(RunFailed):
    """The agent ended, or closed its stdin or stdout. `told` is the end of its stderr."""

    def __init__(self, name: str, code: int | None, stderr: Captured) -> None:
        self.told = _last_words(stderr.text)
        error_type, told = ErrorType.INTERNAL_ERROR, self.told or "it printed nothing on stderr"
        if code is None:
            message = f"{name} closed its stdin or stdout, and did not exit within {_EXIT_SECONDS:g} s"
        elif why := ProgramEnded(code, Captured(b"", 0), stderr).why_not_started:
            error_type, message = ErrorType.DEPENDENCY_MISSING, f"{name} cannot be started: {why}"
        else:
            how = f"exited with {code}" if code >= 0 else f"died of signal {-code}"
            message = f"{name} {how} before it had answered: {told}"
        super().__init__(error_type, message, origin="environment", retryable=code is not None and code < 0)


async def ignore(_method: str, _params: JsonDocument) -> None:
    """Ignore a notification, and answer to a request that its method is not known."""


class Peer:
    """One end of a JSON-RPC connection to a running program, which messages call `name`.

    At most one coroutine waits for it at a time. Every method that waits raises `AgentEnded` if the program ended, and
    `UnreadableMessage` if it sent what cannot be read. Then the connection is of no further use.
    """

    def __init__(self, program: Program, name: str, header: Mapping[str, str] | None) -> None:
        self.take: Take = ignore
        """Receives each notification."""
        self.reply: Reply = ignore
        """Returns the result of a request; None for an unknown method."""
        self.lines = MessageLines(name)
        self.name = name
        self._program = program
        self._header = {"jsonrpc": "2.0"} if header is None else header
        self._splitter = LineSplitter(_MAX_LINE_BYTES)
        self._received: deque[bytes | LineTooLong] = deque()
        self._responses: dict[int, JsonDocument] = {}
        self._last_id = 0
        self._unanswered: set[int | float] = set()
        self._heard_at = 0.0
        self._is_broken = False
        self._reading: asyncio.Future[bytes] | None = None
        self._closing = asyncio.ensure_future(program.stdin_closed())
        self._writes: set[asyncio.Future[None]] = set()
        self._answers: dict[asyncio.Future[None], str | float] = {}
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_alive(self) -> bool:
        """False once the program has ended or cannot be read."""
        return self._program.is_running and not self._is_broken

    async def call(
        self, method: str, params: JsonDocument, read: Callable[[JsonDocument], T], patience: Patience | None = None
    ) -> T:
        """Send a request and return what `read` makes of its result. Raises as `response` does."""
        return await self.response(self.send(method, params), method, read, patience)

    def send(self, method: str, params: JsonDocument) -> int:
        """Send a request and return its id."""
        self._last_id += 1
        self._unanswered.add(self._last_id)
        self._write({"id": self._last_id, "method": method, "params": params})
        return self._last_id

    async def response(
        self, request_id: int, method: str, read: Callable[[JsonDocument], T], patience: Patience | None = None
    ) -> T:
        """Wait for the response to a request, and serve what the agent sends before it.

        Return what `read` makes of the result, which is empty if it is null. Only messages end a silence, and while
        the agent waits for an answer it may be silent.

        Raises:
            AgentRefused: The response is an error.
            AgentSilent: No message came for the seconds of `patience`.
        """
        await self.serve_until(lambda: request_id in self._responses, patience, method)
        response = self._responses.pop(request_id)
        if response.get("error") is not None:
            raise AgentRefused(method, response["error"])
        result, what = response.get("result"), f"the result of {method}"
        with self._breaks(), readable(self.name, what, result or ""):
            if not isinstance(result, dict | None):
                raise UnreadableMessage(self.name, what, f"it is {shown(result)}, expected an object")
            return read(result or {})

    async def serve_until(
        self, is_over: Callable[[], bool], patience: Patience | None = None, waits_for: str = "its messages"
    ) -> None:
        """Serve what the agent sends until `is_over`. Raises AgentSilent as `response` does."""
        self._heard_at = asyncio.get_running_loop().time()
        with self._breaks():
            while not is_over():
                if not self._received:
                    await self._receive(patience, waits_for)
                else:
                    await self._serve(self._received.popleft())

    async def serve_received(self) -> None:
        """Serve what has been received, and wait for nothing."""
        await self.serve_until(lambda: not self._received)

    def notify(self, method: str, params: JsonDocument | None = None) -> None:
        """Send a notification."""
        self._write({"method": method} if params is None else {"method": method, "params": params})

    def answer_open_requests(self, result: JsonDocument) -> None:
        """Answer the requests of the agent that still wait."""
        for answer, request_id in self._answers.items():
            if not answer.done():
                answer.cancel()
                self._write({"id": request_id, "result": result})

    def fail(self, failure: RunFailed) -> None:
        """End what waits for the agent, now or next, with a failure that was noticed elsewhere."""
        if not self._failure.done():
            self._failure.set_exception(failure)

    async def leave(self) -> None:
        """Stop reading and answering. The caller ends the program."""
        tasks: set[asyncio.Future[Any]] = {self._closing, self._failure, *self._writes, *self._answers}
        tasks |= {self._reading} if self._reading is not None else set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def _breaks(self) -> Iterator[None]:
        """Record that the connection is of no further use if the agent ended or cannot be read."""
        try:
            yield
        except (AgentEnded, UnreadableMessage):
            self._is_broken, self._program.leave_seconds = True, 0.0
            raise

    async def _receive(self, patience: Patience | None, waits_for: str) -> None:
        """Wait until something happens: output, the end of an answer or of a write."""
        if self._reading is None or self._reading.cancelled():  # the end of a run cancels it
            self._reading = asyncio.ensure_future(self._program.stdout.read(_CHUNK_BYTES))
        seconds, is_deaf = None, self._closing.done() and not self._closing.cancelled()
        if is_deaf:  # it cannot be asked anything more, but may have said why
            seconds = _LAST_WORDS_SECONDS
        elif patience is not None and not self._answers:
            seconds = max(0.0, self._heard_at + patience.seconds - asyncio.get_running_loop().time())
        waited: set[asyncio.Future[Any]] = {self._reading, self._failure, *self._answers, *self._writes}
        waited |= set() if is_deaf else {self._closing}
        done, _ = await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            raise await self._end() if is_deaf or patience is None else AgentSilent(waits_for, self.name, patience)
        self._reap(done - {self._reading})
        if self._reading in done:
            chunk, self._reading = self._reading.result(), None
            if not chunk:
                raise await self._end()
            self._received.extend(self._splitter.feed(chunk))

    def _reap(self, done: set[asyncio.Future[Any]]) -> None:
        """Forget what is done, and raise the fault of an answer."""
        for ended in done:
            if ended is self._failure:
                self._failure = asyncio.get_running_loop().create_future()
            self._writes.discard(ended)
            if self._answers.pop(ended, None) is not None:
                self._heard_at = asyncio.get_running_loop().time()
            if not ended.cancelled():
                ended.result()

    async def _end(self) -> AgentEnded:
        return AgentEnded(self.name, *await self._program.ended(_EXIT_SECONDS))

    async def _serve(self, line: bytes | LineTooLong) -> None:
        message = self.lines.read(line, _is_message)
        if message is None:
            return
        self._heard_at = asyncio.get_running_loop().time()
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str):
            self._keep(message)
        elif not isinstance(params, dict | None):
            raise UnreadableMessage(self.name, method, f"its params are {shown(params)}, expected an object")
        elif "id" not in message:
            with readable(self.name, method, params):
                await self.take(method, params or {})
        elif type(message["id"]) not in {str, int, float}:
            raise UnreadableMessage(self.name, method, f"its id is {shown(message['id'])}, expected a text or a number")
        elif self._waits_too_often():
            raise UnreadableMessage(self.name, method, f"{_MAX_UNANSWERED} requests of it wait for an answer, the most")
        else:
            answer = asyncio.ensure_future(self._answer(message["id"], method, params or {}))
            self._answers[answer] = message["id"]
            await asyncio.sleep(0)  # it has begun before the next message is served

    def _waits_too_often(self) -> bool:
        if len(self._answers) >= _MAX_UNANSWERED:
            self._reap({answer for answer in self._answers if answer.done()})
        return len(self._answers) >= _MAX_UNANSWERED

    def _keep(self, response: JsonDocument) -> None:
        number = response["id"]
        if type(number) not in {int, float} or number not in self._unanswered:
            told = f" with the error {shown(response['error'])}" if response.get("error") else ""
            why = f"its id is {shown(number)}, expected that of a request without an answer"
            raise UnreadableMessage(self.name, f"a response{told}", why)
        if "result" not in response and "error" not in response:
            raise UnreadableMessage(self.name, f"the response {number}", "it has neither result nor error")
        self._unanswered.remove(number)
        self._responses[int(number)] = response

    async def _answer(self, request_id: str | float, method: str, params: JsonDocument) -> None:
        with readable(self.name, method, params):
            result = await self.reply(method, params)
        if result is not None:
            self._write({"id": request_id, "result": result})
        else:
            error = {"code": UNKNOWN_METHOD, "message": f"{method} is not answered here"}
            self._write({"id": request_id, "error": error})

    def _write(self, message: Mapping[str, object]) -> None:
        # In a task, because an agent that does not read may be waiting for this side to read.
        line = json.dumps({**self._header, **message}).encode() + b"\n"
        self._writes.add(asyncio.ensure_future(self._written(line)))

    async def _written(self, line: bytes) -> None:
        with suppress(ConnectionError):  # who reads notices that stdin is closed
            await self._program.write(line)


@asynccontextmanager
async def running(
    program: Program, name: str = "the agent", header: Mapping[str, str] | None = None
) -> AsyncIterator[Peer]:
    """Enter the block of a program with a connection to it. Leaving the block ends both."""
    async with program:
        peer = Peer(program, name, header)
        try:
            yield peer
        finally:
            await peer.leave()


def _is_message(document: JsonDocument) -> bool:
    return isinstance(document.get("method"), str) or "id" in document


def _last_words(text: str) -> str:
    """Return the end of stderr. If its last line is JSON of a log, as that of Codex, return the message in it."""
    with suppress(NotIJson):
        told = as_object(as_object(read_json(text[text.rfind("\n") + 1 :])).get("fields")).get("message")
        if isinstance(told, str):
            return told
    return text[-_TOLD_CHARACTERS:]

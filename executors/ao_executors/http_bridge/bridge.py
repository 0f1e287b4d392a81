"""Perform one session for a runner of the older protocol, and send its events to the runner's gateway.

The gateway is an HTTP server on this machine that stores the events of a session. Every wait has a timeout. A failed
request is only a warning, because the run is more important than its timeline. It is a failure only if a resume or a
procedural agent needs the response.
"""

import asyncio
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

from ao_executors.core import NobodyReads, RunFailed
from ao_executors.core.executor import refused
from ao_executors.core.foreign_json import read_json
from ao_executors.core.program import Captured, Program, capture, lines_of
from ao_executors.core.stdio import Stdio
from ao_executors.http_bridge import older_invocation as older
from ao_protocol import events
from ao_protocol.errors import ErrorType
from ao_protocol.framing import MAX_EVENT_BYTES, LineTooLong, NotIJson, decode_object, encode_line
from ao_protocol.lifecycle import LifecycleError, RunLifecycle
from ao_protocol.older_events import error_text, older_event
from ao_protocol.wire import JsonObject

START_SECONDS: Final = 30.0
"""How long `run_started` may take: the 10 s of AOX-091, and the start of the process on a busy machine."""
DESCRIBE_SECONDS: Final = 10.0
LEAVE_SECONDS: Final = 5.0
SAY_SECONDS: Final = 10.0
UNREAD_SECONDS: Final = 1.0
"""How long an answer may wait for its reader after the end of stdin: that runner reads only after the exit."""
MAX_WARNINGS: Final = 20
CALL_SECONDS: Final = 5.0
MAX_SILENCES: Final = 3
_MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
_MAX_DESCRIPTION_BYTES: Final = 1024 * 1024
_SHOWN_STDERR_CHARACTERS: Final = 2000


class ExecutorFailed(Exception):
    """The executor ended a run with a `failure`. The text of the exception is its error."""


async def perform_session(program: Program, start: Callable[..., Program], pipes: "RunnerPipes", url: str) -> None:
    """Perform the invocation, in an executor process that was just started, and the turns after it.

    Args:
        program: The process of the executor.
        start: Starts another process of the executor, with the given arguments.
        pipes: The connection to the runner.
        url: The URL of the gateway.

    Raises:
        RunFailed: A run has no result, and the executor did not report the reason.
        ExecutorFailed: A run has no result, because the executor ended it with a `failure`.
    """
    async with program:
        line = await pipes.next_line()
        if line is None:
            raise refused(ErrorType.INVALID_JSON, "stdin ended before an invocation came")
        invocation = older.upgraded_invocation(line)
        gateway = Gateway(url, str(invocation["session_id"]), pipes.warn)
        invocation = await _completed(invocation, gateway)
        session = BridgedSession(start, pipes, gateway, invocation, older.prompt_of(invocation))
        turn = await session.converse(program, invocation)
    while turn is not None:
        async with start() as another:
            turn = await session.converse(another, older.resumed(invocation, turn, session.bound_id))


async def _completed(invocation: JsonObject, gateway: "Gateway") -> JsonObject:
    """Return the invocation with the fields that only the coordinator knows.

    These are the session to resume, and the program of a procedural agent.
    """
    if invocation.get("mode") == "resume":
        known = await gateway.session()
        bound_id = known.get("executor_session_id")
        if not isinstance(bound_id, str) or not bound_id:
            text = f"session {invocation['session_id']!r} has no executor_session_id to resume; start a new session"
            raise RunFailed(ErrorType.SESSION_NOT_FOUND, text, origin="caller")
        project_dir = known.get("project_dir") or str(Path.cwd())
        invocation = {**invocation, "executor_session_id": bound_id, "project_dir": project_dir}
    if older.lacks_program(invocation):
        agent = await gateway.agent(str(invocation["agent_name"]))
        return older.with_program(invocation, agent, Path(os.environ.get("PROJECT_DIR", ".")) / "scripts")
    return invocation


@dataclass
class BridgedSession:
    """One session, in one or several processes of the executor. `invocation` is its first invocation."""

    start: Callable[..., Program]
    pipes: "RunnerPipes"
    gateway: "Gateway"
    invocation: JsonObject
    unsaid_prompt: str | None
    """The user's message, until it is sent to the gateway."""
    bound_id: str = ""
    """The `executor_session_id` of the session."""
    _executor: str = ""
    _answer_fields: JsonObject | None = None
    _takes_turns: bool | None = None

    @property
    def _is_resume(self) -> bool:
        return self.invocation.get("mode") == "resume"

    async def converse(self, program: Program, invocation: JsonObject) -> older.OlderTurn | None:
        """Perform an invocation and the turns that the process accepts. Return a turn that it does not accept.

        Raises:
            RunFailed: As for `perform_session`.
            ExecutorFailed: As for `perform_session`.
        """
        link, turn = ExecutorLink(program, self.pipes.warn), None
        if not await self._run(link, invocation):
            raise await link.vanished()
        while not self._is_resume and (line := await self.pipes.next_line()) is not None:
            if (turn := older.read_turn(line)) is None:
                break
            self.unsaid_prompt, self._answer_fields = turn.prompt, turn.answer_fields
            await self._say_prompt()
            if not (program.is_running and await self._stays() and await self._run(link, turn.line)):
                break
            turn = None
        await link.leave()
        return turn

    async def _run(self, link: "ExecutorLink", line: JsonObject) -> bool:
        """Relay one run to its end. Return False if the process ended before the run began."""
        lifecycle = RunLifecycle(str(line["run_id"]), str(self.invocation["session_id"]))
        try:
            async with asyncio.timeout(START_SECONDS):
                await link.send(line)
                event = await link.next_event()
        except TimeoutError as error:
            text = f"the executor wrote nothing within {START_SECONDS:.0f} s"
            raise RunFailed(ErrorType.EXECUTOR_START_TIMEOUT, text, origin="executor") from error
        if event is None:
            return False
        while event is not None:
            try:
                lifecycle.receive(event.to_document())
            except LifecycleError as error:
                self.pipes.warn(f"left out an event of the executor: {error}")
            else:
                await self._relay(event.body)
                if event.is_terminal:
                    return True
            event = await link.next_event()
        raise await link.vanished()

    async def _relay(self, body: events.Body) -> None:
        match body:
            case events.RunStarted(executor=executor):
                self._executor = executor.name
            case events.SessionBound(executor_session_id=bound_id, project_dir=project_dir):
                await self._bind(bound_id, project_dir)
                await self._say_prompt()
            case events.Failure():
                raise ExecutorFailed(error_text(body))
            case events.ToolStarted():
                pass  # `tool_finished` has all the fields
            case events.Message() if older.has_contract(self.invocation):
                pass  # the data is the answer
            case _ if (fields := older_event(body)) is not None:
                if not self.bound_id:  # an executor without `resume`: the coordinator requires an id nevertheless
                    await self._bind(f"{self._executor}-{self.invocation['session_id']}", None)
                await self._say_prompt()
                await self.gateway.tell("POST", "/events", {**fields, "timestamp": _now()})
        if isinstance(body, events.Result):
            text = json.dumps(body.result_data) if body.result_text is None else body.result_text
            answer = {"type": "turn_complete", **(self._answer_fields or {}), "result": text}
            await self.pipes.say(text if self._is_resume else json.dumps(answer))

    async def _bind(self, bound_id: str, project_dir: str | None) -> None:
        if bound_id == self.bound_id:
            return
        folder = project_dir or str(self.invocation["project_dir"])
        await self.gateway.tell("POST", "/bind", {"executor_session_id": bound_id, "project_dir": folder})
        if self._is_resume and not self.bound_id:
            await self.gateway.tell("PATCH", "/metadata", {"last_resumed_at": _now()})
        self.bound_id = bound_id

    async def _say_prompt(self) -> None:
        if self.unsaid_prompt is not None:
            text, self.unsaid_prompt = self.unsaid_prompt, None
            content: JsonObject = {"type": "text", "text": text}
            said: JsonObject = {"event_type": "message", "role": "user", "content": [content], "timestamp": _now()}
            await self.gateway.tell("POST", "/events", said)

    async def _stays(self) -> bool:
        """Return whether a process of the executor accepts further turns. Ask `describe` once (AOX-236)."""
        if self._takes_turns is None:
            self._takes_turns = False
            with suppress(TimeoutError, NotIJson):
                async with asyncio.timeout(DESCRIBE_SECONDS), self.start("describe") as program:
                    described = decode_object((await capture(program.stdout, _MAX_DESCRIPTION_BYTES)).kept)
                    capabilities = described.get("capabilities")
                    self._takes_turns = isinstance(capabilities, dict) and capabilities.get("multi_turn") is True
        return self._takes_turns


class RunnerPipes:
    """The connection to the runner: stdin, and stdout and stderr, which the runner reads late or never."""

    def __init__(self, stdio: Stdio, loop: asyncio.AbstractEventLoop, complain: Callable[[str], None]) -> None:
        self._stdio = stdio
        self._loop = loop
        self._complain = complain
        self._lines: asyncio.Queue[bytes | LineTooLong | None] = asyncio.Queue()
        self._warnings = 0
        self._has_ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    async def next_line(self) -> bytes | None:
        """Wait for a line that is not blank; None at the end of stdin."""
        while not isinstance(line := await self._lines.get(), bytes) or not line.strip():
            if line is None:
                return None
            if isinstance(line, LineTooLong):
                raise refused(ErrorType.INVOCATION_TOO_LARGE, f"the turn is too large: {line}")
        return line

    async def say(self, text: str) -> None:
        """Write an answer. If the runner does not read it in time, give up: the gateway already has it."""
        seconds = UNREAD_SECONDS if self._has_ended else SAY_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(self._stdio.write, text.encode(errors="replace") + b"\n")
        except (TimeoutError, NobodyReads):
            self.warn(f"nobody has read the answer on stdout within {seconds:.0f} s; it is cut")
            self._lines = asyncio.Queue()
            self._lines.put_nowait(None)

    def warn(self, text: str) -> None:
        """Write a warning, up to `MAX_WARNINGS`: the runner reads stderr after the exit, so a full pipe would block."""
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            self._complain(f"Warning: {text[:500]}")

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                for line in self._stdio.read_lines():
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        self._has_ended = True
        self._loop.call_soon_threadsafe(self._lines.put_nowait, None)


class ExecutorLink:
    """The connection to the executor: lines in, events out. A line that is not an event is dropped with a warning."""

    def __init__(self, program: Program, warn: Callable[[str], None]) -> None:
        self._program = program
        self._warn = warn
        self._lines = lines_of(program.stdout, MAX_EVENT_BYTES)

    async def send(self, document: JsonObject) -> None:
        """Write a line. If the executor has closed its stdin, drop the line."""
        with suppress(ConnectionError):
            await self._program.write(encode_line(document))

    async def next_event(self) -> events.Event | None:
        """Wait for an event; None at the end of stdout."""
        async for line in self._lines:
            try:
                if isinstance(line, LineTooLong):
                    raise line
                return events.parse_event(line)
            except (LineTooLong, events.InvalidEvent) as error:
                self._warn(f"left out a line of the executor: {error}")
        return None

    async def leave(self) -> tuple[int | None, Captured]:
        """Close the executor's stdin and wait for its end, at most `LEAVE_SECONDS`. Return that of `Program.ended`."""
        self._program.close_stdin()
        return await self._program.ended(LEAVE_SECONDS)

    async def vanished(self) -> RunFailed:
        """Return the failure of an executor that ended, or closed its stdout, without a terminal event."""
        code, stderr = await self.leave()
        how = "closed stdout" if code is None else f"ended with {code}"
        told = stderr.text[-_SHOWN_STDERR_CHARACTERS:] or "empty"
        text = f"the executor {how} and said neither result nor failure; its stderr: {told}"
        return RunFailed(ErrorType.MISSING_TERMINAL, text, origin="executor")


class Gateway:
    """The gateway of one session. `warn` receives the failed requests.

    After `MAX_SILENCES` unanswered calls in a row only results are sent, so that a run does not wait at every event.
    """

    def __init__(self, url: str, session_id: str, warn: Callable[[str], None]) -> None:
        self._url = urlsplit(url)
        self._session_id = session_id
        self._warn = warn
        self._silences = 0

    async def session(self) -> JsonObject:
        """Return the record of the session.

        Raises:
            RunFailed: The gateway does not know the session, or does not answer.
        """
        path = f"/sessions/{quote(self._session_id, safe='')}"
        called = await self._call("GET", path, None)
        if isinstance(called, str):
            text = f"the session {self._session_id!r} cannot be resumed: GET {path}: {called}"
            raise RunFailed(ErrorType.SESSION_NOT_FOUND, text, origin="environment")
        status, answer = called
        session = answer.get("session", answer)
        if status != 200 or not isinstance(session, dict):
            text = f"session {self._session_id!r} not found: GET {path} was answered with {status}; start a new one"
            raise RunFailed(ErrorType.SESSION_NOT_FOUND, text, origin="caller")
        return session

    async def agent(self, name: str) -> JsonObject:
        """Return the record of an agent; empty if the gateway does not know it or does not answer."""
        called = await self._call("GET", f"/agents/{quote(name, safe='')}", None)
        if isinstance(called, str):
            self._warn(f"the gateway does not tell about the agent {name!r}: {called}")
            return {}
        status, answer = called
        return answer if status == 200 else {}

    async def tell(self, method: str, path: str, body: JsonObject) -> None:
        """Send a record of the session to the gateway. A failed request is a warning.

        Events have the current time as timestamp, because the gateway orders them by it.
        """
        if self._silences >= MAX_SILENCES and body.get("event_type") != "result":
            return
        called = await self._call(method, path, {**body, "session_id": self._session_id})
        if isinstance(called, str):
            self._silences += 1
            self._warn(f"{method} {path} at the gateway: {called}")
            return
        self._silences, (status, answer) = 0, called
        if status >= 400:
            self._warn(f"{method} {path} at the gateway was answered with {status}: {answer.get('detail')!r:.300}")

    async def _call(self, method: str, path: str, body: JsonObject | None) -> tuple[int, JsonObject] | str:
        """Return status and answer of the gateway; the reason if it does not answer in time, or not with JSON."""

        def ask() -> tuple[int, bytes]:
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

        try:
            async with asyncio.timeout(2 * CALL_SECONDS):  # the connection's timeout applies to each read
                status, text = await asyncio.to_thread(ask)
            answer = read_json(text) if status < 300 and text else {"detail": text.decode(errors="replace")}
        except TimeoutError:
            return "no answer in time"
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            return f"{type(error).__name__}: {error}"
        return status, answer if isinstance(answer, dict) else {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")

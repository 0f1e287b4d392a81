"""A thread of the app server: it receives prompts and returns answers; its other notifications become events.

Errors of the CLI and the API become failures of the protocol (SPEC 6).
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from ao_executors.codex.api_errors import RetryPolicy, failure_of
from ao_executors.codex.approvals import Approvals, deny
from ao_executors.codex.arguments import MCP_SECONDS, is_native, mcp_servers, thread_parameters
from ao_executors.codex.process import RetryLog, failure_of_end
from ao_executors.codex.rpc import AppServer, Message, ServerEnded, ServerError
from ao_executors.codex.strict_schema import strict_schema
from ao_executors.codex.turn_events import ToolEvents, Transcript
from ao_executors.core import Answer, RunContext, RunFailed, Task
from ao_executors.core.executor import refused
from ao_protocol.contracts import JsonFormat, native_schema
from ao_protocol.errors import ErrorType
from ao_protocol.events import Log, SessionBound, Usage

_INTERRUPT_SECONDS: Final = 3.0
_TOKENS_TOLD: Final = "thread/tokenUsage/updated"
_UNKNOWN_SESSION: Final = ("no rollout found", "invalid session id", "thread not found", "not found for thread")
_BUSY: Final = "already has an active writer"
_FREE_SECONDS: Final = 1.5
_POLL_SECONDS: Final = 0.1
_ATTEMPT: Final = re.compile(r"(\d+)/\d+")
_REFUSED_SCHEMA: Final = ("invalid_json_schema", "Invalid schema for response_format")
_OVER: Final = frozenset({"ready", "failed", "cancelled"})


@asynccontextmanager
async def connection(context: RunContext, server: AppServer, log: RetryLog) -> AsyncIterator["CodexConnection"]:
    """Start or resume a thread of a running app server.

    Raises:
        RunFailed: The CLI ended, does not know the session, or a required MCP server is not available.
    """
    server.handler = deny
    try:
        configured = (await server.call("config/read"))["config"].get("mcp_servers") or {}
        thread = await _open_thread(context, server, configured)
        unavailable = await _unavailable_servers(context, server)
        yield CodexConnection(server, log, thread, unavailable)
    except ServerEnded as error:
        raise failure_of_end(error) from error


async def _open_thread(context: RunContext, server: AppServer, configured: Iterable[str]) -> Message:
    parameters = thread_parameters(context, configured)
    if context.invocation.mode != "resume":
        return await _asked(context, server, "thread/start", parameters | {"experimentalRawEvents": True})
    session = context.invocation.executor_session_id
    if session is None:
        message = "version 2.x names no session of the CLI; resume with executor_session_id of version 3.0"
        raise refused(ErrorType.SESSION_NOT_FOUND, message)
    return await _asked(context, server, "thread/resume", parameters | {"threadId": session, "excludeTurns": True})


async def _asked(context: RunContext, server: AppServer, method: str, parameters: dict[str, Any]) -> Message:
    """Open a thread. A session whose process was just killed is free a moment later."""
    loop = asyncio.get_running_loop()
    busy_until = loop.time() + _FREE_SECONDS
    while True:
        try:
            return await server.call(method, **parameters)
        except ServerError as error:
            told = str(error)
        if _BUSY not in told or loop.time() > busy_until:
            raise _refusal(context, method, told)
        await asyncio.sleep(_POLL_SECONDS)


def _refusal(context: RunContext, method: str, told: str) -> RunFailed:
    if any(words in told for words in _UNKNOWN_SESSION):
        return refused(ErrorType.SESSION_NOT_FOUND, f"the CLI has no such session ({told}); start a new one")
    if _BUSY in told:
        message = f"another run is using the session ({told}); retry when it has ended"
        return RunFailed(ErrorType.SESSION_BUSY, message, origin="caller")
    if context.config.get("codex_config"):
        message = f"executor_config.codex_config: the CLI does not take it: {told}"
        return refused(ErrorType.INVALID_EXECUTOR_CONFIG, message)
    return RunFailed(ErrorType.INTERNAL_ERROR, f"{method}: {told}", origin="environment")


async def _unavailable_servers(context: RunContext, server: AppServer) -> dict[str, str]:
    """Wait for the MCP servers of the blueprint; return the reasons of those that are unavailable and not required.

    Raises:
        RunFailed: A required server is unavailable (`mcp_server_unavailable`); `details.servers` has the reasons.
        ServerEnded: The CLI ended.
    """
    wanted = mcp_servers(context)
    broken = dict.fromkeys(wanted, "did not start in time")
    waiting = set(wanted)
    with suppress(TimeoutError):
        async with asyncio.timeout(MCP_SECONDS + 5):
            while waiting:
                notification = await server.next_notification()
                told = notification.get("params") or {}
                is_status = notification["method"] == "mcpServer/startupStatus/updated"
                if is_status and told["name"] in waiting and told["status"] in _OVER:
                    waiting.remove(told["name"])
                    broken[told["name"]] = told.get("error") or told["status"]
                    if told["status"] == "ready":
                        del broken[told["name"]]
    missing = {name: why for name, why in sorted(broken.items()) if wanted[name].required}
    if missing:
        raise RunFailed(
            ErrorType.MCP_SERVER_UNAVAILABLE,
            f"MCP servers of the blueprint are not available: {'; '.join(f'{n}: {why}' for n, why in missing.items())}",
            origin="environment",
            extra={"details": {"servers": missing}},
        )
    return dict(sorted(broken.items()))


class CodexConnection:
    """A thread of a running app server, for one conversation at a time."""

    def __init__(self, server: AppServer, log: RetryLog, thread: Message, unavailable: dict[str, str]) -> None:
        self.server = server
        self.log = log
        self.session_id: str = thread["thread"]["id"]
        self.model: str | None = thread.get("model")
        self.total_tokens: Message = {}
        """The tokens of the thread so far, earlier runs included."""
        self.is_lost = False
        """True if a turn did not stop after an interrupt."""
        self._unavailable = unavailable

    @property
    def is_alive(self) -> bool:
        """False if the CLI has ended or does not react."""
        return self.server.is_alive and not self.is_lost

    @asynccontextmanager
    async def conversation(self, task: Task) -> AsyncIterator["CodexConversation"]:
        """Begin a run's conversation in the thread.

        Raises:
            RunFailed: The CLI ended.
        """
        bound = SessionBound(project_dir=str(task.project_dir), executor_session_id=self.session_id, model=self.model)
        task.events.emit(bound)
        for name, why in self._unavailable.items():
            message = f"MCP server {name} is not available, and the run continues without it: {why}"
            task.events.emit(Log(level="warning", message=message))
        if task.invocation.limits.max_cost_usd is not None:
            message = "limits.max_cost_usd is not kept: the CLI reports tokens and no cost; use max_turns"
            task.events.emit(Log(level="warning", message=message))
        if task.invocation.mode == "resume":
            # The server reports some calls of a resumed thread nowhere, see `ToolEvents`.
            task.events.may_have_changed_something = True
        codex = CodexConversation(self, task)
        self.server.handler = codex.approvals
        try:
            yield codex
        except ServerEnded as error:
            raise failure_of_end(error) from error
        finally:
            self.server.handler = deny
            if task.limits.takes_turns and self.is_alive:
                await self._end_terminals()

    async def _end_terminals(self) -> None:
        """End the commands that still run: a run leaves nothing behind."""
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                await self.server.call("thread/backgroundTerminals/clean", threadId=self.session_id)
        except (ServerEnded, ServerError, TimeoutError):
            self.is_lost = True


class CodexConversation:
    """A `Model` for one run: a thread of the app server."""

    def __init__(self, connection: CodexConnection, task: Task) -> None:
        self._connection = connection
        self._server = connection.server
        self._task = task
        self.approvals = Approvals(task.inputs, connection.server.caught_up, self._deny)
        self._tools = ToolEvents(task.events)
        self._retries = RetryPolicy.of(task.config)
        self._turn_id = ""
        self._is_active = False
        self._used: Counter[str] = Counter()
        self._answers = 0
        self._calls_before = 0
        config: Any = task.config  # checked against the config schema
        streams = config.get("streaming", True)
        self._transcript = Transcript(task.events, holds_back=task.contract is not None, streams=streams)
        limits: list[int | None] = [config.get("max_turns"), task.invocation.limits.max_turns]
        self._max_answers = min((limit for limit in limits if limit is not None), default=None)

    async def ask(self, text: str) -> Answer:
        """Send a user message and wait for the end of the turn.

        Raises:
            RunFailed: The API, a limit or the CLI ended the turn without an answer.
            ServerEnded: The CLI ended.
        """
        self._transcript.begin_turn()
        self._is_active = False
        starting = asyncio.ensure_future(
            self._server.call(
                "turn/start",
                threadId=self._connection.session_id,
                input=[{"type": "text", "text": text, "text_elements": []}],
                outputSchema=self._native_schema(),
            )
        )
        has_ended = False
        try:
            self._turn_id = (await asyncio.shield(starting))["turn"]["id"]
            turn = await self._read_turn()
            has_ended = True
        finally:
            if not has_ended:
                await self._interrupt(starting)
        return self._end_turn(turn)

    def _deny(self, call_id: str, reason: str) -> None:
        self._tools.deny(call_id, reason)

    def _native_schema(self) -> dict[str, Any] | None:
        contract = self._task.contract
        if contract is None or not is_native(self._task) or not isinstance(contract.format, JsonFormat):
            return None
        return strict_schema(native_schema(contract.format.schema).document)

    async def _interrupt(self, starting: asyncio.Future[Message]) -> None:
        """Interrupt a turn, which may only be starting, and its tools."""
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                self._turn_id = (await starting)["turn"]["id"]
                while not self._is_active:  # until then the server refuses an interrupt
                    await self._next()
                with suppress(ServerError):  # it has just ended by itself
                    await self._server.call(
                        "turn/interrupt", threadId=self._connection.session_id, turnId=self._turn_id
                    )
                while (told := await self._next())["method"] != "turn/completed":
                    if told["method"] == _TOKENS_TOLD:
                        self._count_tokens(told["params"]["tokenUsage"])
        except (ServerEnded, ServerError, TimeoutError):
            self._connection.is_lost = True

    async def _next(self) -> Message:
        """Return the next notification of the turn."""
        while True:
            notification = await self._server.next_notification()
            params = notification.get("params") or {}
            if self._turn_id in (params.get("turnId"), (params.get("turn") or {}).get("id")):
                self._is_active = self._is_active or notification["method"] == "turn/started"
                return notification
            if notification["method"] == _TOKENS_TOLD:
                self._connection.total_tokens = params["tokenUsage"]["total"]  # of an earlier run, after a resume

    async def _read_turn(self) -> Message:
        self._answers = 0
        while True:
            notification = await self._next()
            params: Message = notification["params"]
            match notification["method"]:
                case "item/agentMessage/delta":
                    self._transcript.add_piece(params["itemId"], params["delta"])
                case "item/started":
                    self._start(params["item"])
                case "item/completed":
                    self._finish(params["item"])
                case "rawResponseItem/completed":
                    self._take_raw(params["item"])
                case method if method == _TOKENS_TOLD and self._count_tokens(params["tokenUsage"]):
                    self._count_answer()
                case "error" if params["willRetry"]:
                    await self._retry(params["error"])
                case "turn/completed":
                    turn: Message = params["turn"]
                    return turn

    def _start(self, item: Message) -> None:
        before = self._tools.number
        self._tools.start_item(item)
        if self._tools.number > before:
            self._transcript.show()

    def _finish(self, item: Message) -> None:
        if item["type"] == "agentMessage":
            self._transcript.add(item["id"], item["text"], is_commentary=item.get("phase") == "commentary")
        else:
            self._tools.finish_item(item)

    def _take_raw(self, raw: Message) -> None:
        if raw["type"].endswith("_call"):
            self._transcript.show()
        self._tools.start_call(raw)
        self._tools.finish_call(raw)

    async def _retry(self, error: Message) -> None:
        self._transcript.abandon()
        attempt = _ATTEMPT.search(error["message"])
        delay = await self._connection.log.next_delay()
        self._task.events.emit(self._retries.event_for(error, int(attempt[1]) if attempt else 1, delay))

    def _count_tokens(self, told: Message) -> bool:
        """Count the tokens of the newest answer; return False if they are counted already.

        The difference of two totals would not do: after the compaction of a session, its resume begins without one.
        """
        before, self._connection.total_tokens = self._connection.total_tokens, told["total"]
        if told["total"] == before:  # the server repeats itself around a compaction
            return False
        used = self._used
        used.update(told["last"])
        cached, written = used["cachedInputTokens"], used["cacheWriteInputTokens"]
        usage = Usage(
            input_tokens=max(0, used["inputTokens"] - cached - written),
            output_tokens=used["outputTokens"],
            cache_read_input_tokens=cached,
            cache_creation_input_tokens=written,
        )
        self._task.events.emit(usage)
        return True

    def _count_answer(self) -> None:
        """Count an answer of the model.

        Raises:
            RunFailed: The model answered as often as it may, and has not finished.
        """
        self._transcript.end_response()
        self._answers += 1
        has_called, self._calls_before = self._tools.number > self._calls_before, self._tools.number
        if self._max_answers is not None and has_called and self._answers >= self._max_answers:
            message = f"the model answered {self._answers} times and has not finished (max_turns {self._max_answers})"
            raise RunFailed(ErrorType.LIMIT_EXCEEDED, message, origin="caller")

    def _end_turn(self, turn: Message) -> Answer:
        if turn["status"] == "completed":
            return self._transcript.answer(is_native=is_native(self._task))
        error = turn.get("error") or {"message": f"the turn was {turn['status']}"}
        failed = failure_of(error, self._retries.after)
        if failed.error_type is ErrorType.OUTPUT_TRUNCATED:
            return self._transcript.answer(is_native=is_native(self._task), truncated=True)
        if is_native(self._task) and any(words in error["message"] for words in _REFUSED_SCHEMA):
            message = (
                f"the provider does not take this schema as native output ({failed.message}); use another strategy"
            )
            missing = {"missing": ["output_schema.strategies:native"]}
            raise refused(ErrorType.UNSUPPORTED_CAPABILITY, message, missing)
        raise failed

"""A thread of the app server: it receives prompts and returns answers; its other notifications become events.

Errors of the CLI and the API become failures of the protocol (SPEC 6).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ao_executors.codex.approvals import Approvals, deny
from ao_executors.codex.attached_images import attached_images
from ao_executors.codex.codex_api_errors import CodexRetries, failure_of
from ao_executors.codex.codex_arguments import MCP_SECONDS, thread_parameters
from ao_executors.codex.codex_process import START, RetryLog
from ao_executors.codex.codex_turn import CodexMessages, CodexTools, CodexWork
from ao_executors.codex.strict_schema import strict_schema
from ao_executors.core import Answer, RunContext, RunFailed, Task
from ao_executors.core.answer_tool import SERVER, AnswerTool, is_offered, served_by_program
from ao_executors.core.conversation import Submissions
from ao_executors.core.executor import NativeRefused, lowest, refused
from ao_executors.core.foreign_json import JsonDocument, UnreadableMessage, readable, shown, text_of
from ao_executors.core.json_rpc import AgentRefused, Peer
from ao_executors.vendors.agent_cli import earlier_session
from ao_executors.vendors.mcp_servers import blueprint_servers, unavailable_servers, warn_of_unavailable
from ao_executors.vendors.provider_errors import refuses_schema
from ao_protocol.contracts import JsonFormat, Strategy, native_schema
from ao_protocol.errors import ErrorType
from ao_protocol.events import Log, SessionBound

_INTERRUPT_SECONDS: Final = 3.0
_TOKENS_TOLD: Final = "thread/tokenUsage/updated"
_UNKNOWN_SESSION: Final = ("no rollout found", "invalid session id", "thread not found", "not found for thread")
_BUSY: Final = "already has an active writer"
_FREE_SECONDS: Final = 1.5
_POLL_SECONDS: Final = 0.1
_ATTEMPT: Final = re.compile(r"(\d+)/\d+")
_REFUSED_SUMMARY: Final = ("reasoning.summary", "reasoning summaries")
_OVER: Final = frozenset({"ready", "failed", "cancelled"})


@asynccontextmanager
async def connection(context: RunContext, server: Peer, log: RetryLog) -> AsyncIterator["CodexConnection"]:
    """Start or resume a thread of a running app server.

    Raises:
        RunFailed: The CLI ended, does not know the session, or a required MCP server is not available.
    """
    early, answer_tool = _Early(), AnswerTool(context)
    server.take, server.reply = early.take, deny
    configured = await server.call("config/read", {}, lambda told: [*(told["config"].get("mcp_servers") or {})], START)
    async with AsyncExitStack() as held:
        bound = await _open_thread(context, server, configured, answer_tool, held)
        unavailable = await _unavailable_servers(context, server, early)
        yield CodexConnection(server, log, bound, unavailable, early, answer_tool)


@dataclass
class _Early:
    """What the server tells outside of a turn."""

    total_tokens: dict[str, JsonDocument] = field(default_factory=dict)
    """The tokens of each thread so far, earlier runs included."""
    faults: dict[str, str | None] = field(default_factory=dict)
    """The MCP servers whose start is over: why one does not run; None if it runs."""

    async def take(self, method: str, params: JsonDocument) -> None:
        """Take a notification."""
        if method == _TOKENS_TOLD:
            self.total_tokens[params["threadId"]] = params["tokenUsage"]["total"]
        elif method == "mcpServer/startupStatus/updated" and params["status"] in _OVER:
            is_ready = params["status"] == "ready"
            self.faults[params["name"]] = None if is_ready else text_of(params.get("error") or params["status"])


async def _open_thread(
    context: RunContext, server: Peer, configured: Iterable[str], answer_tool: AnswerTool, held: AsyncExitStack
) -> SessionBound:
    """Start or resume a thread. A thread keeps the tools of its start, so that a resume brings one by an MCP server."""
    session = earlier_session(context, "the CLI")
    if session is None:
        tools = [{"type": "function", **answer_tool.definition}] if answer_tool.is_offered else None
        more = {"experimentalRawEvents": True, "dynamicTools": tools}
        return await _bound(context, server, "thread/start", thread_parameters(context, configured) | more)
    answering = await held.enter_async_context(served_by_program(answer_tool))
    parameters = thread_parameters(context, configured, answering)
    return await _bound(context, server, "thread/resume", parameters | {"threadId": session, "excludeTurns": True})


async def _bound(context: RunContext, server: Peer, method: str, parameters: JsonDocument) -> SessionBound:
    """Open a thread. A session whose process was just killed is free a moment later."""
    loop = asyncio.get_running_loop()
    busy_until = loop.time() + _FREE_SECONDS
    folder = str(context.project_dir)
    while True:
        try:
            return await server.call(
                method,
                parameters,
                lambda told: SessionBound(
                    project_dir=folder, executor_session_id=told["thread"]["id"], model=told.get("model")
                ),
                START,
            )
        except AgentRefused as error:
            told = error.told
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


async def _unavailable_servers(context: RunContext, server: Peer, early: _Early) -> dict[str, str]:
    """Wait for the MCP servers of the blueprint; return the reasons of those that are unavailable and not required.

    Raises:
        RunFailed: A required server is unavailable (`mcp_server_unavailable`); `details.servers` has the reasons.
    """
    wanted = blueprint_servers(context.invocation)
    waited = {*wanted, *([SERVER] if is_offered(context) and context.invocation.mode == "resume" else [])}
    with suppress(TimeoutError):
        async with asyncio.timeout(MCP_SECONDS + 5):
            await server.serve_until(lambda: waited <= early.faults.keys())
    return unavailable_servers(wanted, {name: early.faults.get(name, "did not start in time") for name in wanted})


@dataclass
class CodexConnection:
    """A thread of a running app server, for one conversation at a time."""

    server: Peer
    log: RetryLog
    bound: SessionBound
    unavailable: dict[str, str]
    """The MCP servers without which runs continue, and why they are not available."""
    early: _Early
    answer_tool: AnswerTool
    is_lost: bool = False
    """True if a turn did not stop after an interrupt."""

    @property
    def is_alive(self) -> bool:
        """False if the CLI has ended or does not react."""
        return self.server.is_alive and not self.is_lost

    @asynccontextmanager
    async def conversation(self, task: Task) -> AsyncIterator["CodexConversation"]:
        """Begin a run's conversation in the thread.

        Raises:
            RunFailed: The CLI ended, or an attachment is not of its media type.
        """
        self.server.lines.note = lambda note: task.events.emit(Log(level="info", message=note))
        task.events.emit(self.bound)
        warn_of_unavailable(task.events, self.unavailable)
        if task.invocation.mode == "resume":
            # The server reports some calls of a resumed thread nowhere, see `CodexTools`.
            task.events.may_have_changed_something = True
        async with attached_images(task.attachments) as images:
            codex = CodexConversation(self, task, images)
            self.server.take, self.server.reply = codex.take, codex.reply
            try:
                yield codex
            finally:
                self.server.take, self.server.reply = self.early.take, deny
                self.answer_tool.submissions = None
                if task.limits.takes_turns and self.is_alive:
                    await self._end_work(codex.agents)

    async def _end_work(self, agents: Mapping[str, "_SubAgent"]) -> None:
        """End the sub-agents and commands that still work: a run leaves nothing behind."""
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                for thread, agent in agents.items():
                    if agent.turn_id:
                        with suppress(AgentRefused):  # it has just ended by itself
                            turn = {"threadId": thread, "turnId": agent.turn_id}
                            await self.server.call("turn/interrupt", turn, bool)
                for thread in (self.bound.executor_session_id, *agents):
                    await self.server.call("thread/backgroundTerminals/clean", {"threadId": thread}, bool)
        except (RunFailed, TimeoutError):
            self.is_lost = True


@dataclass
class _SubAgent:
    """An agent that the model has started, in a thread of its own."""

    work: CodexWork
    turn_id: str = ""
    """That of its turn; empty: it does nothing."""


class CodexConversation:
    """A `Model` for one run: a thread of the app server.

    Args:
        connection: The thread.
        task: The run.
        images: The input items before the first prompt.
    """

    def __init__(self, connection: CodexConnection, task: Task, images: list[JsonDocument]) -> None:
        self._images = images
        self._connection = connection
        self._server = connection.server
        self._task = task
        self._tools = CodexTools(task.events, submits=connection.answer_tool.is_offered)
        self.approvals = Approvals(task.inputs, self._tools.deny, task.config)
        self.agents: dict[str, _SubAgent] = {}
        self._retries = CodexRetries.of(task.config)
        self._is_native = task.contract is not None and task.contract.strategy is Strategy.NATIVE
        self._turn_id = ""
        self._is_active = False
        self._is_interrupted = False
        self._turn: JsonDocument | None = None
        self._answers = 0
        self._calls_before = 0
        self._work = self._work_in(None)
        self._transcript = self._work.messages
        self._max_answers = lowest(task.config.get("max_turns"), task.invocation.limits.max_turns)

    def _work_in(self, call_id: str | None) -> CodexWork:
        messages = CodexMessages(
            self._task.events,
            holds_back=self._task.contract is not None and call_id is None,
            streams=self._task.config.get("streaming", True),
            shows_reasoning=self._task.config.get("show_reasoning", True),
        )
        return CodexWork(self._task.events, self._tools, messages, call_id)

    async def ask(self, text: str) -> Answer:
        """Send a user message and wait for the end of the turn.

        Raises:
            RunFailed: The API, a limit or the CLI ended the turn without an answer.
        """
        self._transcript.begin_turn()
        self._turn_id, self._turn, self._is_active, self._answers = "", None, False, 0
        prompt = [*self._images, {"type": "text", "text": text, "text_elements": []}]
        self._images = []
        thread, schema = self._connection.bound.executor_session_id, self._native_schema()
        request = self._server.send("turn/start", {"threadId": thread, "input": prompt, "outputSchema": schema})
        try:
            self._turn_id = await self._server.response(request, "turn/start", _id_of_turn)
            await self._server.serve_until(lambda: self._turn is not None)
        except AgentRefused:
            raise
        except BaseException:  # a cancellation, too
            if self._server.is_alive:
                await self._interrupt(request)
            raise
        with readable(self._server.name, "turn/completed", self._turn):
            return self._end_turn(self._turn or {})

    def offer_tool(self, submissions: Submissions) -> None:
        """Let the calls of `submit_answer` be judged, as long as the conversation lasts."""
        self._connection.answer_tool.submissions = submissions

    async def reply(self, method: str, params: JsonDocument) -> JsonDocument | None:
        """Return the answer to a request of the server; None for an unknown method."""
        if method != "item/tool/call":
            return await self.approvals(method, params)
        is_part = params["threadId"] != self._connection.bound.executor_session_id
        text, is_error = self._connection.answer_tool.call(params["arguments"], is_part=is_part)
        return {"success": not is_error, "contentItems": [{"type": "inputText", "text": text}]}

    def _native_schema(self) -> dict[str, Any] | None:
        contract = self._task.contract
        if contract is None or not self._is_native or not isinstance(contract.format, JsonFormat):
            return None
        return strict_schema(native_schema(contract.format.schema).document)

    async def _interrupt(self, request: int) -> None:
        """Interrupt a turn, which may only be starting, and its tools."""
        self._is_interrupted = True
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                if not self._turn_id:
                    self._turn_id = await self._server.response(request, "turn/start", _id_of_turn)
                # Until the turn is active, the server refuses an interrupt.
                await self._server.serve_until(lambda: self._is_active or self._turn is not None)
                turn = {"threadId": self._connection.bound.executor_session_id, "turnId": self._turn_id}
                with suppress(AgentRefused):  # it has just ended by itself
                    await self._server.call("turn/interrupt", turn, bool)
                await self._server.serve_until(lambda: self._turn is not None)
        except (RunFailed, TimeoutError):
            self._connection.is_lost = True

    async def take(self, method: str, params: JsonDocument) -> None:
        """Take a notification of the server: those of the turn become events."""
        turn_id = params.get("turnId") or (params.get("turn") or {}).get("id")
        if agent := self.agents.get(params.get("threadId", "")):
            await self._take_of_agent(agent, method, params, turn_id)
        elif turn_id != self._turn_id:
            await self._take_other(method, params)
        elif method == "turn/started":
            self._is_active = True
        elif method == "turn/completed":
            self._turn = {**params["turn"]}
        elif method == _TOKENS_TOLD:
            if self._count_tokens(params) and not self._is_interrupted:
                self._count_answer()
        elif not self._is_interrupted:
            await self._take_event(self._work, method, params)
            self._connection.answer_tool.raise_failure()

    async def _take_of_agent(self, agent: _SubAgent, method: str, params: JsonDocument, turn_id: str | None) -> None:
        """Take a notification of a sub-agent's thread."""
        agent.turn_id = turn_id or agent.turn_id
        if method == "turn/completed":
            agent.turn_id = ""
            self._tools.release(agent.work.parent or "")
        elif method == _TOKENS_TOLD:
            self._count_tokens(params)
        elif not self._is_interrupted:
            await self._take_event(agent.work, method, params)

    async def _take_other(self, method: str, params: JsonDocument) -> None:
        """Take a notification that names another turn, or none."""
        thread = params.get("threadId")
        is_of_thread = not isinstance(thread, str) or thread == self._connection.bound.executor_session_id
        if method == "turn/completed" and is_of_thread:
            why = f"its turn is not {shown(self._turn_id)}, which is the one of the thread"
            raise UnreadableMessage(self._server.name, method, f"{why}: {shown(params)}")
        await self._connection.early.take(method, params)  # the total of an earlier run comes after a resume

    async def _take_event(self, work: CodexWork, method: str, params: JsonDocument) -> None:
        if method == "error" and params["willRetry"]:
            await self._retry(work.messages, params["error"])
        elif method == "item/started" and params["item"]["type"] == "subAgentActivity":
            self._take_agent(params["item"], work.parent)
        else:
            work.take(method, params)

    def _take_agent(self, item: JsonDocument, parent: str | None) -> None:
        """Take that a sub-agent got work by a call, which then ends with the agent's turn (AOX-095)."""
        agent = self.agents.get(item["agentThreadId"])
        if item["kind"] in {"started", "interacted"} and (agent is None or not agent.turn_id):
            self._tools.hold(item, parent)
            self.agents[item["agentThreadId"]] = _SubAgent(self._work_in(item["id"]))

    async def _retry(self, messages: CodexMessages, error: JsonDocument) -> None:
        messages.abandon()
        attempt = _ATTEMPT.search(error["message"])
        delay = await self._connection.log.next_delay()
        self._task.events.emit(self._retries.scheduled(error, int(attempt[1]) if attempt else 1, delay))

    def _count_tokens(self, params: JsonDocument) -> bool:
        """Count the tokens of the newest answer; return False if they are counted already.

        The difference of two totals would not do: after the compaction of a session, its resume begins without one.
        """
        told, totals = params["tokenUsage"], self._connection.early.total_tokens
        before, totals[params["threadId"]] = totals.get(params["threadId"]), told["total"]
        if told["total"] == before:  # the server repeats itself around a compaction
            return False
        last = told["last"]
        cached, written = last.get("cachedInputTokens", 0), last.get("cacheWriteInputTokens", 0)
        self._task.events.add_usage(
            {
                "input_tokens": max(0, last.get("inputTokens", 0) - cached - written),
                "output_tokens": last.get("outputTokens", 0),
                "cache_read_input_tokens": cached,
                "cache_creation_input_tokens": written,
                "reasoning_tokens": last.get("reasoningOutputTokens", 0),
            }
        )
        return True

    def _count_answer(self) -> None:
        """Count an answer of the model.

        Raises:
            RunFailed: The model answered as often as it may, and has not finished.
        """
        self._transcript.end_response()
        self._answers += 1
        calls = self._work.call_count
        has_called, self._calls_before = calls > self._calls_before, calls
        if self._max_answers is not None and has_called and self._answers >= self._max_answers:
            message = f"the model answered {self._answers} times and has not finished (max_turns {self._max_answers})"
            raise RunFailed(ErrorType.LIMIT_EXCEEDED, message, origin="caller")

    def _end_turn(self, turn: JsonDocument) -> Answer:
        for agent in self.agents.values():
            if not agent.turn_id:  # it was told something, and has done nothing
                self._tools.release(agent.work.parent or "")
        if turn["status"] == "completed":
            return self._transcript.end("end_turn", is_native=self._is_native)
        error = turn.get("error") or {"message": f"the turn was {shown(turn['status'])}"}
        failed = failure_of(error, self._retries.after)
        if failed.error_type is ErrorType.OUTPUT_TRUNCATED:
            return self._transcript.end("max_tokens", is_native=self._is_native)
        if self._is_native and refuses_schema(error["message"]):
            raise NativeRefused(failed.message)
        if any(words in error["message"] for words in _REFUSED_SUMMARY):
            failed.message += "; or set executor_config.show_reasoning to false"
        raise failed


def _id_of_turn(told: JsonDocument) -> str:
    turn_id = told["turn"]["id"]
    if not isinstance(turn_id, str) or not turn_id:
        raise TypeError("expected a text that is not empty")
    return turn_id

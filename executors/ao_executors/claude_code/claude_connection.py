"""A CLI that the SDK is connected to: it receives prompts and returns answers; its other messages become events.

Errors of the CLI and the API become failures of the protocol (SPEC 6).
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ao_executors.claude_code.claude_answer_tool import ClaudeAnswerTool
from ao_executors.claude_code.claude_arguments import budget_usd, shows_reasoning
from ao_executors.claude_code.claude_permissions import ClaudePermissions
from ao_executors.claude_code.claude_process import CLAUDE, ClaudeProcess
from ao_executors.claude_code.claude_prompt import user_message
from ao_executors.claude_code.claude_turn import ClaudeMessages, ClaudeTools
from ao_executors.claude_code.cli_files import SessionLock, shortened
from ao_executors.claude_code.sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    CLIConnectionError,
    ProcessError,
    RateLimitEvent,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    UserMessage,
)
from ao_executors.claude_code.transport import NAME, ProcessTransport
from ao_executors.claude_code.usage_limit import UsageLimit
from ao_executors.core import Answer, RunContext, RunFailed, Task
from ao_executors.core.answer_tool import SERVER, is_offered
from ao_executors.core.conversation import Submissions
from ao_executors.core.executor import NativeRefused, input_required, refused
from ao_executors.core.foreign_json import UnreadableMessage, readable
from ao_executors.vendors.agent_versions import refuse_too_old
from ao_executors.vendors.claude_retries import retries_of, type_of_api_error
from ao_executors.vendors.mcp_servers import blueprint_servers, unavailable_servers, warn_of_unavailable
from ao_executors.vendors.provider_errors import origin_of, refuses_schema
from ao_protocol.contracts import NativeOutput, Strategy
from ao_protocol.errors import ErrorType
from ao_protocol.events import SessionBound

_START_SECONDS: Final = 50.0
"""How long the CLI may take to answer. The SDK gives up after 60 s, with an exception that has no type of its own."""
_CONNECT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05
_INTERRUPT_SECONDS: Final = 3.0
_NO_STRUCTURED_OUTPUT: Final = "error_max_structured_output_retries"
_BY_TERMINAL_REASON: Final = {
    "prompt_too_long": ErrorType.CONTEXT_WINDOW_EXCEEDED,
    "blocking_limit": ErrorType.CONTEXT_WINDOW_EXCEEDED,  # by the CLI's own count, before a request
    "max_turns": ErrorType.LIMIT_EXCEEDED,
    "budget_exhausted": ErrorType.LIMIT_EXCEEDED,
}
_FIGURES: Final = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
    "cost_usd": "costUSD",
    "reasoning_tokens": "thinkingTokens",
}
"""The names in the protocol's `usage`, and in what the CLI tells about each model."""
_REFUSED: Final = frozenset({"rate_limit", "unknown"})
"""The CLI's names of an error, and a message of its own without one, by which a reached limit ends a turn."""
_UNSENDABLE_KEY: Final = "Invalid API key"
_UNKNOWN_SESSION: Final = ("No conversation found", "--resume requires a valid session ID")
_KNOWN_SESSION: Final = "already in use"
"""The CLI's message for a session that exists. `SessionLock` checks whether a run is using it."""
_SESSION_EXISTS: Final = (
    "session_id: a session with this id exists; continue it with mode resume, or start one with another id"
)
_ROOT: Final = "cannot be used with root"
_NOT_AS_ROOT: Final = (
    "the CLI does not take bypassPermissions, which access all means, from root: run as another user, set IS_SANDBOX=1 "
    "in a container that may be lost, or use dontAsk with allowed_tools"
)
_REFUSED_SCHEMA: Final = "--json-schema is not a valid JSON Schema"
_BAD_REQUEST: Final = 400


@asynccontextmanager
async def connection(
    context: RunContext, process: ClaudeProcess, lock: SessionLock
) -> AsyncIterator["ClaudeConnection"]:
    """Connect to a running CLI.

    Raises:
        RunFailed: The CLI ended, does not know the session, or a required MCP server is not available.
    """
    transport = ProcessTransport(process, ClaudeAnswerTool(context))
    permissions = ClaudePermissions(context)
    options = ClaudeAgentOptions(
        verbatim_prompts=True,
        forward_subagent_text=True,
        hooks=permissions.hooks,  # type: ignore[arg-type]  # by event
    )
    if permissions.asks:
        options.can_use_tool = permissions.can_use
    client = ClaudeSDKClient(options, transport=transport)
    try:
        await _connect(client)
        for text in process.texts:  # the prompt and the secrets: a CLI that has answered has read them
            text.forget()
        with readable(NAME, "the status of its MCP servers"):
            unavailable = await _unavailable_servers(client, context)
        has_budget = budget_usd(context) is not None
        yield ClaudeConnection(client, transport, lock, unavailable, permissions, has_budget)
    except ClaudeSDKError as error:
        raise failure_of_sdk(error) from error
    finally:
        await client.disconnect()


async def _connect(client: ClaudeSDKClient) -> None:
    try:
        with readable(NAME, "an answer"):
            async with asyncio.timeout(_START_SECONDS):
                await client.connect()
    except TimeoutError as error:
        message = f"{NAME} did not answer within {_START_SECONDS:g} s; try again, or use another version"
        raise RunFailed(ErrorType.PROVIDER_UNAVAILABLE, message, origin="environment") from error


@dataclass
class ClaudeConnection:
    """The connected CLI, for one conversation at a time."""

    client: ClaudeSDKClient
    transport: ProcessTransport
    lock: SessionLock
    unavailable: dict[str, str]
    """The MCP servers without which runs continue, and why they are not available."""
    permissions: ClaudePermissions
    has_budget: bool
    is_lost: bool = False
    """True if the CLI did not stop after an interrupt, so that its next messages are unpredictable."""
    limit: UsageLimit = field(default_factory=UsageLimit)
    """The last report of the CLI, which does not repeat it in the next conversation."""

    @property
    def is_alive(self) -> bool:
        """False if the CLI has ended, does not react, or has begun a turn by itself, and after a run with a budget.

        The messages of such a turn would be read as the next answer. The CLI counts a budget from its start, while it
        applies to a single run.
        """
        return self.transport.process.program.is_running and not self.transport.spoke_unasked and not self.is_lost

    @asynccontextmanager
    async def conversation(self, task: Task) -> AsyncIterator["ClaudeConversation"]:
        """Begin a run's conversation in the session.

        Raises:
            RunFailed: The CLI ended.
        """
        warn_of_unavailable(task.events, self.unavailable)
        claude = ClaudeConversation(self, task)
        self.permissions.begin(task, claude.tools)
        self.transport.is_asked = True
        try:
            if task.invocation.input_responses is not None:
                await self.permissions.wait_for_deferred(_CONNECT_SECONDS)
            yield claude
        except ClaudeSDKError as error:
            raise failure_of_sdk(error) from error
        finally:
            self.transport.is_asked = False
            self.transport.answer_tool.submissions = None
            self.is_lost |= self.has_budget


async def _unavailable_servers(client: ClaudeSDKClient, context: RunContext) -> dict[str, str]:
    """Wait for the MCP servers of the blueprint; return the reasons of those that are unavailable and not required.

    Raises:
        RunFailed: A required server is unavailable (`mcp_server_unavailable`); `details.servers` has the reasons.
    """
    wanted = blueprint_servers(context.invocation)
    waited = {*wanted, *([SERVER] if is_offered(context) else [])}
    faults: dict[str, str | None] = dict.fromkeys(wanted, "did not connect in time")
    with suppress(TimeoutError):
        async with asyncio.timeout(_CONNECT_SECONDS):
            while any(faults.values()) or is_offered(context):
                status = await client.get_mcp_status()
                states = {server["name"]: server for server in status["mcpServers"]}
                faults = {name: _fault_in(states[name]) if name in states else "is unknown" for name in wanted}
                if not any(name in states and states[name]["status"] == "pending" for name in waited):
                    break
                await asyncio.sleep(_POLL_SECONDS)
    return unavailable_servers(wanted, faults)


def _fault_in(state: Mapping[str, Any]) -> str | None:
    return None if state["status"] == "connected" else str(state.get("error") or state["status"])


class ClaudeConversation:
    """A `Model` for one run: the CLI, through the SDK."""

    def __init__(self, connection: ClaudeConnection, task: Task) -> None:
        self.tools = ClaudeTools(task.events, task.config)
        self._connection = connection
        self._client = connection.client
        self._task = task
        self._api_errors = connection.transport.process.api_errors
        self._limit = connection.limit
        self._has_warned = False
        self._transcript = ClaudeMessages(
            task.events, holds_back=task.contract is not None, shows_reasoning=shows_reasoning(task.config)
        )
        self._attachments = task.attachments
        self._retries = retries_of(task.config)
        self._is_native = task.contract is not None and task.contract.strategy is Strategy.NATIVE
        self._is_bound = False

    async def ask(self, text: str) -> Answer:
        """Send a user message and wait for the end of the turn.

        Raises:
            RunFailed: The API, a limit or the CLI ended the turn without an answer.
        """
        attachments, self._attachments = self._attachments, ()  # a second request of the run does not repeat them
        if text:  # a resume with answers adds no user message: the CLI goes on with the call that it has deferred
            await self._client.query(user_message(attachments, text))
        has_ended = False
        try:
            with readable(NAME, "a message of a turn"):
                result = await self._read_turn()
                has_ended = True
                return await self._end_turn(result)
        except (ClaudeSDKError, UnreadableMessage):
            self._connection.is_lost = True
            raise
        finally:
            if not has_ended and not self._connection.is_lost:
                await self._interrupt()

    def offer_tool(self, submissions: Submissions) -> None:
        """Let the calls of `submit_answer` be judged, as long as the conversation lasts."""
        self._connection.transport.answer_tool.submissions = submissions

    async def _interrupt(self) -> None:
        """Interrupt a running turn and its tools, so that the CLI can exit at once instead of after 5 s."""
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                await self._client.interrupt()
                async for message in self._client.receive_response():
                    with readable(NAME, "a message of a turn"):
                        if isinstance(message, UserMessage):
                            self.tools.finish_from(message, is_interrupted=True)
                        elif isinstance(message, ResultMessage):
                            self._count(message)
        except (ClaudeSDKError, RunFailed, TimeoutError):
            self._connection.is_lost = True

    async def _read_turn(self) -> ResultMessage:
        self._transcript.begin_turn()
        self._api_errors.skip()
        async for message in self._client.receive_response():
            match message:
                case SystemMessage(subtype="init", data=data):
                    refuse_too_old(CLAUDE.name, data.get("claude_code_version"), CLAUDE.install)
                    self._bind_once(data["session_id"], data.get("model"))
                case StreamEvent(event=event, parent_tool_use_id=None):
                    self._transcript.stream(event)
                case SystemMessage(subtype="api_retry", data=data):
                    self._transcript.end_stream()
                    self._task.events.emit(self._retries.scheduled(data, await self._api_errors.next_words()))
                case SystemMessage(subtype="permission_denied", data=data):
                    self.tools.deny(data)
                case SystemMessage(subtype="task_notification", data=data):
                    self.tools.finish_in_background(data)
                case AssistantMessage() | UserMessage():
                    self._take(message)
                case RateLimitEvent(rate_limit_info=info):
                    self._limit.info = info
                    self._warn_once()
                case ResultMessage():
                    return message
        raise RunFailed(ErrorType.INTERNAL_ERROR, "the CLI ended its output in the middle of a turn", origin="provider")

    def _take(self, message: AssistantMessage | UserMessage) -> None:
        parent = message.parent_tool_use_id  # None: it is of the agent itself, not of a sub-agent
        if isinstance(message, AssistantMessage):
            if parent is None:
                self._transcript.add(message)
            else:
                self._transcript.add_part(message, parent)
            self.tools.start_from(message)
        else:
            if parent is None:
                self._transcript.add_user(message)
            self.tools.finish_from(message)
            self._connection.transport.answer_tool.raise_failure()

    def _bind_once(self, session_id: str, model: str | None) -> None:
        if not self._is_bound:
            self._is_bound = True
            self._connection.lock.take(session_id)
            project_dir = str(self._task.project_dir)
            self._task.events.emit(SessionBound(project_dir=project_dir, executor_session_id=session_id, model=model))

    def _warn_once(self) -> None:
        warning = self._limit.warning()
        if warning is not None and not self._has_warned:
            self._has_warned = True
            self._task.events.warn(warning)

    async def _end_turn(self, result: ResultMessage) -> Answer:
        self._count(result)
        if result.deferred_tool_use is not None:
            raise input_required(self._task.inputs.parked)
        if result.subtype == _NO_STRUCTURED_OUTPUT:
            # The CLI has given up; the contract decides whether the model is asked again.
            return self._transcript.answer("end_turn")
        # A CLI may report a refusal by the limit as a success, with its own sentence about the limit as the answer.
        is_refused = self._limit.is_reached and self._transcript.api_error in _REFUSED
        if result.is_error or result.subtype != "success" or is_refused:
            told = None if result.api_error_status is None else await self._api_errors.next_words()
            api_error = "rate_limit" if is_refused else self._transcript.api_error
            failed = failure_of_result(result, api_error, told)
            if self._is_native and result.api_error_status == _BAD_REQUEST and refuses_schema(failed.message):
                self._connection.is_lost = True  # another one has no schema for the API
                raise NativeRefused(failed.message)
            raise self._limit.explain(failed)
        if result.stop_reason == "refusal":
            raise RunFailed(ErrorType.CONTENT_REFUSED, "the model refused to answer", origin="model")
        # None if the model gave no structured output; then the text is validated.
        native = None if result.structured_output is None else NativeOutput(result.structured_output)
        return self._transcript.answer(result.stop_reason or "end_turn", native)

    def _count(self, result: ResultMessage) -> None:
        """Add what all models have used since the previous result, subagents included."""
        if result.model_usage is None:  # an older CLI, whose cost may include the runs before
            turn = dict(result.usage or {})
        else:
            of_models: list[Any] = list(result.model_usage.values())
            turn = {ours: sum(of_model.get(its, 0) for of_model in of_models) for ours, its in _FIGURES.items()}
        if not turn.get("reasoning_tokens"):  # the CLI's 0 may also mean that the API has not told them
            turn.pop("reasoning_tokens", None)
        self._task.events.add_usage({name: turn[name] for name in _FIGURES if name in turn})


def failure_of_result(result: ResultMessage, api_error: str | None, told: str | None) -> RunFailed:
    """Return the failure of a turn.

    `api_error` is the CLI's name of the error, if any, and `told` the API's message of its last error.
    """
    if result.stop_reason == "refusal":
        error_type = ErrorType.CONTENT_REFUSED
    elif result.terminal_reason in _BY_TERMINAL_REASON:
        error_type = _BY_TERMINAL_REASON[result.terminal_reason]
    elif result.api_error_status is None and (result.result or "").startswith(_UNSENDABLE_KEY):
        error_type = ErrorType.AUTHENTICATION_FAILED
    elif result.terminal_reason == "api_error" or result.api_error_status is not None or api_error == "rate_limit":
        error_type = type_of_api_error(result.api_error_status, api_error or "", f"{result.result} {told}")
    else:
        error_type = ErrorType.INTERNAL_ERROR
    message = result.result or "; ".join(result.errors or ()) or f"the turn ended with {result.subtype}"
    message = shortened(message)
    if result.api_error_status is not None and told and told not in message:
        message = f"{message} The API said: {told}"
    details = {"subtype": result.subtype, "terminal_reason": result.terminal_reason, "status": result.api_error_status}
    present = {name: value for name, value in details.items() if value is not None}
    return RunFailed(error_type, message, origin=origin_of(error_type), extra={"details": present})


def failure_of_sdk(error: ClaudeSDKError) -> RunFailed:
    """Return the failure of a CLI that did not start, or ended unexpectedly."""
    told = str(error)
    if any(words in told for words in _UNKNOWN_SESSION):
        return refused(ErrorType.SESSION_NOT_FOUND, "the CLI has no such session; start a new one")
    if _KNOWN_SESSION in told:
        return refused(ErrorType.INVALID_INVOCATION, _SESSION_EXISTS)
    if _ROOT in told:
        details = {"violations": [{"pointer": "$.permission_mode", "message": _NOT_AS_ROOT}]}
        return refused(ErrorType.INVALID_EXECUTOR_CONFIG, f"executor_config.permission_mode: {_NOT_AS_ROOT}", details)
    if _REFUSED_SCHEMA in told:
        reason = told.partition(_REFUSED_SCHEMA)[2].strip(" :\n")
        return NativeRefused(reason)
    if not isinstance(error, CLIConnectionError | ProcessError):
        return UnreadableMessage(NAME, "a message", "a field is missing, or has another type than the SDK expects")
    is_killed = isinstance(error, ProcessError) and error.exit_code is not None and error.exit_code < 0
    return RunFailed(ErrorType.INTERNAL_ERROR, told, origin="environment", retryable=is_killed)

"""A conversation with the Claude CLI: questions in, answers out, and everything in between as events."""

import asyncio
from typing import Final

from ao_executors.claude_code.api_error_log import ApiErrorLog
from ao_executors.claude_code.api_errors import failure_of_result
from ao_executors.claude_code.retries import Patience
from ao_executors.claude_code.sdk import (
    AssistantMessage,
    ClaudeSDKClient,
    ClaudeSDKError,
    ResultMessage,
    SystemMessage,
    UserMessage,
)
from ao_executors.claude_code.session_lock import SessionLock
from ao_executors.claude_code.tools import ToolEvents
from ao_executors.claude_code.transcript import Transcript
from ao_executors.core.executor import Answer
from ao_executors.core.failures import RunFailed
from ao_executors.core.task import Task
from ao_protocol.contracts import NativeOutput
from ao_protocol.errors import ErrorType
from ao_protocol.events import SessionBound, Usage, UsageFigures

_INTERRUPT_SECONDS: Final = 3.0
_NO_STRUCTURED_OUTPUT: Final = "error_max_structured_output_retries"


class ClaudeConversation:
    """A model, as `converse` wants it: the CLI on the other side of the SDK, for one run.

    `spent_before_usd` is what the CLI had counted before the run.
    """

    def __init__(
        self,
        client: ClaudeSDKClient,
        task: Task,
        lock: SessionLock,
        api_errors: ApiErrorLog,
        *,
        spent_before_usd: float,
    ) -> None:
        self.usage = UsageFigures()
        self.spent_usd = spent_before_usd
        self.is_lost = False
        """True when the CLI did not stop as it was told to, so that nobody knows what it says next."""
        self._client = client
        self._task = task
        self._lock = lock
        self._api_errors = api_errors
        self._spent_before_usd = spent_before_usd
        self._transcript = Transcript(task.events, holds_back=task.contract is not None)
        self._tools = ToolEvents(task.events, task.config)
        self._patience = Patience.of(task.config)
        self._bound = False
        self._in_turn = False

    async def ask(self, text: str) -> Answer:
        """Send a user message and wait for the end of the turn.

        Raises:
            RunFailed: the API, a limit or the CLI ended the turn without an answer.
        """
        await self._client.query(text)
        self._in_turn = True
        try:
            return await self._read_turn()
        finally:
            await self._interrupt()

    async def _read_turn(self) -> Answer:
        self._transcript.begin_turn()
        self._api_errors.skip()
        async for message in self._client.receive_response():
            match message:
                case SystemMessage(subtype="init", data=data):
                    self._bind(data["session_id"], data.get("model"))
                case SystemMessage(subtype="api_retry", data=data):
                    self._task.events.emit(self._patience.bear(data, await self._api_errors.next_words()))
                case SystemMessage(subtype="permission_denied", data=data):
                    self._tools.deny(data)
                case AssistantMessage():
                    if message.parent_tool_use_id is None:
                        self._transcript.add(message)
                    self._tools.start_from(message)
                case UserMessage():
                    if message.parent_tool_use_id is None:
                        self._transcript.add_user(message)
                    self._tools.finish_from(message)
                case ResultMessage():
                    return await self._end_turn(message)
        raise RunFailed(ErrorType.INTERNAL_ERROR, "the CLI ended its output in the middle of a turn", origin="provider")

    def _bind(self, session_id: str, model: str | None) -> None:
        if not self._bound:
            self._bound = True
            self._lock.take(session_id)
            where = str(self._task.project_dir)
            self._task.events.emit(SessionBound(executor_session_id=session_id, project_dir=where, model=model))

    async def _end_turn(self, result: ResultMessage) -> Answer:
        self._in_turn = False
        self._count(result)
        if result.subtype == _NO_STRUCTURED_OUTPUT:
            # The CLI has given up; whether the model is asked again is the contract's to say.
            return self._transcript.answer("end_turn")
        if result.is_error or result.subtype != "success":
            told = None if result.api_error_status is None else await self._api_errors.next_words()
            raise failure_of_result(result, self._transcript.api_error, told)
        if result.stop_reason == "refusal":
            raise RunFailed(ErrorType.CONTENT_REFUSED, "the model refused to answer", origin="model")
        # The CLI says nothing where the model gave no structured output; the text is judged then.
        native = None if result.structured_output is None else NativeOutput(result.structured_output)
        return self._transcript.answer(result.stop_reason or "end_turn", native)

    def _count(self, result: ResultMessage) -> None:
        turn = result.usage or {}
        before = self.usage
        if result.total_cost_usd is not None:
            self.spent_usd = result.total_cost_usd
        self.usage = UsageFigures(
            input_tokens=before.input_tokens + turn.get("input_tokens", 0),
            output_tokens=before.output_tokens + turn.get("output_tokens", 0),
            cache_read_input_tokens=(before.cache_read_input_tokens or 0) + turn.get("cache_read_input_tokens", 0),
            cache_creation_input_tokens=(before.cache_creation_input_tokens or 0)
            + turn.get("cache_creation_input_tokens", 0),
            cost_usd=before.cost_usd
            if result.total_cost_usd is None
            else round(self.spent_usd - self._spent_before_usd, 9),
        )
        self._task.events.emit(Usage(**self.usage.model_dump()))

    async def _interrupt(self) -> None:
        """Stop a turn that goes on, and its tools, so that the CLI can leave at once instead of after 5 s."""
        if not self._in_turn:
            return
        try:
            async with asyncio.timeout(_INTERRUPT_SECONDS):
                await self._client.interrupt()
                async for message in self._client.receive_response():
                    if isinstance(message, UserMessage):
                        self._tools.finish_from(message, is_interrupted=True)
        except (ClaudeSDKError, TimeoutError):
            self.is_lost = True

"""Perform one run: open a session, and ask in it until the answer is valid. What the agent sends becomes events."""

import asyncio
from contextlib import suppress
from typing import Final

from ao_executors.acp.agent_failures import failure_of_refusal, patience_of
from ao_executors.acp.agent_messages import AgentMessages, parent_of
from ao_executors.acp.agent_permissions import CANCELLED, AgentPermissions
from ao_executors.acp.agent_rows import DEFAULT_IDLE_SECONDS, AgentRow
from ao_executors.acp.agent_session import AgentSession, opened_session
from ao_executors.acp.agent_tools import AgentTools
from ao_executors.acp.agent_usage import RunUsage
from ao_executors.core import Answer, RunFailed, Task, converse
from ao_executors.core.answer_tool import is_offered
from ao_executors.core.conversation import Submissions
from ao_executors.core.foreign_json import JsonDocument, as_object, shown
from ao_executors.core.json_rpc import AgentRefused, ignore
from ao_executors.vendors.claude_retries import retries_of
from ao_protocol.errors import ErrorType
from ao_protocol.events import Result, Usage

_DRAIN_SHARE: Final = 0.25
"""The part of the clean-up time in which a cancelled agent ends its turn."""
_END: Final = "end_turn"
_PROMPT: Final = "session/prompt"
_CLAUDE_MESSAGE: Final = "_claude/sdkMessage"
"""A message of the Claude CLI, of the kind `emitRawSDKMessages` of the row."""


async def perform_in_session(agent: AgentRow, task: Task) -> Result:
    """Perform a task in a session of an agent.

    Raises:
        RunFailed: The session could not be opened, or gave no valid answer.
    """
    usage = RunUsage(counts_turns=agent.counts_turns, is_new=task.invocation.mode == "start")

    async def watch(method: str, params: JsonDocument) -> None:
        """Take only the cost from what is sent before the first prompt: the rest is a replay."""
        if method == "session/update":
            usage.take_update(as_object(params.get("update")))

    async with opened_session(agent, task, watch) as session:
        return await converse(task, AgentConversation(agent, task, session, usage))


class AgentConversation:
    """A `Model`: a session of an agent, for one run."""

    def __init__(self, agent: AgentRow, task: Task, session: AgentSession, usage: RunUsage) -> None:
        config = task.config
        self._patience = patience_of("idle_seconds", config.get("idle_seconds", DEFAULT_IDLE_SECONDS))
        self._agent = agent
        self._task = task
        self._session = session
        self._usage = usage
        holds_back, streams = task.contract is not None, config.get("streaming", True)
        shows = config.get("show_reasoning", True)
        self._messages = AgentMessages(task.events, holds_back=holds_back, streams=streams, shows_reasoning=shows)
        self._tools = AgentTools(task.events, agent.tool_name, agent.answer_tool if is_offered(task) else None)
        self._permissions = AgentPermissions(agent, task, self._tools)
        self._preface, self._attached = session.preface, session.attached
        self._retries = retries_of(config)
        session.answer_tool.is_part = lambda meta: self._tools.is_part(meta.get("claudecode/toolUseId"))

    def offer_tool(self, submissions: Submissions) -> None:
        """Let the calls of `submit_answer` be judged."""
        self._session.answer_tool.submissions = submissions

    async def ask(self, text: str) -> Answer:
        """Send a prompt and wait for the end of the turn.

        Raises:
            RunFailed: The turn ended without an answer.
        """
        prompt = [*self._attached, {"type": "text", "text": f"{self._preface}{text}"}]
        self._preface, self._attached = "", []
        self._messages.begin_turn()
        self._usage.begin()
        peer = self._session.peer
        peer.take = peer.reply = ignore
        await peer.serve_received()  # it belongs to no turn
        peer.take, peer.reply = self._take, self._reply
        try:
            response = await self._response_to({"sessionId": self._session.session_id, "prompt": prompt})
            self._usage.take_response(response)
        finally:  # a turn that failed has used something, too
            if self._usage.is_known:
                self._task.events.emit(Usage(**self._usage.figures().model_dump()))
        self._messages.end_parts()
        self._tools.close("failed", "the turn ended, and the agent did not report the end of the call")
        answer = self._messages.end(end_of_turn(response))
        if not answer.text and self._tools.last_denial is not None:  # some agents end a turn like this
            message = f"the agent ended its turn without an answer after a denied tool call: {self._tools.last_denial}"
            raise RunFailed(ErrorType.TOOL_FAILED, message, origin="caller")
        if self._agent.hides and answer.stop_reason == _END:
            self._tell_what_is_hidden(answer)
        return answer

    def _tell_what_is_hidden(self, answer: Answer) -> None:
        """Say that the end of an answer may be another than the agent tells. A contract refuses what is cut off."""
        if not answer.text:
            message = f"the agent ended its turn without a text, and does not tell whether it was {self._agent.hides}"
            raise RunFailed(ErrorType.CONTENT_REFUSED, message, origin="model")
        if self._task.contract is None:
            self._task.events.warn(f"the agent does not tell whether its answer was {self._agent.hides}")

    async def _response_to(self, params: JsonDocument) -> JsonDocument:
        """Return the response to a prompt. If it does not come, the turn is cancelled."""
        peer = self._session.peer
        request_id = peer.send(_PROMPT, params)
        try:
            return await peer.response(request_id, _PROMPT, as_object, self._patience)
        except AgentRefused as error:
            failure = failure_of_refusal(self._agent, error)
            if failure.error_type is not ErrorType.OUTPUT_TRUNCATED:
                raise failure from error
            # Claude's agent answers with an error where the protocol has a stop reason.
            return {"stopReason": "max_tokens"}
        except BaseException:  # a cancellation, too
            if peer.is_alive:
                await self._cancel(request_id)
            raise

    async def _cancel(self, request_id: int) -> None:
        """Cancel the turn and wait for its end, for a part of the clean-up time."""
        peer = self._session.peer
        seconds = self._task.limits.clean_up_seconds * _DRAIN_SHARE
        self._permissions.is_cancelled = self._tools.is_cancelled = True
        with suppress(RunFailed, TimeoutError):
            async with asyncio.timeout(seconds):
                peer.notify("session/cancel", {"sessionId": self._session.session_id})
                peer.answer_open_requests(CANCELLED)
                await peer.response(request_id, _PROMPT, as_object)
        self._tools.close("cancelled", "the turn was cancelled")

    async def _take(self, method: str, params: JsonDocument) -> None:
        if params.get("sessionId") != self._session.session_id:
            return
        if method == "session/update":
            self._take_update(as_object(params.get("update")))
            self._session.answer_tool.raise_failure()
        elif method == _CLAUDE_MESSAGE and self._agent.tells_retries:
            self._task.events.emit(self._retries.scheduled(as_object(params.get("message")), None))

    async def _reply(self, method: str, params: JsonDocument) -> JsonDocument | None:
        if method != "session/request_permission":
            return None
        self._take_call(as_object(params.get("toolCall")))
        return await self._permissions.answer(params)

    def _take_update(self, update: JsonDocument) -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk" | "agent_thought_chunk" as kind:
                self._usage.take_update(update)
                self._tools.start(parent_of(update))
                self._messages.add_chunk(update, is_reasoning=kind == "agent_thought_chunk")
            case "tool_call" | "tool_call_update":
                self._take_call(update)
            case "usage_update":  # a request was answered
                self._usage.take_update(update)
                if self._session.log is not None:
                    self._session.log.tries = 0
                self._keep_budget()

    def _take_call(self, update: JsonDocument) -> None:
        """Take what is told about a tool call: it follows the message before, and its end those in it.

        A message before the first word about a call that submits the answer may contain an answer that does not fit.
        """
        if self._tools.begins_to_submit(update):
            self._messages.forget_message()
        self._messages.end_message(parent_of(update))
        if update.get("status") in ("completed", "failed"):
            self._messages.end_message(str(update.get("toolCallId")))
        self._tools.start(parent_of(update))
        call = self._tools.take(update)
        submissions = self._session.answer_tool.submissions
        if submissions is not None and call is not None and submissions.count < self._tools.ended_submissions:
            submissions.refuse(call.output if isinstance(call.output, str) else "\n".join(call.texts) or "refused")

    def _keep_budget(self) -> None:
        """End the run if it costs more than `limits.max_cost_usd`. Some agents do not tell the cost."""
        limit, cost = self._task.invocation.limits.max_cost_usd, self._usage.figures().cost_usd
        if limit is not None and cost is not None and cost > limit:
            message = f"the run has cost ${cost:g}, and limits.max_cost_usd is {limit:g}"
            raise RunFailed(ErrorType.LIMIT_EXCEEDED, message, origin="caller")


def end_of_turn(response: JsonDocument) -> str:
    """Return the stop reason of a turn that ended with an answer: `end_turn` or `max_tokens`.

    Args:
        response: The result of `session/prompt`. In version 1 it is the end of the turn; text alone is none.

    Raises:
        RunFailed: The turn ended without an answer, or there is no stop reason.
    """
    match response.get("stopReason"):
        case "end_turn":
            return _END
        case "max_tokens":
            return "max_tokens"
        case "refusal":
            raise RunFailed(ErrorType.CONTENT_REFUSED, "the model refused to answer", origin="model")
        case "max_turn_requests":
            message = "the turn needs more answers of the model than limits.max_turns, or the agent's own limit, allows"
            raise RunFailed(ErrorType.LIMIT_EXCEEDED, message, origin="caller")
        case "cancelled":
            message = (
                "the agent cancelled the turn, which nobody had asked for; a permission that was denied may do that"
            )
            raise RunFailed(ErrorType.TOOL_FAILED, message, origin="tool")
        case unknown:
            message = f"the agent ended the turn with stopReason {shown(unknown)}, which the protocol does not have"
            raise RunFailed(ErrorType.INTERNAL_ERROR, message, origin="provider")

"""Turn the CLI's messages of a turn into events: the model's messages, its tool calls, and denied ones."""

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ao_executors.claude_code.claude_config import DEFAULT_PERMISSION_MODE
from ao_executors.claude_code.sdk import (
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)
from ao_executors.core import Answer, Emitter, RunFailed
from ao_executors.core.answer_tool import NAME as ANSWER_TOOL
from ao_executors.core.message_stream import TurnMessages
from ao_protocol.contracts import NativeOutput
from ao_protocol.errors import ErrorType

OUTPUT_TOOL: Final = "StructuredOutput"
"""The tool through which the CLI receives structured output. A call of it is an answer, not a tool call."""

_CARRY_ANSWERS: Final = frozenset({ANSWER_TOOL, OUTPUT_TOOL})
_IN_BACKGROUND: Final = ("backgroundTaskId", "isAsync")
"""What the CLI reports about a command, or a subagent, that runs on in the background."""
_LEFT_OUT: Final = "is disabled for this session"
"""The CLI's message about a tool that the configuration leaves out."""
_CONTINUATION: Final = "Output token limit hit."
"""The beginning of the CLI's message that asks a model to continue after its output limit."""
_NUDGE: Final = "[structured-output-enforce]"
"""The beginning of the CLI's message to a model that wrote its answer as text instead of calling the output tool."""
_BY_THE_CLI: Final = "<synthetic>"
"""The model of a message that the CLI wrote in place of the model, such as that a limit is reached."""
_RULE_REASONS: Final = frozenset({"rule", "subcommandResults"})
_PLAIN_COMMAND: Final = re.compile(r"([A-Za-z][\w+-]*)( [\w+:,@-][\w.+:,@=-]*)*")
"""A command without a path. The CLI's decision on a command with a path also depends on the path."""


class ClaudeMessages:
    """The messages in the CLI's output, which sends one block by block under one message id.

    Each block of text or thinking becomes an event, and its pieces before it. Of thinking that the provider has
    encrypted, the SDK passes on nothing.
    """

    def __init__(self, events: Emitter, *, holds_back: bool, shows_reasoning: bool = True) -> None:
        self.api_error: str | None = None
        self._messages = TurnMessages(events, holds_back=holds_back, shows_reasoning=shows_reasoning)
        self._used_ids: set[str] = set()
        self.begin_turn()

    def begin_turn(self) -> None:
        """Forget the previous message."""
        self.api_error = None
        self._messages.begin_turn()
        self._message_id, self._streamed_id, self._continues = "", "", False
        self._block_id: str | None = None

    def stream(self, event: Mapping[str, Any]) -> None:
        """Process an event of the model's stream, of which the pieces of text and thinking are reported."""
        match event:
            case {"type": "message_start", "message": {"id": str(message_id)}}:
                self.end_stream()
                self._streamed_id = message_id
            case {"type": "content_block_start"}:
                self.end_stream()
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
                self._block_id = self._block_id or self._unused_id(self._streamed_id)
                self._messages.add_piece(self._block_id, text)
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}}:
                self._messages.add_reasoning_piece(self._streamed_id, text)

    def end_stream(self) -> None:
        """End a block whose pieces are reported, and which broke off."""
        self._messages.end_pieces()
        self._block_id = None

    def add(self, message: AssistantMessage) -> None:
        """Add one block. A message by which the CLI reports an API error only sets `api_error`."""
        message_id = _id_of(message)
        if message_id != self._streamed_id:
            self.end_stream()
        if _is_an_error(message):
            self.api_error = message.error or "unknown"
            return
        self.api_error = None
        if message_id != self._message_id and not self._continues:
            self._messages.begin_message()
        self._message_id, self._continues = message_id, False
        for block in message.content:
            if isinstance(block, TextBlock):
                self._messages.add(self._block_id or self._unused_id(message_id), block.text)
                self._block_id = None
            elif isinstance(block, ThinkingBlock):
                self._messages.add_reasoning(message_id, block.thinking)
            elif isinstance(block, ToolUseBlock) and block.name in _CARRY_ANSWERS:
                self._messages.begin_turn()  # the message may contain an invalid answer
            elif isinstance(block, ToolUseBlock):
                self.end_stream()
                self._messages.begin_message()

    def add_part(self, message: AssistantMessage, parent: str) -> None:
        """Write one block of a message of the sub-agent that the call `parent` has started. It is never the answer."""
        for block in () if _is_an_error(message) else message.content:
            if isinstance(block, TextBlock) and block.text:
                self._messages.add_part(self._unused_id(_id_of(message)), block.text, parent)
            elif isinstance(block, ThinkingBlock):
                self._messages.add_reasoning(_id_of(message), block.thinking, parent)

    def add_user(self, message: UserMessage) -> None:
        """Record whether the CLI asked the model to continue a message that was cut off, or rejected its answer."""
        texts = [block.text for block in message.content if isinstance(block, TextBlock)]
        self._continues = any(text.startswith(_CONTINUATION) for text in texts)
        if any(text.startswith(_NUDGE) for text in texts):
            self._messages.begin_turn()

    def answer(self, stop_reason: str, native: NativeOutput | None = None) -> Answer:
        """Return the last message of the turn, with the structured output if `native` is given."""
        self.end_stream()
        return self._messages.answer(stop_reason, native)

    def _unused_id(self, message_id: str) -> str:
        """Return a message id that is unique in the run (AOX-083): one message may become several events."""
        base, number = message_id or "msg", 1
        while (unused := base if number == 1 else f"{base}.{number}") in self._used_ids:
            number += 1
        self._used_ids.add(unused)
        return unused


def _id_of(message: AssistantMessage) -> str:
    return message.message_id or message.uuid or "msg"


def _is_an_error(message: AssistantMessage) -> bool:
    """Return whether the CLI wrote the message, about an error, in place of the model."""
    return message.error is not None or message.model == _BY_THE_CLI


class ClaudeTools:
    """The tool calls in the CLI's messages, including those of subagents."""

    def __init__(self, events: Emitter, config: Mapping[str, Any]) -> None:
        self._events = events
        self._config = config
        self._refused: dict[str, str] = {}
        self._in_background: set[str] = set()

    def refuse(self, call_id: str, reason: str) -> None:
        """Take note that a person did not allow a call, whose result follows."""
        self._refused[call_id] = reason

    def start_from(self, message: AssistantMessage) -> None:
        """Begin the tool calls in a message."""
        for call in message.content:
            if isinstance(call, ToolUseBlock) and call.name not in _CARRY_ANSWERS:
                self._in_background.discard(call.id)
                self._events.start_tool(call.id, call.name, call.input, message.parent_tool_use_id)

    def deny(self, denial: Mapping[str, Any]) -> None:
        """End a call that the CLI does not allow.

        Raises:
            RunFailed: `on_denied_tool` is `fail`.
        """
        call_id = denial["tool_use_id"]
        if call_id in self._events.open_tools:
            name, tool_input = self._events.open_tools[call_id]
            self._finish_denied(call_id, name, _what_allows(name, tool_input, denial, self._config))

    def finish_from(self, message: UserMessage, *, is_interrupted: bool = False) -> None:
        """End the calls whose results are in a message.

        Raises:
            RunFailed: The configuration leaves a tool out, and `on_denied_tool` is `fail`.
        """
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        # For a single result the CLI reports more than the model reads.
        whole = message.tool_use_result if len(results) == 1 else None
        for result in results:
            call_id = result.tool_use_id
            if isinstance(whole, dict) and any(whole.get(mark) for mark in _IN_BACKGROUND):
                self._in_background.add(call_id)
            elif call_id not in self._events.open_tools:
                continue
            elif result.is_error:
                self._fail(call_id, result, "cancelled" if is_interrupted else "failed")
            else:
                self._events.finish_tool(call_id, "completed", tool_output=whole or result.content)

    def finish_in_background(self, told: Mapping[str, Any]) -> None:
        """End a call whose end in the background the CLI tells. Any other one is still open at the end of the run."""
        call_id, status, summary = told.get("tool_use_id"), told.get("status"), told.get("summary")
        if call_id not in self._in_background:
            return
        if status == "completed":
            self._events.finish_tool(call_id, "completed", tool_output=summary)
        else:
            ended = "failed" if status == "failed" else "cancelled"  # stopped or killed, by whomever
            self._events.finish_tool(call_id, ended, error=f"{status}: {summary}")

    def _fail(self, call_id: str, result: ToolResultBlock, status: str) -> None:
        blocks, name = result.content or [], self._events.open_tools[call_id][0]
        text = blocks if isinstance(blocks, str) else "\n".join(str(block.get("text", block)) for block in blocks)
        if call_id in self._refused:
            self._finish_denied(call_id, name, self._refused[call_id])
        elif status == "failed" and f"{name} {_LEFT_OUT}" in text:
            is_disallowed = name in self._config.get("disallowed_tools", ())
            remedy = (
                f"take {name} out of disallowed_tools" if is_disallowed else f"add {name} to tools (executor_config)"
            )
            self._finish_denied(call_id, name, f"it is not available: {remedy}")
        else:
            error = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
            self._events.finish_tool(call_id, status, error=error)

    def _finish_denied(self, call_id: str, name: str, remedy: str) -> None:
        remedy = self._refused.pop(call_id, remedy)
        self._events.finish_tool(call_id, "denied", error=remedy)
        if self._config.get("on_denied_tool") == "fail":
            message = f"{name} was denied, and on_denied_tool is fail: {remedy}"
            raise RunFailed(ErrorType.TOOL_FAILED, message, origin="caller", extra={"details": {"tool": name}})


def _what_allows(tool: str, tool_input: Any, denial: Mapping[str, Any], settings: Any) -> str:  # noqa: ANN401
    """Return how a user can allow a denied call. `denial` is the CLI's `permission_denied` message."""
    mode = settings.get("permission_mode", DEFAULT_PERMISSION_MODE)
    if denial.get("decision_reason_type") in _RULE_REASONS and "denied" in str(denial.get("message")):
        rules = [rule for rule in settings.get("disallowed_tools", ()) if rule.partition("(")[0] == tool]
        where = f"disallowed_tools ({', '.join(rules)})" if rules else "the settings files of the CLI"
        return f"a rule denies it: take it out of {where}"
    if mode == "plan":
        return f"permission_mode plan changes nothing: use --access read and --allow {tool} in its place"
    if tool in settings.get("allowed_tools", ()):
        return f"{tool} is allowed, but not this: the CLI protects it except with --access all"
    given, rule = tool_input if isinstance(tool_input, dict) else {}, tool
    if tool == "Bash" and (command := _PLAIN_COMMAND.fullmatch(str(given.get("command")))):
        rule = f"Bash({command[1]} *)"
    elif tool == "WebFetch" and (host := urlsplit(str(given.get("url"))).hostname):
        rule = f"WebFetch(domain:{host})"
    return f"allow it with --allow {shlex.quote(rule)} (executor_config: allowed_tools)"

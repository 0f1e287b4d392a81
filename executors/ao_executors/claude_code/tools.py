"""Tool calls as events, from the messages in which the CLI tells of them: those that it refuses, too."""

from collections.abc import Mapping
from typing import Any, Final

from ao_executors.claude_code.denials import what_allows, what_enables
from ao_executors.claude_code.sdk import AssistantMessage, ToolResultBlock, ToolUseBlock, UserMessage
from ao_executors.core.emitter import Emitter
from ao_executors.core.failures import RunFailed
from ao_protocol.errors import ErrorType
from ao_protocol.events import ToolFinished, ToolStarted
from ao_protocol.wire import JsonObject

OUTPUT_TOOL: Final = "StructuredOutput"
"""The tool by which the CLI takes structured output. A call of it is an answer, and no tool of the agent's."""

_LEFT_OUT: Final = "is disabled for this session"
"""What the CLI says of a tool that it has and that the configuration leaves out."""


class ToolEvents:
    """Writes `tool_started` and `tool_finished`, exactly once each for a call, those of subagents included."""

    def __init__(self, events: Emitter, config: JsonObject) -> None:
        self._events = events
        self._config = config
        self._open: dict[str, ToolUseBlock] = {}

    def start_from(self, message: AssistantMessage) -> None:
        """Begin the calls that a message asks for."""
        for call in message.content:
            if isinstance(call, ToolUseBlock) and call.name != OUTPUT_TOOL and call.id not in self._open:
                self._open[call.id] = call
                started = ToolStarted(tool_call_id=call.id, tool_name=call.name, tool_input=call.input)
                self._events.emit(started)

    def deny(self, denial: Mapping[str, Any]) -> None:
        """End a call that the CLI does not allow.

        Raises:
            RunFailed: `on_denied_tool` says that this ends the run.
        """
        call = self._open.pop(denial["tool_use_id"], None)
        if call is not None:
            self._finish_denied(call, what_allows(call.name, call.input, denial, self._config))

    def finish_from(self, message: UserMessage, *, is_interrupted: bool = False) -> None:
        """End the calls whose results the model is told.

        Raises:
            RunFailed: the configuration leaves a tool out, and `on_denied_tool` says that this ends the run.
        """
        results = [block for block in message.content if isinstance(block, ToolResultBlock)]
        for result in results:
            call = self._open.pop(result.tool_use_id, None)
            if call is None:
                continue
            text = _text_of(result)
            if result.is_error and is_interrupted:
                self._finish(call, status="cancelled", error=_without_tag(text))
            elif result.is_error and f"{call.name} {_LEFT_OUT}" in text:
                self._finish_denied(call, what_enables(call.name, self._config))
            elif result.is_error:
                self._finish(call, status="failed", error=_without_tag(text))
            else:
                # Of one result the CLI tells more than the model reads.
                whole = message.tool_use_result if len(results) == 1 else None
                self._finish(call, status="completed", tool_output=whole or result.content)

    def _finish_denied(self, call: ToolUseBlock, remedy: str) -> None:
        self._finish(call, status="denied", error=remedy)
        if self._config.get("on_denied_tool") == "fail":
            message = f"{call.name} was denied, and on_denied_tool is fail: {remedy}"
            raise RunFailed(ErrorType.TOOL_FAILED, message, origin="caller", extra={"details": {"tool": call.name}})

    def _finish(self, call: ToolUseBlock, **outcome: Any) -> None:  # noqa: ANN401  # any JSON
        event = ToolFinished(tool_call_id=call.id, tool_name=call.name, tool_input=call.input, **outcome)
        self._events.emit(event)


def _text_of(result: ToolResultBlock) -> str:
    if isinstance(result.content, str):
        return result.content
    return "\n".join(str(block.get("text", block)) for block in result.content or [])


def _without_tag(text: str) -> str:
    return text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")

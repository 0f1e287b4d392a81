"""Tool calls as events, from the CLI's hooks."""

from typing import Any

from ao_executors.claude_code.sdk import HookMatcher, ToolResultBlock, UserMessage
from ao_executors.claude_code.transcript import OUTPUT_TOOL, Transcript
from ao_executors.core.emitter import Emitter
from ao_protocol.events import ToolFinished, ToolStarted


class ToolEvents:
    """Writes `tool_started` and `tool_finished`, exactly once each for a call.

    The CLI calls no hook after a tool that it denied; what it tells the model instead ends the call here.
    """

    def __init__(self, events: Emitter, transcript: Transcript) -> None:
        self._events = events
        self._transcript = transcript
        self._open: dict[str, tuple[str, Any]] = {}

    def finish_from(self, message: UserMessage) -> None:
        """End the calls whose results the model is told, and whose end no hook has told."""
        if isinstance(message.content, str):
            return
        for block in message.content:
            if isinstance(block, ToolResultBlock) and block.tool_use_id in self._open:
                text = block.content if isinstance(block.content, str) else str(block.content)
                if block.is_error:
                    self._finish(block.tool_use_id, status="denied", error=text)
                else:
                    self._finish(block.tool_use_id, status="completed", tool_output=text)

    def start(self, call: Any) -> None:  # noqa: ANN401  # the SDK's types
        """Take a call that is about to run."""
        if call["tool_name"] == OUTPUT_TOOL:
            self._transcript.withhold()
            return
        self._transcript.show()
        self._open[call["tool_use_id"]] = (call["tool_name"], call["tool_input"])
        self._events.emit(
            ToolStarted(tool_call_id=call["tool_use_id"], tool_name=call["tool_name"], tool_input=call["tool_input"])
        )

    def complete(self, call: Any) -> None:  # noqa: ANN401
        """Take the end of a call that went well."""
        self._finish(call["tool_use_id"], status="completed", tool_output=call.get("tool_response"))

    def fail(self, call: Any) -> None:  # noqa: ANN401
        """Take the end of a call that failed or was interrupted."""
        status = "cancelled" if call.get("is_interrupt") else "failed"
        self._finish(call["tool_use_id"], status=status, error=call.get("error"))

    def _finish(self, call_id: str, **outcome: Any) -> None:  # noqa: ANN401
        if call_id in self._open:
            name, tool_input = self._open.pop(call_id)
            self._events.emit(ToolFinished(tool_call_id=call_id, tool_name=name, tool_input=tool_input, **outcome))


class ToolHooks:
    """The hooks of a connected CLI. They have no opinion on what the tools do, and tell the current run of it."""

    def __init__(self) -> None:
        self.tools: ToolEvents | None = None
        """Those of the current run; None between runs."""

    def for_options(self) -> dict[Any, list[HookMatcher]]:
        """Return the hooks for the SDK's options."""
        return {
            "PreToolUse": [HookMatcher(hooks=[self._started])],
            "PostToolUse": [HookMatcher(hooks=[self._completed])],
            "PostToolUseFailure": [HookMatcher(hooks=[self._failed])],
        }

    async def _started(self, call: Any, _id: str | None, _context: object) -> Any:  # noqa: ANN401  # the SDK's types
        if self.tools is not None:
            self.tools.start(call)
        return {}

    async def _completed(self, call: Any, _id: str | None, _context: object) -> Any:  # noqa: ANN401
        if self.tools is not None:
            self.tools.complete(call)
        return {}

    async def _failed(self, call: Any, _id: str | None, _context: object) -> Any:  # noqa: ANN401
        if self.tools is not None:
            self.tools.fail(call)
        return {}

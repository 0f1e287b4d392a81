"""The tool calls of an agent as `tool_started` and `tool_finished`.

An agent reports a call in cumulative updates, and may learn its input after it has begun. So the start is written
when the input is known, when the call runs, or when a permission for it is asked.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from ao_executors.acp.agent_messages import parent_of
from ao_executors.core import Emitter
from ao_executors.core.foreign_json import JsonDocument, as_object

_BEGUN: Final = ("in_progress", "completed", "failed")
_KNOWN_BEFORE: Final = {"cwd"}
"""What OpenCode tells of an input before the model has written it."""
_NAME_CHARACTERS: Final = 200
_IN_BACKGROUND: Final = re.compile(
    r"Command moved to background \(PID|Background shell \S+ started|Command running in background"
)
"""What Gemini, Qwen and Claude answer to the model about a command that runs on (seen with 0.61, 0.24 and 2.1)."""


@dataclass(slots=True)
class ToolCall:
    """A tool call, as far as the agent has told it.

    Args:
        call_id: The agent's id of the call.
        own_name: The tool's name, as the agent's row finds it; None if it does not.
        known: The fields of the updates; of one with several values the last.
        has_begun: Whether its start is written.
        is_finished: Whether its end is written.
        why_denied: Why it was not allowed.
    """

    call_id: str
    own_name: str | None = None
    known: JsonDocument = field(default_factory=dict)
    has_begun: bool = False
    is_finished: bool = False
    why_denied: str | None = None

    @property
    def name(self) -> str:
        """The tool's own name if the agent gives it, else the kind of the tool. A title is a sentence for people."""
        given = [self.own_name, self.told_name, self.known.get("kind"), self.known.get("title"), "tool"]
        return next(str(name) for name in given if name)[:_NAME_CHARACTERS]

    @property
    def told_name(self) -> str | None:
        """The tool's own name, if the agent tells it as such."""
        meta = as_object(self.known.get("_meta"))
        named = [self.known.get("name"), meta.get("toolName")]
        named += [as_object(part).get("toolName") for part in meta.values()]
        return next((str(name) for name in named if name), None)

    @property
    def tool_input(self) -> Any:  # noqa: ANN401  # any JSON
        """The input; its title, if that is not told."""
        title = self.known.get("title")
        return self.known.get("rawInput") or ({"title": title} if title else None)

    @property
    def output(self) -> Any:  # noqa: ANN401  # any JSON
        """The output; None if none is told."""
        texts = self.texts
        return self.known.get("rawOutput") if self.known.get("rawOutput") is not None else "\n".join(texts) or None

    @property
    def texts(self) -> list[str]:
        """The texts in the content of the call."""
        blocks = self.known.get("content")
        contents = [as_object(as_object(block).get("content")) for block in blocks] if isinstance(blocks, list) else []
        return [content["text"] for content in contents if isinstance(content.get("text"), str)]


class AgentTools:
    """The tool calls of a run.

    Args:
        events: The emitter of the run.
        where_named: `AgentRow.tool_name`.
        answer_tool: The own name of `submit_answer`, whose calls become no events; None if there is no such tool.
    """

    def __init__(self, events: Emitter, where_named: tuple[str, str], answer_tool: str | None = None) -> None:
        self.ended_submissions = 0
        """How many calls of the agent itself that submit the answer have ended."""
        self.last_denial: str | None = None
        """Why the last call of the run that was denied was denied."""
        self.is_cancelled = False
        """True once the turn is cancelled: what fails then was cancelled."""
        self._events = events
        self._where_named = where_named
        self._answer_tool = answer_tool
        self._calls: dict[str, ToolCall] = {}

    def take(self, update: JsonDocument) -> ToolCall | None:
        """Take a `tool_call`, a `tool_call_update`, or the call in a permission request; return the call, if known."""
        call_id = update.get("toolCallId")
        if not isinstance(call_id, str) or not call_id:
            return None
        if self._is_first(call_id, update):
            self._calls[call_id] = ToolCall(call_id, self._own_name(update))
        call = self._calls[call_id]
        if not call.is_finished:
            self._take(call, update)
        return call

    def _own_name(self, update: JsonDocument) -> str | None:
        field_name, pattern = self._where_named
        found = re.match(pattern, str(update.get(field_name) or ""))
        return found and found[1]

    def begins_to_submit(self, update: JsonDocument) -> bool:
        """Return whether an update is the first one about a call of the agent itself that submits the answer."""
        call_id = str(update.get("toolCallId"))
        is_of_agent = self._is_first(call_id, update) and parent_of(update) is None
        return is_of_agent and self.submits(ToolCall(call_id, self._own_name(update), update))

    def _is_first(self, call_id: str, update: JsonDocument) -> bool:
        """Return whether an update begins a call. Some providers give the calls of each answer the same ids."""
        known = self._calls.get(call_id)
        return known is None or (known.is_finished and update.get("sessionUpdate") == "tool_call")

    def _take(self, call: ToolCall, update: JsonDocument) -> None:
        told = {name: value for name, value in update.items() if value not in (None, {}, [], "")}
        if told.get("kind") == "other":  # OpenCode asks so about a folder, for a call whose kind it has told
            told["kind"] = call.known.get("kind", "other")
        call.known |= told
        status = call.known.get("status")
        told_input = call.known.get("rawInput") or {}
        if status in _BEGUN or not isinstance(told_input, dict) or told_input.keys() - _KNOWN_BEFORE:
            self._start(call)
        if status == "completed" and _IN_BACKGROUND.match(str(call.output or "").lstrip()):
            return  # what runs on ends with the turn
        if status == "completed":
            self._finish(call, "completed", tool_output=call.output)
        elif status == "failed":
            error = call.output if isinstance(call.output, str) else "\n".join(call.texts) or None
            self._finish(call, "cancelled" if self.is_cancelled else "failed", error=error)

    def start(self, call_id: object) -> None:
        """Write the start of a call whose permission is asked, if it is not written."""
        if call := self._calls.get(str(call_id)):
            self._start(call)

    def deny(self, call_id: object, reason: str) -> None:
        """Record that a call is not allowed, so that its end is `denied`. The agent may report no end of it."""
        self.last_denial = reason
        if (call := self._calls.get(str(call_id))) and not call.is_finished:
            call.why_denied = reason

    def close(self, status: str, reason: str) -> None:
        """End the calls of a turn that has ended: those that were denied, and others with `status`."""
        for call in reversed(list(self._calls.values())):  # a part ends before its call
            if not call.is_finished:
                self._start(call)
                if call.why_denied is None and status == "failed" and not self.submits(call):
                    self._events.warn_unfinished(f"{call.name}: {reason}: {call.tool_input}"[:1000], call.call_id)
                self._finish(call, status, error=reason)

    def submits(self, call: ToolCall) -> bool:
        """Return whether a call submits the answer."""
        return self._answer_tool is not None and self._answer_tool in (call.own_name, call.told_name)

    def is_part(self, call_id: object) -> bool:
        """Return whether a call is known as a part of another one."""
        call = self._calls.get(str(call_id))
        return call is not None and parent_of(call.known) is not None

    def _start(self, call: ToolCall) -> None:
        if call.has_begun:
            return
        call.has_begun = True
        if not self.submits(call):
            self._events.start_tool(call.call_id, call.name, call.tool_input, parent_of(call.known))

    def _finish(self, call: ToolCall, status: str, **outcome: object) -> None:
        call.is_finished = True
        if self.submits(call) and parent_of(call.known) is None:
            self.ended_submissions += 1
        if call.why_denied is not None:
            status, outcome = "denied", {"error": call.why_denied}
        if not self.submits(call):
            self._events.finish_tool(call.call_id, status, tool_input=call.tool_input, **outcome)

"""Turn the app server's notifications of a thread into events: the model's messages, reasoning and tool calls."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ao_executors.core import Answer, Emitter
from ao_executors.core.answer_tool import SERVER, TOOL
from ao_executors.core.foreign_json import JsonDocument, read_json, text_of
from ao_executors.core.message_stream import TurnMessages
from ao_protocol.contracts import NativeOutput
from ao_protocol.framing import NotIJson, decode_object

_COMMAND: Final = "exec_command"
_NAMES: Final = {
    "commandExecution": _COMMAND,
    "dynamicToolCall": "dynamic_tool_call",
    "fileChange": "apply_patch",
    "imageView": "view_image",
    "mcpToolCall": "mcp",
    "webSearch": "web_search",
}
"""The types of items that are tool calls, with the names of their tools."""
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_STATUSES: Final = {"completed": "completed", "failed": "failed", "declined": "denied"}
_REFUSED: Final = re.compile(
    r"approval policy is Never|.*(rejected by user|approval required by policy)|exec_command failed.*Rejected\(",
    re.DOTALL,
)
"""The CLI's answer to the model about a call that it does not allow (seen with 0.163)."""
_FAILED: Final = re.compile(
    r"unsupported call|failed to parse|.{0,200}Process exited with code [1-9]|(exec_command|write_stdin) failed",
    re.DOTALL,
)
_RUNNING: Final = re.compile(r".{0,200}Process running with session ID", re.DOTALL)
_DENIED: Final = (
    "denied: it needs more than the sandbox allows, and nobody was asked; "
    "executor_config: access, additional_folders and network_access allow more"
)
_BETWEEN_PARTS: Final = "\n\n"
"""Between the parts of a summary of reasoning, which are one message."""


class CodexMessages(TurnMessages):
    """The messages of a turn. Those of one response of the API that are held back are one, except for commentary."""

    def begin_turn(self) -> None:
        """Forget the messages so far."""
        super().begin_turn()
        self._continues = False

    def end_response(self) -> None:
        """End a response of the API: the next message is another one."""
        self._continues = False

    def add_message(self, message_id: str, text: str, *, is_commentary: bool) -> None:
        """Add a whole message."""
        if not self._continues:
            self.begin_message()
        self.add(message_id, text)
        self._continues = self.holds_back and not is_commentary

    def show(self) -> None:
        """Write what is held back of the message."""
        super().show()
        self._continues = False

    def abandon(self) -> None:
        """End the messages that a broken stream has cut off: the model is asked again."""
        self.end_pieces()
        self.begin_turn()

    def end(self, stop_reason: str, *, is_native: bool) -> Answer:
        """Return the last message of the turn, as structured output with `is_native` if it is JSON."""
        answer = self.answer(stop_reason)
        return replace(answer, native=_structured(answer.text)) if is_native else answer


def _structured(text: str) -> NativeOutput | None:
    try:
        return NativeOutput(decode_object(text.encode(errors="replace")))
    except NotIJson:  # the contract judges the text
        return None


class CodexTools:
    """The tool calls in the server's notifications.

    The server reports a call twice: as an item, and as the model's call and its output. The latter lacks the status,
    and exists only in a thread that this process has started; the former is missing for calls that the CLI refuses, and
    for some that the sandbox stops at once (seen with 0.163).
    """

    def __init__(self, events: Emitter, *, submits: bool = False) -> None:
        self._events = events
        self._has_answer_tool = submits
        self._submissions: set[object] = set()
        """The ids of the calls that submit the answer, of which no event tells (AOX-185)."""
        self._denials: dict[str, str] = {}
        self._held: dict[str, tuple[str, object, str | None] | None] = {}
        """The calls that end with the turn of a sub-agent, with what is known about their end."""
        self._told_by_model: set[str] = set()
        """The ids of calls that were told as the model's call: if one is told so again, it is another call."""

    def deny(self, call_id: str, reason: str) -> None:
        """Note why a call is not allowed; the server reports its end."""
        self._denials[call_id] = reason

    def hold(self, item: Mapping[str, Any], parent: str | None) -> None:
        """Keep the call open that an item is about: a sub-agent works for it. Begin it if it has not begun."""
        if item["id"] not in self._events.known_tools:
            self._start(item["id"], "spawn_agent" if item["kind"] == "started" else "send_message", None, parent)
        self._held[item["id"]] = None

    def release(self, call_id: str) -> None:
        """End a call that was kept open."""
        if call_id in self._held:
            self._finish(call_id, *(self._held.pop(call_id) or ("completed", None, None)))

    def submits(self, told: Mapping[str, Any]) -> bool:
        """Return whether an item, a call of the model or its output is about a call that submits the answer."""
        call_id = told.get("call_id") or told.get("id")
        is_call = told["type"] in {*_CALLS, "dynamicToolCall", "mcpToolCall"}
        is_its = TOOL in (told.get("name"), told.get("tool")) and told.get("server") in (None, SERVER)
        if is_call and is_its and self._has_answer_tool and told.get("namespace") in (None, f"mcp__{SERVER}"):
            self._submissions.add(call_id)
        return call_id in self._submissions

    def begins_to_submit(self, told: Mapping[str, Any]) -> bool:
        """Return whether an item or a call of the model is the first word about a call that submits the answer."""
        before = len(self._submissions)
        return self.submits(told) and len(self._submissions) > before

    def start_item(self, item: Mapping[str, Any], parent: str | None = None) -> None:
        """Begin the tool call of an item, if it is one, and not the echo of a call of the model that has begun it."""
        is_echo = item["id"] in self._told_by_model & self._events.known_tools
        if item["type"] in _NAMES and not is_echo and not self.submits(item):
            self._start(item["id"], _name_of(item), _input_of(item), parent)

    def start_call(self, raw: Mapping[str, Any], parent: str | None = None) -> None:
        """Begin a call of the model."""
        if raw["type"] not in _CALLS or self.submits(raw):
            return
        call_id, is_another = raw["call_id"], raw["call_id"] in self._told_by_model
        self._told_by_model.add(call_id)
        if is_another or call_id not in self._events.known_tools:  # else its item has begun it, and perhaps ended it
            namespace, name = raw.get("namespace"), raw["name"]
            tool_input = _parsed(raw.get("arguments", raw.get("input")))
            self._start(call_id, f"{namespace}__{name}" if namespace else name, tool_input, parent)

    def finish_item(self, item: Mapping[str, Any], parent: str | None = None) -> None:
        """End the tool call of an item, if it is one."""
        if item["type"] not in _NAMES or self.submits(item):
            return
        if item["id"] not in self._events.known_tools:
            self.start_item(item, parent)
        status = _STATUSES.get(item.get("status", "completed"), "completed")
        self._finish(item["id"], status, *_outcome_of(item, status))

    def finish_call(self, raw: Mapping[str, Any]) -> None:
        """End a call of the model by its output, if no item has ended it."""
        if raw["type"] not in _OUTPUTS or self.submits(raw):
            return
        output = raw.get("output")
        text = text_of(output)
        name, _ = self._events.open_tools.get(raw["call_id"], ("", None))
        if name == _COMMAND and _RUNNING.match(text):
            return  # its item tells the end; without one it is open at the end of the run
        if _REFUSED.match(text):
            self._finish(raw["call_id"], "denied", None, _DENIED)
        elif _FAILED.match(text):
            self._finish(raw["call_id"], "failed", None, text)
        else:
            self._finish(raw["call_id"], "completed", output, None)

    def _start(self, call_id: str, name: str, tool_input: object, parent: str | None) -> None:
        if parent is None or parent in self._events.open_tools:  # else it would seem to be the agent's own
            self._events.start_tool(call_id, name, tool_input, parent)

    def _finish(self, call_id: str, status: str, output: object, error: str | None) -> None:
        if status == "denied":
            error = self._denials.pop(call_id, error)
        if call_id in self._held:
            self._held[call_id] = status, output, error
        else:
            self._events.finish_tool(call_id, status, tool_output=output, error=error)


class CodexWork:
    """The work of one thread, as events.

    Args:
        events: The emitter of the run.
        tools: The tool calls of all threads of the run.
        messages: The messages of this thread.
        parent: The call that a sub-agent works for; None: it is the thread of the run.
    """

    def __init__(self, events: Emitter, tools: CodexTools, messages: CodexMessages, parent: str | None = None) -> None:
        self.messages = messages
        self.parent = parent
        self.call_count = 0
        """How many tool calls the thread has begun."""
        self._events = events
        self._tools = tools

    def take(self, method: str, params: JsonDocument) -> None:
        """Take a notification about an item of the thread."""
        before = len(self._events.known_tools)
        match method:
            case "item/agentMessage/delta":
                self.messages.add_piece(params["itemId"], params["delta"], self.parent)
            case "item/reasoning/summaryPartAdded" if params["summaryIndex"] > 0:
                self.messages.add_reasoning_piece(params["itemId"], _BETWEEN_PARTS, self.parent)
            case "item/reasoning/summaryTextDelta":
                self.messages.add_reasoning_piece(params["itemId"], params["delta"], self.parent)
            case "item/reasoning/textDelta":
                self.messages.add_reasoning_piece(f"{params['itemId']}_text", params["delta"], self.parent)
            case "item/started":
                self._forget_before_answer(params["item"])
                self._tools.start_item(params["item"], self.parent)
                if len(self._events.known_tools) > before:
                    self.messages.show()
            case "item/completed":
                self._finish(params["item"])
            case "rawResponseItem/completed":
                self._take_raw(params["item"])
        self.call_count += len(self._events.known_tools) - before

    def _finish(self, item: JsonDocument) -> None:
        match item["type"]:
            case "agentMessage" if self.parent is not None:
                self.messages.add_part(item["id"], item["text"], self.parent)
            case "agentMessage":
                is_commentary = item.get("phase") == "commentary"
                self.messages.add_message(item["id"], item["text"], is_commentary=is_commentary)
            case "reasoning":
                summary, thoughts = item.get("summary") or (), item.get("content") or ()
                self.messages.add_reasoning(item["id"], _BETWEEN_PARTS.join(summary), self.parent)
                self.messages.add_reasoning(f"{item['id']}_text", "".join(thoughts), self.parent)
            case _:
                self._tools.finish_item(item, self.parent)

    def _forget_before_answer(self, told: JsonDocument) -> None:
        """Forget the message before a call that submits the answer: it may contain an answer that does not fit."""
        if self._tools.begins_to_submit(told):
            self.call_count += 1
            self.messages.begin_turn()

    def _take_raw(self, raw: JsonDocument) -> None:
        self._forget_before_answer(raw)
        if raw["type"].endswith("_call"):
            self.messages.show()
        self._tools.start_call(raw, self.parent)
        self._tools.finish_call(raw)


def _name_of(item: Mapping[str, Any]) -> str:
    match item["type"]:
        case "mcpToolCall":
            return f"mcp__{item['server']}__{item['tool']}"
        case "dynamicToolCall":
            return str(item["tool"])
        case kind:
            return _NAMES[kind]


def _input_of(item: Mapping[str, Any]) -> Any:  # noqa: ANN401  # any JSON
    match item["type"]:
        case "commandExecution":
            return {"cmd": item["command"], "workdir": item["cwd"]}
        case "fileChange":
            return {"changes": item["changes"]}
        case "webSearch":
            return {"query": item.get("query")}
        case "imageView":
            return {"path": item.get("path")}
        case _:
            return item.get("arguments")


def _outcome_of(item: Mapping[str, Any], status: str) -> tuple[Any, str | None]:
    """Return the output and the error of a finished item."""
    if status == "denied":
        return None, _DENIED
    failure = "the call failed" if status == "failed" else None
    match item["type"]:
        case "commandExecution":
            return item.get("aggregatedOutput") or "", failure and f"exit code {item.get('exitCode')}"
        case "mcpToolCall":
            return (item.get("result") or {}).get("content"), (item.get("error") or {}).get("message") or failure
        case _:
            return None, failure


def _parsed(arguments: object) -> Any:  # noqa: ANN401  # any JSON
    try:
        return read_json(arguments) if isinstance(arguments, str) else arguments
    except NotIJson:
        return arguments

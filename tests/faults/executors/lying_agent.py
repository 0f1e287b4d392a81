"""An agent that plays its part, and lies at one place of it.

usage: lying_agent.py DIALECT FILE      DIALECT is acp, claude or codex; FILE has the lie in JSON

It ends when its stdin ends.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, TypedDict

Document = dict[str, Any]
SESSION = os.getcwd()  # noqa: PTH109  # see main
"""The id of the session: no other run has it."""


class Lie(TypedDict, total=False):
    """A lie about the message `at`: another line, or another value at a path in it, or its end."""

    at: str
    line: str
    """Sent in place of the message; `ID` is the id of the request. With `goes_on`, the message follows."""
    goes_on: bool
    path: list[str]
    value: Any
    is_missing: bool
    stderr: str
    """Latin-1 text on stderr before it exits in place of the message."""
    closes: int
    """Closes a descriptor in place of the message, and waits."""


ACP_CALL: Document = {
    "sessionUpdate": "tool_call",
    "toolCallId": "c1",
    "title": "Run ls",
    "kind": "execute",
    "status": "in_progress",
    "rawInput": {"command": "ls"},
    "content": [{"type": "content", "content": {"type": "text", "text": "a"}}],
    "_meta": {"claudeCode": {"toolName": "Bash"}},
}
ACP_UPDATES: dict[str, Document] = {
    "chunk": {"sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": {"type": "text", "text": "Hel"}},
    "call": ACP_CALL,
    "done": {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "rawOutput": {"a": 1}},
    "usage": {"sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": {"amount": 0.5, "currency": "USD"}},
    "last": {"sessionUpdate": "agent_message_chunk", "messageId": "m2", "content": {"type": "text", "text": "Done."}},
}
ACP_RESULTS: dict[str, Document] = {
    "initialize": {
        "protocolVersion": 1,
        "agentCapabilities": {"loadSession": True, "mcpCapabilities": {"http": True}, "sessionCapabilities": {}},
    },
    "session/new": {
        "sessionId": SESSION,
        "modes": {"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "default"}]},
        "configOptions": [{"id": "o", "category": "mode", "options": [{"value": "default"}]}],
    },
    "session/set_mode": {},
    "session/prompt": {"stopReason": "end_turn", "usage": {"inputTokens": 3, "outputTokens": 4}},
}
ACP_PERMISSION: Document = {
    "sessionId": SESSION,
    "toolCall": {**ACP_CALL, "toolCallId": "c2"},
    "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}],
}
_OF_TURN: Document = {"threadId": "t1", "turnId": "u1"}
_OF_AGENT: Document = {"threadId": "t2", "turnId": "u2"}
_AGENT: Document = {"type": "subAgentActivity", "id": "c8", "kind": "started", "agentThreadId": "t2"}
_COMMAND: Document = {"type": "commandExecution", "id": "c1", "command": "ls", "cwd": "/", "status": "inProgress"}
_ENDED: Document = {**_COMMAND, "status": "failed", "exitCode": 1, "aggregatedOutput": "a"}
_TOOL: Document = {
    "type": "mcpToolCall",
    "id": "c2",
    "server": "s",
    "tool": "t",
    "arguments": {"a": 1},
    "status": "completed",
    "result": {"content": [{"type": "text", "text": "x"}]},
    "error": None,
}
_TOKENS: Document = {"inputTokens": 9, "outputTokens": 2, "cachedInputTokens": 1, "cacheWriteInputTokens": 1}
_RETRY: Document = {
    "message": "Reconnecting... 1/2",
    "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": 500}},
    "additionalDetails": "x",
}
CODEX_RESULTS: dict[str, Document] = {
    "initialize": {"userAgent": "x"},
    "config/read": {"config": {"mcp_servers": {"own": {}}}},
    "thread/start": {"thread": {"id": "t1"}, "model": "m"},
    "turn/start": {"turn": {"id": "u1"}},
}
CODEX_NOTIFICATIONS: dict[str, tuple[str, Document]] = {
    "started": ("turn/started", {"threadId": "t1", "turn": {"id": "u1"}}),
    "piece": ("item/agentMessage/delta", {**_OF_TURN, "itemId": "m1", "delta": "Hel"}),
    "said": ("item/completed", {**_OF_TURN, "item": {"type": "agentMessage", "id": "m1", "text": "Hello"}}),
    "raw": (
        "rawResponseItem/completed",
        {**_OF_TURN, "item": {"type": "function_call", "call_id": "c9", "name": "f", "arguments": '{"a":1}'}},
    ),
    "raw end": (
        "rawResponseItem/completed",
        {**_OF_TURN, "item": {"type": "function_call_output", "call_id": "c9", "output": "x"}},
    ),
    "command": ("item/started", {**_OF_TURN, "item": _COMMAND}),
    "command end": ("item/completed", {**_OF_TURN, "item": _ENDED}),
    "tool": ("item/completed", {**_OF_TURN, "item": _TOOL}),
    "tokens": ("thread/tokenUsage/updated", {**_OF_TURN, "tokenUsage": {"total": _TOKENS, "last": _TOKENS}}),
    "thought piece": (
        "item/reasoning/summaryTextDelta",
        {**_OF_TURN, "itemId": "r1", "summaryIndex": 0, "delta": "Hm"},
    ),
    "thought": ("item/completed", {**_OF_TURN, "item": {"type": "reasoning", "id": "r1", "summary": ["Hm."]}}),
    "agent": ("item/started", {**_OF_TURN, "item": _AGENT}),
    "said by agent": ("item/completed", {**_OF_AGENT, "item": {"type": "agentMessage", "id": "m3", "text": "Hi."}}),
    "tokens of agent": ("thread/tokenUsage/updated", {**_OF_AGENT, "tokenUsage": {"total": _TOKENS, "last": _TOKENS}}),
    "agent end": ("turn/completed", {"threadId": "t2", "turn": {"id": "u2", "status": "completed"}}),
    "retry": ("error", {**_OF_TURN, "willRetry": True, "error": _RETRY}),
    "answer": ("item/completed", {**_OF_TURN, "item": {"type": "agentMessage", "id": "m2", "text": "Done."}}),
    "completed": ("turn/completed", {"threadId": "t1", "turn": {"id": "u1", "status": "completed"}}),
}
CODEX_APPROVALS: dict[str, tuple[str, Document]] = {
    "approval": (
        "item/commandExecution/requestApproval",
        {**_OF_TURN, "itemId": "c1", "command": "ls", "availableDecisions": ["accept", "acceptForSession"]},
    ),
    "question": (
        "item/tool/requestUserInput",
        {**_OF_TURN, "itemId": "c3", "questions": [{"id": "q", "question": "Why?", "options": [{"label": "a"}]}]},
    ),
    "elicitation": (
        "mcpServer/elicitation/request",
        {**_OF_TURN, "serverName": "s", "message": "m", "mode": "form", "requestedSchema": {"type": "object"}},
    ),
}
_OF_CLAUDE: Document = {"session_id": SESSION, "uuid": "x", "parent_tool_use_id": None}
_USE: Document = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
_LIMIT: Document = {"status": "allowed_warning", "resetsAt": 9, "rateLimitType": "five_hour", "utilization": 0.9}
CLAUDE_MESSAGES: dict[str, Document] = {
    "init": {**_OF_CLAUDE, "type": "system", "subtype": "init", "model": "m"},
    "piece": {
        **_OF_CLAUDE,
        "type": "stream_event",
        "event": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hel"}},
    },
    "said": {
        **_OF_CLAUDE,
        "type": "assistant",
        "message": {
            "id": "m1",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Hello"}, _USE],
        },
    },
    "denied": {**_OF_CLAUDE, "type": "system", "subtype": "permission_denied", "tool_use_id": "c9", "message": "no"},
    "used": {
        **_OF_CLAUDE,
        "type": "user",
        "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]},
        "tool_use_result": {"a": 1},
    },
    "task": {**_OF_CLAUDE, "type": "system", "subtype": "task_started", "task_id": "1", "description": "d"},
    "limit": {**_OF_CLAUDE, "type": "rate_limit_event", "rate_limit_info": _LIMIT},
    "retry": {
        **_OF_CLAUDE,
        "type": "system",
        "subtype": "api_retry",
        "attempt": 1,
        "retry_delay_ms": 1,
        "error_status": 500,
        "error": "server_error",
    },
    "result": {
        **_OF_CLAUDE,
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": 1,
        "duration_api_ms": 1,
        "num_turns": 1,
        "total_cost_usd": 0.1,
        "usage": {"input_tokens": 3, "output_tokens": 4},
        "result": "Done.",
        "stop_reason": "end_turn",
    },
}
CLAUDE_ANSWER: Document = {
    "type": "control_response",
    "response": {"subtype": "success", "request_id": "", "response": {}},
}


class Agent:
    def __init__(self, lie: Lie) -> None:
        self.lie = lie

    def send(self, at: str, document: Document, place: tuple[str, ...]) -> None:
        """Send a message; a path of the lie begins at `place` in it."""
        if at == self.lie.get("at"):
            document = self.lied(document, place)
        self.write(json.dumps(document))

    def write(self, line: str) -> None:
        sys.stdout.buffer.write(line.encode(errors="surrogateescape") + b"\n")
        sys.stdout.buffer.flush()

    def lied(self, document: Document, place: tuple[str, ...]) -> Document:
        lie = self.lie
        if "stderr" in lie:
            sys.stderr.buffer.write(lie["stderr"].encode("latin-1"))
            sys.stderr.buffer.flush()
            os._exit(3)
        if "closes" in lie:
            os.close(lie["closes"])
            signal.pause()
        if "line" in lie:
            self.write(lie["line"].replace("ID", str(document.get("id", 1))))
            if not lie.get("goes_on"):
                self.wait()
            return document
        whole: Document = changed(document, [*place, *lie["path"]], ... if lie.get("is_missing") else lie["value"])
        return whole

    def receive(self) -> Document:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        message: Document = json.loads(line)
        return message

    def wait(self) -> None:
        while sys.stdin.readline():
            pass
        sys.exit(0)

    def ask(self, at: str, method: str, params: Document) -> None:
        self.send(at, {"jsonrpc": "2.0", "id": at, "method": method, "params": params}, ("params",))
        while self.receive().get("id") != at:
            pass

    def play_acp(self) -> None:
        while True:
            message = self.receive()
            method = message.get("method")
            if method == "session/prompt":
                for at, update in ACP_UPDATES.items():
                    params = {"sessionId": SESSION, "update": update}
                    self.send(at, {"jsonrpc": "2.0", "method": "session/update", "params": params}, ("params",))
                    if at == "done" and self.lie.get("at") == "permission":
                        self.ask("permission", "session/request_permission", ACP_PERMISSION)
            if method is not None and "id" in message:
                response = {"jsonrpc": "2.0", "id": message["id"], "result": ACP_RESULTS.get(method, {})}
                self.send(method, response, ("result",))

    def play_codex(self) -> None:
        while True:
            message = self.receive()
            method = message.get("method")
            if method in CODEX_RESULTS:
                self.send(method, {"id": message["id"], "result": CODEX_RESULTS[method]}, ("result",))
            if method == "turn/start":
                for at, (told, params) in CODEX_NOTIFICATIONS.items():
                    if at == "retry" and self.lie.get("at") != at:
                        continue
                    self.send(at, {"method": told, "params": params}, ("params",))
                    if at == "command" and self.lie.get("at") in CODEX_APPROVALS:
                        self.ask(self.lie["at"], *CODEX_APPROVALS[self.lie["at"]])

    def play_claude(self) -> None:
        while True:
            message = self.receive()
            if message.get("type") == "control_request":
                answer = changed(CLAUDE_ANSWER, ["response", "request_id"], message["request_id"])
                self.send("initialize", answer, ())
            elif message.get("type") == "user":
                for at, document in CLAUDE_MESSAGES.items():
                    self.send(at, document, ())


def changed(whole: Any, path: list[str], value: Any) -> Any:
    """Return a document with another value at a path; without the member if the value is `...`."""
    name, *rest = path
    copy: Any = list(whole) if isinstance(whole, list) else dict(whole)
    key: Any = int(name) if isinstance(whole, list) else name
    if rest:
        copy[key] = changed(whole[key], rest, value)
    elif value is ...:
        del copy[key]
    else:
        copy[key] = value
    return copy


def paths_in(document: Any) -> Iterator[list[str]]:
    """Yield the path of every value in a document."""
    for name, value in document.items() if isinstance(document, dict) else enumerate(document):
        yield [str(name)]
        if isinstance(value, dict | list):
            yield from ([str(name), *path] for path in paths_in(value))


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:  # noqa: PTH123  # pathlib takes as long to import as all the rest
        agent = Agent(json.load(file))
    {"acp": agent.play_acp, "codex": agent.play_codex, "claude": agent.play_claude}[sys.argv[1]]()

"""The tool `submit_answer` for the Claude CLI, which passes the messages to its server on over its stdio.

Measured on the Claude CLI 2.1.332.
"""

from typing import Any

from ao_executors.core import RunContext
from ao_executors.core.answer_tool import NAME, SERVER, AnswerTool


class ClaudeAnswerTool(AnswerTool):
    """The server of one CLI."""

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self._of_sub_agents: set[object] = set()
        """The ids of the calls of sub-agents, which are not the answer."""
        self.is_part = lambda meta: meta.get("claudecode/toolUseId") in self._of_sub_agents

    def answers(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request of the CLI to this server; None if the message is another one."""
        match message:
            case {"type": "assistant", "parent_tool_use_id": str(), "message": {"content": [*blocks]}}:
                calls = [block for block in blocks if isinstance(block, dict) and block.get("name") == NAME]
                self._of_sub_agents |= {call.get("id") for call in calls}
            case {
                "type": "control_request",
                "request_id": request_id,
                "request": {"subtype": "mcp_message", "server_name": str(server), "message": dict(asked)},
            } if server == SERVER:
                told = {"mcp_response": self.response(asked)}
                response = {"subtype": "success", "request_id": request_id, "response": told}
                return {"type": "control_response", "response": response}
        return None

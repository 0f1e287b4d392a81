"""The tool `submit_answer` of the strategy `tool` (SPEC 9.9), which this process serves to the CLI over its stdio.

The SDK can serve tools, too, but imports `mcp` for that (see `sdk`). One tool with one schema needs three methods.
Measured on the Claude CLI 2.1.332.
"""

from typing import TYPE_CHECKING, Any, Final

from ao_executors.core import RunContext
from ao_protocol.contracts import JsonFormat, Strategy, submission_schema

if TYPE_CHECKING:
    from ao_executors.core.conversation import Submissions

SERVER: Final = "ao_answer"
"""The name of the server; a blueprint's server of the same name is replaced."""
NAME: Final = f"mcp__{SERVER}__submit_answer"
"""The CLI's name of the tool."""
_DESCRIPTION: Final = "Submit your final answer with this tool. Only what is submitted counts."
_NOT_THE_AGENT: Final = "Only the agent that started you submits the final answer. Report to it with your text instead."
_METHOD_NOT_FOUND: Final = -32601


class AnswerTool:
    """The server of one CLI. A conversation sets `submissions`."""

    def __init__(self, context: RunContext) -> None:
        self.submissions: Submissions | None = None
        self._schema: dict[str, Any] | None = None
        self._of_sub_agents: set[str] = set()
        """The ids of the calls of sub-agents, which are not the answer (AOX-096)."""
        if is_offered(context) and context.contract is not None and isinstance(context.contract.format, JsonFormat):
            self._schema = submission_schema(context.contract.format.schema).document

    def answers(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request of the CLI to this server; None if the message is another one."""
        match message:
            case {"type": "assistant", "parent_tool_use_id": str(), "message": {"content": [*blocks]}}:
                calls = [block for block in blocks if isinstance(block, dict) and block.get("name") == NAME]
                self._of_sub_agents |= {str(call.get("id")) for call in calls}
            case {
                "type": "control_request",
                "request_id": request_id,
                "request": {"subtype": "mcp_message", "server_name": str(server), "message": dict(asked)},
            } if server == SERVER and self._schema is not None:
                answer = {"jsonrpc": "2.0", "id": asked.get("id"), **self._answer(asked, self._schema)}
                response = {"subtype": "success", "request_id": request_id, "response": {"mcp_response": answer}}
                return {"type": "control_response", "response": response}
        return None

    def _answer(self, asked: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
        match asked:
            case {"method": "initialize", "params": {"protocolVersion": version}}:
                info = {"name": SERVER, "version": "1"}
                return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
            case {"method": "tools/list"}:
                tool = {"name": "submit_answer", "description": _DESCRIPTION, "inputSchema": schema}
                return {"result": {"tools": [tool]}}
            case {"method": "tools/call", "params": {"_meta": {"claudecode/toolUseId": call}}} if (
                call in self._of_sub_agents
            ):
                return {"result": {"content": [{"type": "text", "text": _NOT_THE_AGENT}], "isError": True}}
            case {"method": "tools/call", "params": {"arguments": given}} if self.submissions is not None:
                text, is_error = self.submissions.submit(given)
                return {"result": {"content": [{"type": "text", "text": text}], "isError": is_error}}
            case {"method": str(method)} if method.startswith("notifications/") or method == "ping":
                return {"result": {}}
        return {"error": {"code": _METHOD_NOT_FOUND, "message": "not found"}}


def is_offered(context: RunContext) -> bool:
    """Return whether the CLI of a run has the tool."""
    return context.contract is not None and context.contract.strategy is Strategy.TOOL

"""Answer the app server's questions. Each of them stops the turn until it is answered."""

from typing import Final

from ao_executors.codex.rpc import Message

_DENIALS: Final[dict[str, Message]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
}
"""The answer by policy: no. The model is told and continues."""


async def deny(method: str, params: Message) -> Message | None:
    """Return the answer by policy; None for an unknown method."""
    return _DENIALS.get(method)

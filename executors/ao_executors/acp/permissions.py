"""Permission requests of an agent: decided by the configuration, by the kind of the options."""

from collections.abc import Sequence
from typing import Any, Final

from ao_executors.acp.peer import JsonDocument, as_object
from ao_executors.acp.tools import ToolCalls
from ao_executors.core import Task

CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
"""The answer to a request of a turn that is cancelled, and a denial of a request without an option to reject."""
DEFAULT_PERMISSIONS: Final = "deny"
_ALLOW: Final = ("allow_once", "allow_always")
_REJECT: Final = ("reject_once", "reject_always")
_REMEDY: Final = (
    "executor_config.permissions is deny; allow it with permissions: allow, or in the agent's configuration"
)


class Permissions:
    """The answers to permission requests."""

    def __init__(self, task: Task, tools: ToolCalls) -> None:
        config: Any = task.config  # checked against the config schema
        self.is_cancelled = False
        """True once the turn is cancelled: every request is then answered as cancelled."""
        self._allows = config.get("permissions", DEFAULT_PERMISSIONS) == "allow"
        self._tools = tools

    async def answer(self, params: JsonDocument) -> JsonDocument:
        """Return the result of `session/request_permission`."""
        call = as_object(params.get("toolCall"))
        self._tools.take(call)
        self._tools.start(call.get("toolCallId"))
        if self.is_cancelled:
            return CANCELLED
        given = params.get("options")
        options = [as_object(option) for option in given] if isinstance(given, list) else []
        allowed = _option_of(options, _ALLOW) if self._allows else None
        if allowed is not None:
            return _chosen(allowed)
        self._tools.deny(call.get("toolCallId"), _REMEDY)
        rejected = _option_of(options, _REJECT)
        return CANCELLED if rejected is None else _chosen(rejected)


def _option_of(options: Sequence[JsonDocument], kinds: Sequence[str]) -> str | None:
    """Return the id of the first option of the first kind that there is: one for this call only before one for all."""
    for kind in kinds:
        for option in options:
            if option.get("kind") == kind and isinstance(option.get("optionId"), str):
                return str(option["optionId"])
    return None


def _chosen(option_id: str) -> JsonDocument:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}

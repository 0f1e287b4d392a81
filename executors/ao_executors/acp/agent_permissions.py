"""Permission requests of an agent: a person decides, else the configuration, by the kind of the options."""

from typing import Final, Literal

from ao_executors.acp.agent_tools import AgentTools
from ao_executors.core import InputOption, InputRequest, Task
from ao_executors.core.foreign_json import JsonDocument, as_object, objects_in
from ao_executors.core.inputs import denial_of

CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
"""The answer to a request of a turn that is cancelled, and a denial of a request without an option to reject."""
_KINDS: Final[dict[object, tuple[Literal["allow", "deny"], Literal["once", "session"]]]] = {
    "allow_once": ("allow", "once"),
    "allow_always": ("allow", "session"),
    "reject_once": ("deny", "once"),
    "reject_always": ("deny", "session"),
}
"""Effect and scope of the kinds of options, those for one call before those for all."""
_REMEDY: Final = (
    "executor_config.permissions is deny; allow it with permissions: allow, or in the agent's configuration"
)


class AgentPermissions:
    """The answers to the permission requests of a run."""

    def __init__(self, task: Task, tools: AgentTools) -> None:
        self.is_cancelled = False
        """True once the turn is cancelled: every request is then answered as cancelled."""
        self._policy = task.config.get("permissions", "deny")
        self._inputs = task.inputs
        self._tools = tools
        self._count = 0

    async def answer(self, params: JsonDocument) -> JsonDocument:
        """Return the result of `session/request_permission`."""
        call = as_object(params.get("toolCall"))
        self._tools.take(call)
        self._tools.start(call.get("toolCallId"))
        if self.is_cancelled:
            return CANCELLED
        options = _options_of(params)
        if self._inputs.is_open:
            chosen, reason = await self._asked(call, options)
        else:
            chosen, reason = _first(options, self._policy), _REMEDY
        if chosen is None or chosen.effect != "allow":
            self._tools.deny(call.get("toolCallId"), reason)
            chosen = chosen or _first(options, "deny")
        return CANCELLED if chosen is None else {"outcome": {"outcome": "selected", "optionId": chosen.id}}

    async def _asked(self, call: JsonDocument, options: list[InputOption]) -> tuple[InputOption | None, str]:
        """Ask a person; return the chosen option, and the reason of a denial."""
        self._count += 1
        rejection = _first(options, "deny")
        request = InputRequest(
            request_id=f"permission_{self._count}",
            kind="permission",
            title=str(call.get("title") or call.get("kind") or "use a tool"),
            options=options,
            default=None if rejection is None else rejection.id,
            tool_call_id=str(call.get("toolCallId")),
            tool_input=self._tools.input_of(call.get("toolCallId")),
        )
        resolution = await self._inputs.ask(request)
        is_allowed = resolution.outcome == "accepted"
        chosen = next((one for one in options if one.id == resolution.option_id), None)
        if not is_allowed and chosen is not None and chosen.effect == "allow":
            chosen = None
        return chosen, denial_of(resolution)


def _options_of(params: JsonDocument) -> list[InputOption]:
    """Return the options whose kinds are known, each id once."""
    found: dict[str, InputOption] = {}
    for option in objects_in(params.get("options")):
        option_id, kind = option.get("optionId"), _KINDS.get(str(option.get("kind")))
        if kind is not None and isinstance(option_id, str):
            found.setdefault(option_id, InputOption(option_id, str(option.get("name") or option_id), *kind))
    return list(found.values())


def _first(options: list[InputOption], effect: str) -> InputOption | None:
    """Return an option with an effect, one for this call only before one for all."""
    fitting = [option for option in options if option.effect == effect]
    return min(fitting, key=lambda option: option.scope != "once", default=None)

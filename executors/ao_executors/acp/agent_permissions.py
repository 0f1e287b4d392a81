"""Permission requests of an agent: the configuration says what needs no question; a person decides about the rest."""

from collections.abc import Container
from pathlib import Path
from typing import Final, Literal

from ao_executors.acp.agent_rows import AgentRow
from ao_executors.acp.agent_tools import AgentTools, ToolCall
from ao_executors.core import InputOption, InputRequest, Task
from ao_executors.core.answer_tool import SERVER, is_offered
from ao_executors.core.foreign_json import JsonDocument, as_object, objects_in
from ao_executors.core.inputs import denial_of
from ao_executors.vendors.mcp_servers import blueprint_servers

CANCELLED: Final = {"outcome": {"outcome": "cancelled"}}
"""The answer to a request of a turn that is cancelled, and a denial of a request without an option to reject."""
_KINDS: Final[dict[object, tuple[Literal["allow", "deny"], Literal["once", "session"]]]] = {
    "allow_once": ("allow", "once"),
    "allow_always": ("allow", "session"),
    "reject_once": ("deny", "once"),
    "reject_always": ("deny", "session"),
}
"""Effect and scope of the kinds of options, those for one call before those for all."""
_READING: Final = ("read", "search")
_KINDS_OF_TOOLS: Final = {"read": _READING, "edit": (*_READING, "edit", "delete", "move")}
"""The kinds of tools that need no question, by `access`."""
_NOBODY_ASKED: Final = "nobody was asked; see access, allowed_tools and additional_folders in executor_config"
_DENIED: Final = "executor_config.permissions is deny; set it to allow, or allow the call in the agent's configuration"


class AgentPermissions:
    """The answers to the permission requests of a run."""

    def __init__(self, agent: AgentRow, task: Task, tools: AgentTools) -> None:
        self.is_cancelled = False
        """True once the turn is cancelled: every request is then answered as cancelled."""
        self._config = task.config
        self._access = task.config.get("access", "read") if "access" in agent.kept else None
        folders = [task.project_dir, *task.config.get("additional_folders", ())]
        self._folders = [Path(folder).resolve() for folder in folders]
        self._servers = [*blueprint_servers(task.invocation), *([SERVER] if is_offered(task) else [])]
        self._inputs = task.inputs
        self._lasting = agent.lasting_options
        self._tools = tools
        self._count = 0

    async def answer(self, params: JsonDocument) -> JsonDocument:
        """Return the result of `session/request_permission`."""
        told = as_object(params.get("toolCall"))
        call = self._tools.take(told) or ToolCall("", known=told)
        self._tools.start(call.call_id)
        if self.is_cancelled:
            return CANCELLED
        options, reason = _options_of(params, self._lasting), _DENIED if self._access is None else _NOBODY_ASKED
        if self._tools.submits(call) and self._tools.is_part(call.call_id):
            chosen, reason = None, "only the agent of the run submits its answer"
        elif self._needs_no_question(call):
            chosen, reason = _first(options, "allow"), "the agent offered no option to allow it"
        elif self._inputs.is_open:
            chosen, reason = await self._asked(call, options)
        else:
            chosen = _first(options, self._config.get("permissions", "deny"))
        if chosen is None or chosen.effect != "allow":
            self._tools.deny(call.call_id, reason)
            chosen = chosen or _first(options, "deny")
        return CANCELLED if chosen is None else {"outcome": {"outcome": "selected", "optionId": chosen.id}}

    def _needs_no_question(self, call: ToolCall) -> bool:
        if self._access == "all" or call.name in self._config.get("allowed_tools", ()):
            return True
        if self._is_of_blueprint(call):
            return True
        kind = str(call.known.get("kind"))
        places = [place.get("path") for place in objects_in(call.known.get("locations"))]
        is_covered = kind in _KINDS_OF_TOOLS.get(str(self._access), ())
        return is_covered and bool(places or kind in _READING) and all(map(self._is_inside, places))

    def _is_of_blueprint(self, call: ToolCall) -> bool:
        """Return whether the tool is of an MCP server of the blueprint, or submits the answer, by its name.

        A title does not count: a model chooses those of commands.
        """
        names = (f"mcp__{name}__" for name in self._servers)
        return (call.told_name or "").startswith(tuple(names))

    def _is_inside(self, place: object) -> bool:
        path = (self._folders[0] / str(place)).resolve()
        return any(path.is_relative_to(folder) for folder in self._folders)

    async def _asked(self, call: ToolCall, options: list[InputOption]) -> tuple[InputOption | None, str]:
        """Ask a person; return the chosen option, and the reason of a denial."""
        self._count += 1
        rejection = _first(options, "deny")
        request = InputRequest(
            request_id=f"permission_{self._count}",
            kind="permission",
            title=str(call.known.get("title") or call.known.get("kind") or "use a tool"),
            options=options,
            default=None if rejection is None else rejection.id,
            tool_call_id=call.call_id,
            tool_input=call.tool_input,
        )
        resolution = await self._inputs.ask(request)
        is_allowed = resolution.outcome == "accepted"
        chosen = next((one for one in options if one.id == resolution.option_id), None)
        if not is_allowed and chosen is not None and chosen.effect == "allow":
            chosen = None
        return chosen, denial_of(resolution)


def _options_of(params: JsonDocument, lasting: Container[str]) -> list[InputOption]:
    """Return the options whose kinds are known, each id once, those for one call first; none that is `lasting`."""
    found: dict[str, InputOption] = {}
    for option in objects_in(params.get("options")):
        option_id, kind = option.get("optionId"), _KINDS.get(str(option.get("kind")))
        if kind is not None and isinstance(option_id, str) and option_id not in lasting:
            found.setdefault(option_id, InputOption(option_id, str(option.get("name") or option_id), *kind))
    return sorted(found.values(), key=lambda option: option.scope != "once")


def _first(options: list[InputOption], effect: str) -> InputOption | None:
    """Return an option with an effect, one for this call only before one for all."""
    fitting = [option for option in options if option.effect == effect]
    return min(fitting, key=lambda option: option.scope != "once", default=None)

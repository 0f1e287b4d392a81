"""Answer the app server's questions. Each of them stops the turn until it is answered.

A person decides if one can be asked; otherwise the answer is no. The CLI also offers answers that it would write into
its own configuration, for all later sessions, and answers that interrupt the turn: they are not among the options.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ao_executors.core import InputOption, InputRequest, Inputs
from ao_executors.core.foreign_json import JsonDocument
from ao_executors.core.inputs import denial_of
from ao_protocol.short_text import shorten_line

_PERMISSIONS: Final = "item/permissions/requestApproval"
_DENIALS: Final[dict[str, JsonDocument]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    _PERMISSIONS: {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
}
"""The answer by policy: no. The model is told and continues."""
_TOOLS: Final = {
    "item/commandExecution/requestApproval": "exec_command",
    "item/fileChange/requestApproval": "apply_patch",
    _PERMISSIONS: "request_permissions",
}
"""The tools that ask, as `allowed_tools` names them."""
_ONCE: Final = InputOption("accept", "Allow once", "allow")
_SESSION: Final = InputOption("acceptForSession", "Allow for the session", "allow", "session")
_DENY: Final = InputOption("decline", "Deny", "deny")
_TITLE_CHARACTERS: Final = 200

Deny: TypeAlias = "Callable[[str, str], None]"
"""Receives the id of a tool call that was not allowed, and the reason."""


async def deny(method: str, params: JsonDocument) -> JsonDocument | None:
    """Return the answer by policy; None for an unknown method."""
    return _DENIALS.get(method)


class Approvals:
    """A `Reply` that asks a person, for one run.

    Args:
        inputs: Asks.
        when_denied: Is told of a tool call that was not allowed.
        config: The `executor_config`, for `access` and `allowed_tools`.
    """

    def __init__(self, inputs: Inputs, when_denied: Deny, config: Mapping[str, Any]) -> None:
        self._inputs = inputs
        self._allowed = _TOOLS.values() if config.get("access") == "all" else config.get("allowed_tools", ())
        self._when_denied = when_denied
        self._asked: Counter[str] = Counter()

    async def __call__(self, method: str, params: JsonDocument) -> JsonDocument | None:
        """Return the answer of a person, or that by policy; None for an unknown method."""
        if _TOOLS.get(method) in self._allowed:
            is_about_more = method == _PERMISSIONS
            return {"permissions": params["permissions"], "scope": "turn"} if is_about_more else {"decision": _ONCE.id}
        reply = await self._ask(method, params) if self._inputs.is_open else None
        return reply or _DENIALS.get(method)

    async def _ask(self, method: str, params: JsonDocument) -> JsonDocument | None:
        match method:
            case "item/commandExecution/requestApproval":
                available = params.get("availableDecisions") or [_ONCE.id]
                options = [option for option in (_ONCE, _SESSION) if option.id in available]
                title = f"exec_command: {params.get('command') or 'network access'}"
                shown = _given(params, "command", "cwd", "reason", "networkApprovalContext")
                chosen = await self._permission(title, params["itemId"], options, shown)
                return {"decision": chosen} if chosen else None
            case "item/fileChange/requestApproval":
                shown = _given(params, "reason", "grantRoot")
                chosen = await self._permission("apply_patch: change files", params["itemId"], [_ONCE, _SESSION], shown)
                return {"decision": chosen} if chosen else None
            case "item/permissions/requestApproval":
                wanted = params["permissions"]
                shown = {"permissions": wanted, "reason": params.get("reason")}
                chosen = await self._permission("more permissions", params["itemId"], [_ONCE, _SESSION], shown)
                scope = "session" if chosen == _SESSION.id else "turn"
                return {"permissions": wanted, "scope": scope} if chosen else None
            case "item/tool/requestUserInput":
                return await self._ask_questions(params)
            case "mcpServer/elicitation/request":
                return await self._ask_for_server(params)
            case _:
                return None

    async def _ask_questions(self, params: JsonDocument) -> JsonDocument | None:
        answers = {}
        for question in params["questions"]:
            labels = [option["label"] for option in question.get("options") or ()]
            if question.get("isSecret"):  # its answer would be in an event
                continue
            resolution = await self._inputs.ask(
                InputRequest(
                    self._request_id(params["itemId"]),
                    "question",
                    _line(question["question"]),
                    [InputOption(label, label, "other") for label in labels],
                    {"type": "string"} if question.get("isOther") or not labels else None,
                    tool_call_id=params["itemId"],
                )
            )
            if resolution.outcome == "accepted":
                said = resolution.option_id if resolution.value is None else str(resolution.value)
                answers[question["id"]] = {"answers": [said]}
        return {"answers": answers}

    async def _ask_for_server(self, params: JsonDocument) -> JsonDocument | None:
        meta: Any = params.get("_meta") or {}
        name = f"{params['serverName']}: {params['message']}"
        if meta.get("codex_approval_kind") == "mcp_tool_call":
            chosen = await self._permission(name, None, [_ONCE], {"tool_params": meta.get("tool_params")})
            return None if chosen is None else {"action": "accept", "content": {}}
        if params["mode"] != "form":  # a page to visit
            return None
        request_id = self._request_id(f"mcp-{params['serverName']}")
        request = InputRequest(request_id, "question", _line(name), [_DENY], params["requestedSchema"])
        resolution = await self._inputs.ask(request)
        accepted = resolution.outcome == "accepted"
        return {"action": "accept", "content": resolution.value} if accepted else None

    async def _permission(
        self, title: str, call_id: str | None, options: list[InputOption], shown: JsonDocument
    ) -> str | None:
        """Ask for a permission. Return the id of the chosen option; None if it is denied."""
        request_id, offered = self._request_id(call_id or "mcp"), [*options, _DENY]
        request = InputRequest(request_id, "permission", _line(title), offered, tool_call_id=call_id, tool_input=shown)
        resolution = await self._inputs.ask(request)
        if resolution.outcome == "accepted":
            return resolution.option_id
        if call_id is not None:
            self._when_denied(call_id, denial_of(resolution))
        return None

    def _request_id(self, call_id: str) -> str:
        """Return a name that no other request of the run has."""
        self._asked[call_id] += 1
        return call_id if self._asked[call_id] == 1 else f"{call_id}.{self._asked[call_id]}"


def _given(params: JsonDocument, *names: str) -> JsonDocument:
    return {name: params[name] for name in names if params.get(name)}


def _line(text: str) -> str:
    """Return a text as one line for a person. The whole is in `tool_input`."""
    return shorten_line(text, _TITLE_CHARACTERS)

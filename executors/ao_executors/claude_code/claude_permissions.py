"""Ask a person about the CLI's tool calls, in runs whose requests are answered (SPEC 8.3).

There are two places to ask. A `PreToolUse` hook comes first; only there a call can be deferred, so that the CLI exits
and a resume meets the same call again. So the hook asks about every call that no rule decides. Where a rule of the
configuration may decide about part of a tool, such as `Bash(git *)`, the CLI decides, and what it leaves open it asks
through `can_use_tool`. Such a request cannot be parked, and neither can one of several calls in one message, which the
CLI does not defer. Measured on the Claude CLI 2.1.332.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ao_executors.claude_code.claude_arguments import asks_a_person, permission_mode
from ao_executors.claude_code.claude_turn import OUTPUT_TOOL, ClaudeTools
from ao_executors.claude_code.sdk import (
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)
from ao_executors.core import InputOption, InputRequest, RunContext, RunFailed, Task
from ao_executors.core.answer_tool import NAME as ANSWER_TOOL
from ao_executors.core.inputs import denial_of
from ao_executors.vendors.mcp_servers import blueprint_servers
from ao_protocol.errors import ErrorType

if TYPE_CHECKING:
    from ao_protocol.input_answers import Resolution

_NEVER_ASKED: Final = frozenset({ANSWER_TOOL, OUTPUT_TOOL, "Glob", "Grep", "Read", "TodoWrite"})
"""Tools about which the CLI alone decides: they change nothing, and it guards the paths that they read."""
_EDITING: Final = frozenset({"Edit", "NotebookEdit", "Write"})
"""Tools about which the CLI decides in the mode `acceptEdits`: it allows them in the folders of the agent."""
_HOOK_SECONDS: Final = 1_000_000
"""The CLI's limit for a hook. The time for an answer is the runner's."""


class ClaudePermissions:
    """The decisions about the calls of one CLI. A conversation begins with `begin`."""

    def __init__(self, context: RunContext) -> None:
        self._config = context.config
        self._left = _NEVER_ASKED | (_EDITING if permission_mode(context) == "acceptEdits" else frozenset())
        self._servers = tuple(f"mcp__{name}__" for name in blueprint_servers(context.invocation))
        self._begun = asyncio.Event()
        self._task: Task | None = None
        self._tools: ClaudeTools | None = None
        self._allowed: set[str] = set()
        """Tools that a person has allowed for the rest of the session."""
        self._asking = asyncio.Lock()
        self._has_asked = asyncio.Event()
        self.asks = asks_a_person(context)

    @property
    def hooks(self) -> dict[str, list[HookMatcher]]:
        """The hooks for the SDK; empty if nobody is asked."""
        return {"PreToolUse": [HookMatcher(hooks=[self._before_tool], timeout=_HOOK_SECONDS)]} if self.asks else {}

    def begin(self, task: Task, tools: ClaudeTools) -> None:
        """Let the calls of a run be asked about."""
        self._task, self._tools = task, tools
        self._begun.set()

    async def wait_for_deferred(self, seconds: float) -> None:
        """Wait until the CLI asks about the call that it has deferred, which it does as soon as it has started.

        Raises:
            RunFailed: It asks about none: the session has no call that waits for an answer.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._has_asked.wait()
        except TimeoutError as error:
            message = "no call of the session waits for an answer; resume it with a prompt, without input_responses"
            raise RunFailed(ErrorType.SESSION_NOT_FOUND, message, origin="caller") from error

    async def _before_tool(self, hook: Any, tool_use_id: str | None, _: object) -> Any:  # noqa: ANN401  # the SDK's
        """Decide about a call before the CLI does; an empty answer leaves it to the CLI."""
        name, given = str(hook["tool_name"]), hook["tool_input"]
        if name in self._allowed:
            return _decision("allow")
        if self._is_left_to_the_cli(name):
            return {}
        resolution = await self._ask(name, given, tool_use_id or "", f"Claude wants to use {name}", is_deferrable=True)
        if self._is_parked:
            return _decision("defer")
        if resolution.outcome == "accepted":
            return _decision("allow")
        return _decision("deny", denial_of(resolution))

    async def can_use(
        self, name: str, given: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        """Decide about a call that the CLI leaves open: `can_use_tool` of the SDK."""
        title = context.title or f"Claude wants to use {name}"
        resolution = await self._ask(name, given, context.tool_use_id or "", title, is_deferrable=False)
        if resolution.outcome == "accepted":
            return PermissionResultAllow()
        return PermissionResultDeny(message=denial_of(resolution))

    @property
    def _is_parked(self) -> bool:
        return self._task is not None and bool(self._task.inputs.parked)

    def _is_left_to_the_cli(self, name: str) -> bool:
        rules = (*self._config.get("allowed_tools", ()), *self._config.get("disallowed_tools", ()))
        has_rule = any(rule.partition("(")[0] == name for rule in rules)
        return name in self._left or has_rule or name.startswith(self._servers)

    async def _ask(self, name: str, given: object, call: str, title: str, *, is_deferrable: bool) -> "Resolution":
        """Ask about one call, one at a time, and remember what was allowed for the session."""
        self._has_asked.set()
        await self._begun.wait()
        task, tools = self._task, self._tools
        assert task is not None, "begin sets both"  # noqa: S101
        assert tools is not None, "begin sets both"  # noqa: S101
        request = InputRequest(
            request_id=call,
            kind="permission",
            title=title,
            options=(
                InputOption("allow", "Allow once", "allow"),
                InputOption("session", f"Allow {name} in this session", "allow", "session"),
                InputOption("deny", "Deny", "deny"),
            ),
            tool_call_id=call,
            tool_input=given,
            can_park=lambda: is_deferrable and len(task.events.open_tools) == 1,
        )
        if task.invocation.input_responses is not None:  # the CLI does not repeat the message with the deferred call
            task.events.start_tool(call, name, given)
        async with self._asking:
            resolution = await task.inputs.ask(request)
        if resolution.outcome != "accepted":
            tools.refuse(call, denial_of(resolution))
        elif resolution.option_id == "session":
            self._allowed.add(name)
        return resolution


def _decision(decision: str, reason: str | None = None) -> dict[str, Any]:
    told = {} if reason is None else {"permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision, **told}}

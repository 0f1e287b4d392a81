"""From a task to the options of the Claude SDK."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

from ao_executors.claude_code.cli import wrapped_claude
from ao_executors.claude_code.config import (
    DEFAULT_PERMISSION_MODE,
    DEFAULT_TOOLS,
)
from ao_executors.claude_code.retries import Patience
from ao_executors.claude_code.sdk import ClaudeAgentOptions, HookMatcher
from ao_executors.core.task import Task
from ao_protocol.invocation import Invocation

_Number = TypeVar("_Number", int, float)
_MAX_CLI_MESSAGE_BYTES = 256 * 1024 * 1024


def claude_options(
    task: Task, private_dir: Path, hooks: dict[Any, list[HookMatcher]], on_stderr: Callable[[str], None]
) -> ClaudeAgentOptions:
    """Return the options for a task. Long or secret texts go into files in `private_dir`, never into argv.

    Raises:
        RunFailed: there is no `claude` program.
    """
    config: Any = task.config
    invocation = task.invocation
    return ClaudeAgentOptions(
        cli_path=wrapped_claude(config.get("cli_path"), private_dir),
        cwd=task.project_dir,
        model=config.get("model"),
        system_prompt={"type": "file", "path": str(_written(private_dir / "system-prompt", task.system_prompt or ""))},
        tools=list(config.get("tools", DEFAULT_TOOLS)),
        allowed_tools=[*config.get("allowed_tools", ()), *_mcp_tool_rules(invocation)],
        disallowed_tools=list(config.get("disallowed_tools", ())),
        permission_mode=config.get("permission_mode", DEFAULT_PERMISSION_MODE),
        setting_sources=list(config.get("setting_sources", ())),
        add_dirs=list(config.get("add_dirs", ())),
        mcp_servers=_mcp_config(invocation, private_dir),
        strict_mcp_config=True,
        max_turns=_lower(config.get("max_turns"), invocation.limits.max_turns),
        max_budget_usd=_lower(config.get("max_budget_usd"), invocation.limits.max_cost_usd),
        verbatim_prompts=True,
        max_buffer_size=_MAX_CLI_MESSAGE_BYTES,
        resume=_resumed_session(invocation),
        session_id=_chosen_session(invocation),
        env=_environment(config),
        hooks=hooks,
        stderr=on_stderr,
    )


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", errors="replace")
    path.chmod(0o600)
    return path


def _mcp_config(invocation: Invocation, private_dir: Path) -> dict[str, Any] | Path:
    servers = invocation.agent_blueprint.mcp_servers if invocation.agent_blueprint is not None else None
    if not servers:
        return {}
    document = {"mcpServers": {name: server.model_dump(mode="json") for name, server in servers.items()}}
    return _written(private_dir / "mcp.json", json.dumps(document))


def _mcp_tool_rules(invocation: Invocation) -> list[str]:
    """Allow the tools of the servers that the designer named: an agent is useless without them."""
    blueprint = invocation.agent_blueprint
    return [f"mcp__{name}" for name in (blueprint.mcp_servers or {})] if blueprint is not None else []


def _resumed_session(invocation: Invocation) -> str | None:
    if invocation.mode != "resume":
        return None
    return invocation.executor_session_id or _derived_session(invocation)


def _chosen_session(invocation: Invocation) -> str | None:
    """Versions 2.x never tell a resume the executor's session id, so there it follows from the runner's."""
    is_older = invocation.schema_version.startswith("2.")
    return _derived_session(invocation) if is_older and invocation.mode == "start" else None


def _derived_session(invocation: Invocation) -> str | None:
    return str(uuid5(NAMESPACE_URL, f"ao-session:{invocation.session_id}")) if invocation.session_id else None


def _lower(configured: _Number | None, limit: _Number | None) -> _Number | None:
    given = [number for number in (configured, limit) if number is not None]
    return min(given) if given else None


def _environment(config: dict[str, Any]) -> dict[str, str]:
    return {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        **config.get("env", {}),
        "CLAUDE_CODE_MAX_RETRIES": str(Patience.of(config).cli_retries),
    }

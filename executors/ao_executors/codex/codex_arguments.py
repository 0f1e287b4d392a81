"""Build the app server's arguments, environment and thread parameters from a run's context.

What concerns the whole server is an argument, `-c key=value` with a value in TOML. What may be secret, such as the
headers of an MCP server, is a parameter of the thread and goes through the pipe: every user of the machine can read
arguments.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ao_executors.codex.codex_config import (
    DEFAULT_WEB_SEARCH,
    KEYS,
    SANDBOXES,
    SECRETS,
    SETTING_OF_KEY,
)
from ao_executors.core import RunContext
from ao_executors.core.answer_tool import SERVER
from ao_executors.core.executor import refused
from ao_executors.core.foreign_json import as_object, merged
from ao_executors.vendors.mcp_servers import McpServer, blueprint_servers
from ao_executors.vendors.provider_errors import RetryPolicy
from ao_protocol.documents import StdioMcpServer
from ao_protocol.errors import ErrorType

MCP_SECONDS: Final = 30
"""How long an MCP server may take to start."""
_MAX_DOCUMENT_BYTES: Final = 32 * 1024
_PROVIDER: Final = "ao-openai"
_OPENAI: Final = "https://api.openai.com/v1"
_OFF: Final = (
    "api_key_model_discovery", "apps", "browser_use", "browser_use_external", "computer_use", "daemon_auto_start",
    "goals", "hooks", "image_generation", "in_app_browser", "memories", "multi_agent", "plugin_sharing", "plugins",
    "remote_plugin", "shell_snapshot", "skill_mcp_dependency_install", "sleep_tool", "tool_suggest",
    "unbounded_connection_retries", "workspace_dependencies", "worktrees",
)  # fmt: skip
"""Features of the CLI that reach other hosts than the model's, outlive a run, run hooks, or retry without an end."""
_QUIET: Final = {
    "analytics.enabled": False,
    "check_for_update_on_startup": False,
    "feedback.enabled": False,
    "notify": [],
    "otel.exporter": "none",
    "otel.metrics_exporter": "none",
    "otel.trace_exporter": "none",
    "skills.bundled.enabled": False,
    "skills.include_instructions": False,
}
LOG: Final = {"LOG_FORMAT": "json", "RUST_LOG": "error,codex_core::responses_retry=warn"}
"""The variables that make the CLI log the delay before a retry, which no message contains."""


def server_arguments(context: RunContext) -> list[str]:
    """Return the arguments of the program.

    Raises:
        RunFailed: `codex_config` has a key that another setting sets (`invalid_executor_config`).
    """
    config = context.config
    _refuse_keys_of_settings(config.get("codex_config", {}))
    settings: dict[str, object] = {
        **{f"features.{name}": False for name in _OFF},
        **_QUIET,
        **_project_settings(config.get("project_doc", False), context.project_dir),
        "web_search": config.get("web_search", DEFAULT_WEB_SEARCH),
    }
    environment = {**os.environ, **config.get("env", {})}
    if provider := _provider(context, environment):
        settings |= {"model_provider": _PROVIDER, f"model_providers.{_PROVIDER}": provider}
    elif base_url := environment.get("OPENAI_BASE_URL"):
        settings["openai_base_url"] = base_url
    return ["app-server", *(part for name, value in settings.items() for part in ("-c", f"{name}={_toml(value)}"))]


def _refuse_keys_of_settings(codex_config: Mapping[str, Any]) -> None:
    given = {*codex_config, *as_object(codex_config.get("sandbox_workspace_write"))} & SETTING_OF_KEY.keys()
    if given:
        advice = "; ".join(f"set executor_config.{SETTING_OF_KEY[key]} instead of {key}" for key in sorted(given))
        raise refused(ErrorType.INVALID_EXECUTOR_CONFIG, f"executor_config.codex_config: {advice}")


def _project_settings(reads_documents: bool, project_dir: Path) -> dict[str, object]:
    """Return the settings by which nothing in a project configures the CLI: its own configuration starts programs.

    The CLI reads no AGENTS.md in a project that is called untrusted (seen with 0.163). If they are read, the project
    has the trust that the CLI's own configuration gives it.
    """
    if reads_documents:
        return {"project_doc_max_bytes": _MAX_DOCUMENT_BYTES}
    return {"project_doc_max_bytes": 0, "projects": {str(project_dir.resolve()): {"trust_level": "untrusted"}}}


def _provider(context: RunContext, environment: Mapping[str, str]) -> dict[str, object]:
    """Return OpenAI's API with the key of the environment; empty without one: then the CLI's login is used."""
    key = next((name for name in KEYS if environment.get(name)), None)
    if key is None:
        return {}
    return {
        "name": _PROVIDER,
        "base_url": environment.get("OPENAI_BASE_URL") or _OPENAI,
        "env_key": key,
        "env_http_headers": {"OpenAI-Organization": "OPENAI_ORGANIZATION", "OpenAI-Project": "OPENAI_PROJECT"},
        "wire_api": "responses",
        "request_max_retries": 0,  # they would not be reported
        "stream_max_retries": RetryPolicy.of(context.config).cli_retries,
        "supports_websockets": False,
    }


def server_environment(context: RunContext, folder: str) -> dict[str, str]:
    """Return the environment of the program. `folder` is for its temporary files.

    The CLI starts no sandbox if its home is below its folder for temporary files (seen with 0.163).
    """
    config = context.config
    return {**os.environ, **config.get("env", {}), **LOG, "TMPDIR": folder}


def thread_parameters(
    context: RunContext, inherited_servers: Iterable[str], answering: Sequence[str] = ()
) -> dict[str, object]:
    """Return the parameters that start and resume have in common.

    Args:
        context: The run's context.
        inherited_servers: The MCP servers in the CLI's own configuration, which no run starts.
        answering: The command of the server of `submit_answer`; empty: there is none.
    """
    config = context.config
    access = config.get("access", "read")
    # With `never`, the CLI rejects some commands, such as `rm -f`, in any sandbox.
    may_ask = context.limits.takes_input or access == "all" or bool(config.get("allowed_tools"))
    return {
        "cwd": str(context.project_dir),
        "sandbox": SANDBOXES[access],
        "approvalPolicy": "on-request" if may_ask else "never",
        "approvalsReviewer": "user",
        "baseInstructions": context.system_prompt,  # None: the CLI's own
        "model": config.get("model"),
        "config": merged(_thread_config(context, inherited_servers, answering), config.get("codex_config", {})),
    }


def _thread_config(context: RunContext, inherited_servers: Iterable[str], answering: Sequence[str]) -> dict[str, Any]:
    config = context.config
    temporary, servers = _temporary_folder(config), {**blueprint_servers(context.invocation)}
    if answering:
        servers[SERVER] = StdioMcpServer(command=answering[0], args=[*answering[1:]])
    settings: dict[str, Any] = {
        "mcp_servers": {
            **{name: {"enabled": False} for name in inherited_servers},
            **{name: _mcp_entry(server, context.project_dir, temporary) for name, server in servers.items()},
        },
        "sandbox_workspace_write": {
            "network_access": config.get("network_access", False),
            "writable_roots": config.get("additional_folders", []),
            "exclude_slash_tmp": True,  # it is no folder of the run, whose TMPDIR stays writable
        },
        # Commands inherit the CLI's environment without its secrets (AOX-198).
        "shell_environment_policy": {"exclude": [*SECRETS, *LOG]},
        # Without a key, some models show nothing of what they think.
        "model_reasoning_summary": "auto" if config.get("show_reasoning", True) else "none",
    }
    if effort := config.get("reasoning_effort"):
        settings["model_reasoning_effort"] = effort
    return settings


def _temporary_folder(config: Mapping[str, Any]) -> str:
    """Return the folder for temporary files of MCP servers; the CLI and its commands have one of their own."""
    return str(config.get("env", {}).get("TMPDIR") or os.environ.get("TMPDIR") or "/tmp")  # noqa: S108  # the usual one


def _mcp_entry(server: McpServer, project_dir: Path, temporary: str) -> dict[str, Any]:
    # The tools of the blueprint's MCP servers are allowed: an agent is useless without them.
    entry = {"enabled": True, "startup_timeout_sec": MCP_SECONDS, "default_tools_approval_mode": "approve"}
    if isinstance(server, StdioMcpServer):
        env = {"TMPDIR": temporary, **server.env}
        return {**entry, "command": server.command, "args": server.args, "env": env, "cwd": str(project_dir)}
    return {**entry, "url": server.url, "http_headers": server.headers}


def _toml(value: object) -> str:
    match value:
        case dict():
            members = (f"{_toml(name)}={_toml(held)}" for name, held in value.items())
            return f"{{{', '.join(members)}}}"
        case list():
            return f"[{', '.join(map(_toml, value))}]"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return json.dumps(value)

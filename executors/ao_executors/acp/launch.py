"""Build the command line, the environment and the `_meta` of an agent from its row, the configuration and the run.

Placeholders in a row: `{system_prompt}`, `{system_prompt_file}`, `{max_turns}`, `{api_attempts}`, `{folder}`, which is
removed after the run, `{model}`, `{allowed_tools}`, `{additional_folders}`, `{mcp_servers}`, `{mcp_rules}`,
`{tool_search}`, a setting that the row translates, and the name of a variable of the executor. A text with a
placeholder that has no value is left out, with its key. `{{` is a brace.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ao_executors.acp.agent_failures import unfit
from ao_executors.acp.agent_rows import AgentRow
from ao_executors.core import Task
from ao_executors.core.answer_tool import SERVER, is_offered
from ao_executors.core.executor import refuse_unkept_limits, refused
from ao_executors.core.foreign_json import merged
from ao_executors.core.program import find_executable
from ao_executors.vendors.claude_retries import retries_of
from ao_executors.vendors.mcp_servers import blueprint_servers
from ao_executors.vendors.provider_errors import RetryPolicy
from ao_protocol.errors import ErrorType

_PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{(\w+)\}")
_INHERITED: Final = re.compile(r"npm_|NPM_CONFIG_|CLAUDECODE$|CLAUDE_CODE_ENTRYPOINT$")
"""Variables of a program around the executor that change what an agent does: npx, or a Claude CLI that it runs in."""
_COST_BEFORE: Final = "the agent tells the cost of a session, and not that of the runs before this one"
_NO_MCP_TOOLS: Final = ("external_directory", "doom_loop", "plan_enter", "plan_exit")
_FIRST_MESSAGE: Final = "first_message"
_TWO_DECIDE: Final = "in a mode of its own the agent decides what needs no question; leave out mode or access"


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent is started.

    Args:
        argv: The path of the program and its arguments.
        env: Its whole environment.
        meta: `_meta` of the session; None for none.
        preface: The system prompt, if it has to precede the first message; otherwise empty.
    """

    argv: list[str]
    env: dict[str, str]
    meta: dict[str, Any] | None
    preface: str

    @classmethod
    def of(cls, agent: AgentRow, task: Task, folder: Path) -> "Launch":
        """Return how to start an agent for a task.

        Args:
            agent: The row.
            task: The task.
            folder: A folder for files of the run, outside the project.

        Raises:
            RunFailed: The program is missing, or the agent cannot be given what the run demands.
        """
        config = task.config
        if "mode" in config and "access" in config:
            raise unfit("mode", _TWO_DECIDE)
        if task.invocation.mode == "resume":
            refuse_unkept_limits(task.invocation.limits, {"max_cost_usd": _COST_BEFORE})
        preface = _preface(agent, task)
        values: dict[str, object] = {name: os.environ.get(name) or None for name in agent.settings}
        limits = task.invocation.limits
        servers = [*blueprint_servers(task.invocation)]
        values["additional_folders"] = config.get("additional_folders")
        values |= _values_of_servers(task, servers)
        values |= {name: by_value.get(config.get(name)) for name, by_value in agent.translations.items()}
        values["mcp_rules"] = _rules_of(servers, values.get("access"))
        model = named_with_provider(agent, config.get("model"), os.environ)
        values |= {"folder": str(folder), "max_turns": limits.max_turns, "model": model}
        retries = retries_of(config) if agent.tells_retries else RetryPolicy.of(config, agent.usual_retries)
        values["api_attempts"] = retries.cli_retries
        if task.system_prompt and agent.takes("system_prompt"):
            file = folder / "system-prompt.md"
            file.write_text(task.system_prompt, encoding="utf-8", errors="replace")
            values |= {"system_prompt": task.system_prompt, "system_prompt_file": str(file)}
        command = config.get("command") or list(agent.argv)
        env = inherited_environment(agent, os.environ)
        for name, given in agent.variables.items():
            written = _variable(filled(given, values), folder / name.lower())
            if written is not None:
                env[name] = written
        meta = merged(filled(agent.meta, values) or {}, config.get("session_meta") or {})
        argv = [find_executable(command[0], task.project_dir, "agent", agent.install_hint), *command[1:]]
        return cls(argv, env | config.get("env", {}), meta or None, preface)


def _values_of_servers(task: Task, servers: Sequence[str]) -> dict[str, object]:
    """Return the values of placeholders about MCP servers and the tools that need no question."""
    connected = [*servers, *([SERVER] if is_offered(task) else [])]
    return {
        "allowed_tools": [*task.config.get("allowed_tools", ()), *(f"mcp__{name}" for name in servers)] or None,
        "mcp_servers": connected or None,
        # Claude's CLI would hide the tools of MCP servers until the model searches for them.
        "tool_search": "false" if connected else None,
    }


def _rules_of(servers: Iterable[str], usual: object) -> dict[str, object] | None:
    """Return the rules by which OpenCode asks nobody about the tools of MCP servers; None without servers.

    Its own permissions that look like tools of a server keep the `usual` rule.
    """
    rules = {f"{name}_*": "allow" for name in servers}
    return {**rules, **{own: usual for own in _NO_MCP_TOOLS if f"{own.partition('_')[0]}_*" in rules}} or None


def _preface(agent: AgentRow, task: Task) -> str:
    if not task.system_prompt or agent.takes("system_prompt"):
        return ""
    if task.config.get("system_prompt") != _FIRST_MESSAGE:
        message = (
            "the blueprint has a system prompt, and the protocol of this agent has no field for one; set "
            f"executor_config.system_prompt to {_FIRST_MESSAGE} to put it in front of the first message"
        )
        raise refused(ErrorType.UNSUPPORTED_CAPABILITY, message, {"missing": ["system_prompt"]})
    return f"{task.system_prompt}\n\n"


def named_with_provider(agent: AgentRow, model: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the name of a model as the agent wants it: for some, that of the provider precedes it."""
    provider = next((one for credential, one in agent.providers.items() if environ.get(credential)), None)
    return f"{provider}/{model}" if model and provider and "/" not in model else model


def inherited_environment(agent: AgentRow, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the executor's variables for an agent, with one credential: with two, an agent may use the wrong one."""
    inherited = {name: value for name, value in environ.items() if not _INHERITED.match(name)}
    given = [name for name in agent.credentials if environ.get(name)]
    for name in given[1:] if agent.needs_one_credential else ():
        del inherited[name]
    return inherited


def filled(document: Any, values: Mapping[str, object]) -> Any:  # noqa: ANN401  # any JSON
    """Return a document of a row with its placeholders replaced.

    Args:
        document: A text, or an object or list of them.
        values: The values of placeholders; None for one without a value.

    Returns:
        The document without the texts whose placeholders have no value; None if it is such a text.
    """
    match document:
        case str():
            names = [match[1] for match in _PLACEHOLDER.finditer(document) if match[1]]
            if any(values.get(name) is None for name in names):
                return None
            if names and document == f"{{{names[0]}}}":
                return values[names[0]]
            return _PLACEHOLDER.sub(lambda match: str(values[match[1]]) if match[1] else match[0][0], document)
        case Mapping():
            members = {name: filled(member, values) for name, member in document.items()}
            return {name: member for name, member in members.items() if member not in (None, {})}
        case list() | tuple():
            return [item for item in (filled(item, values) for item in document) if item is not None]
        case _:
            return document


def _variable(value: Any, path: Path) -> str | None:  # noqa: ANN401  # any JSON
    """Return the value of a variable: the path to which the content of `file` or `home` is written, JSON, or a text."""
    match value:
        case {"file": content}:
            return _written(content, path)
        case {"home": files}:
            for name, content in files.items():
                _written(content, path / name)
            return str(path)
        case None | str():
            return value
        case _:
            return json.dumps(value)


def _written(content: Any, path: Path) -> str:  # noqa: ANN401  # any JSON
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)

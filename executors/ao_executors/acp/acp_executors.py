"""The executors: the descriptions that follow from the rows of `ao_executors.acp.agent_rows`, and the entry points."""

import shutil
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ao_executors import VERSION
from ao_executors.acp.agent_rows import (
    ANY,
    CLAUDE,
    DEFAULT_IDLE_SECONDS,
    DEFAULT_START_SECONDS,
    GEMINI,
    OPENCODE,
    QWEN,
    AgentRow,
)
from ao_executors.core import Executor, Findings, Task, serve
from ao_executors.core.described import (
    STREAMING,
    Schema,
    api_retries,
    argv,
    capabilities,
    choice,
    common_settings,
    fields,
    name,
    number,
    table,
    variables,
)
from ao_protocol.quick_import import begin_imports

if TYPE_CHECKING:
    from ao_protocol.events import Result


def executor_for(agent: AgentRow) -> Executor:
    """Return the executor for a row, as `serve` needs it."""
    return Executor(
        agent.name,
        VERSION,
        partial(perform, agent),
        description_of(agent),
        check=partial(find_problems, agent) if agent.is_known else None,
        warm_up=warm_up,
        starts_mcp_servers=True,
        unkept_limits=agent.unkept_limits,
    )


def description_of(agent: AgentRow) -> dict[str, object]:
    """Return the fields of `describe` for a row. They depend on nothing else: no agent is started."""
    varying = {"resume": agent.resumes, "check": agent.is_known}
    declared = ["cancel", "input", "streaming", *(name for name, has_it in varying.items() if has_it)]
    strategies = ["prompt", "extract", "tool"]
    strategies = ["system_prompt", *strategies] if agent.takes("system_prompt") else strategies
    return {
        "capabilities": capabilities(*declared, strategies=strategies, media_types=agent.media_types),
        "config_schema": fields(_properties(agent), agent.required),
        "secrets": [*agent.credentials, *agent.secrets],
        "environment": list(agent.settings),
        "requires_programs": [{"name": agent.argv[0], "install_hint": agent.install_hint}] if agent.is_known else [],
        "model_endpoint": {kind: {"env": env, "api_key_env": key} for kind, (env, key) in agent.endpoints.items()},
    }


def _properties(agent: AgentRow) -> dict[str, Schema]:
    usual = f"Default: {' '.join(agent.argv)}" if agent.is_known else "For example: goose acp"
    common = common_settings(efforts=agent.efforts)
    told = {
        **{setting: common[setting] for setting in agent.kept},
        "command": argv(f"The agent's program and its arguments; no shell. {usual}"),
        "mode": name(f"The session mode; not with access. Default: {agent.mode or 'that of the agent'}."),
        "permissions": choice(
            "The answer to each permission request. What an agent does without asking is not affected.",
            ("deny", "allow"),
            default="deny",
        ),
        "system_prompt": choice(
            "What happens to a blueprint's system prompt, for which the agent has no field.",
            ("refuse", "first_message"),
            default="refuse",
        ),
        "streaming": STREAMING,
        "session_meta": table("Merged into `_meta` of session/new, resume and load."),
        "idle_seconds": number(
            "The longest silence of an agent in a turn. Then the turn is cancelled and the run fails.",
            exclusiveMinimum=0,
            default=DEFAULT_IDLE_SECONDS,
        ),
        "start_seconds": number(
            "The longest silence of an agent before the first prompt.",
            exclusiveMinimum=0,
            default=DEFAULT_START_SECONDS,
        ),
        **api_retries(usual=agent.usual_retries),
        "env": variables("the agent; they override the others"),
    }
    left_out = {
        "max_api_retries": not agent.takes("api_attempts") and not agent.told_error,
        "max_retry_delay_seconds": not agent.tells_retries,
        "permissions": "access" in agent.kept,
        "system_prompt": agent.takes("system_prompt"),
    }
    return {field: schema for field, schema in told.items() if not left_out.get(field)}


async def perform(agent: AgentRow, task: Task) -> "Result":
    """Perform a task in a session of an agent.

    Raises:
        RunFailed: The session could not be opened, or gave no valid answer.
    """
    import asyncio

    # In a thread, so that heartbeats and a cancel work meanwhile.
    module = await asyncio.to_thread(import_module, "ao_executors.acp.agent_turn")
    result: Result = await module.perform_in_session(agent, task)
    return result


def warm_up() -> None:
    """Import the modules that a run needs."""
    import ao_executors.acp.agent_turn  # noqa: F401


def find_problems(agent: AgentRow) -> Findings:
    """Return what prevents a run, and the program that it starts."""
    from ao_executors.vendors.agent_cli import credential_problems
    from ao_executors.vendors.agent_versions import examine

    path = shutil.which(agent.argv[0])
    if path is None:
        found = Findings([f"{agent.argv[0]} is not on PATH; {agent.install_hint}"])
    else:
        found = examine(agent.argv[0], Path(path), agent.install_hint)
    remedy = f"set {agent.credentials[0]}, or log in with {agent.argv[0]} first"
    return found.and_problems(credential_problems(agent.credentials, remedy))


def serve_row(agent: AgentRow) -> NoReturn:
    """Run the program of a row."""
    begin_imports()
    serve(executor_for(agent))


any_agent = partial(serve_row, ANY)
claude = partial(serve_row, CLAUDE)
gemini = partial(serve_row, GEMINI)
opencode = partial(serve_row, OPENCODE)
qwen = partial(serve_row, QWEN)
"""The programs `ao-acp-exec`, `ao-claude-acp-exec`, `ao-gemini-exec`, `ao-opencode-exec` and `ao-qwen-exec`."""

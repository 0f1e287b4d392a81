"""`ao-codex-exec`: its description and its entry point."""

from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from ao_executors import VERSION
from ao_executors.codex.codex_config import CONFIG_SCHEMA, MEDIA_TYPES, SECRETS, SETTINGS
from ao_executors.core import Executor, Findings, RunContext, Task, converse, serve
from ao_executors.core.described import capabilities
from ao_protocol.quick_import import begin_imports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from ao_executors.codex.codex_connection import CodexConnection
    from ao_protocol.events import Result

DESCRIPTION: Final = {
    "agent_types": ["autonomous"],
    "capabilities": capabilities(
        *("resume", "multi_turn", "prepare", "cancel", "check", "streaming", "input"),
        strategies=("prompt", "extract", "native", "tool"),
        media_types=MEDIA_TYPES,
    ),
    "config_schema": CONFIG_SCHEMA,
    "secrets": list(SECRETS),
    "environment": list(SETTINGS),
    "requires_programs": [
        {"name": "codex", "install_hint": "pip install 'ao-executor-protocol[codex]', which contains it"}
    ],
    "model_endpoint": {"openai-responses": {"env": "OPENAI_BASE_URL", "api_key_env": "OPENAI_API_KEY"}},
}


async def perform(task: Task) -> "Result":
    """Perform a task with the connected CLI.

    Raises:
        RunFailed: The conversation ended without a valid answer.
    """
    connected = cast("CodexConnection", task.connection)  # the value that `connect` yielded
    contract = task.contract
    if contract is not None and contract.strategy == "tool" and task.invocation.mode == "resume":
        from ao_protocol.contracts import enrich

        # The thread has the tools with which it was started: perhaps none, or one with another schema.
        task = replace(task, text=enrich(task.text, contract.format))
    async with connected.conversation(task) as codex:
        return await converse(task, codex)


@asynccontextmanager
async def connect(context: RunContext) -> "AsyncIterator[CodexConnection]":
    """Start a CLI and open a thread in it. Leaving the block ends the CLI.

    Raises:
        RunFailed: The CLI or an MCP server is missing, or the session cannot be resumed.
    """
    import asyncio

    # In threads, so that heartbeats and a cancel work meanwhile.
    process = await asyncio.to_thread(import_module, "ao_executors.codex.codex_process")
    importing = asyncio.create_task(asyncio.to_thread(import_module, "ao_executors.codex.codex_connection"))
    async with process.started_codex(context) as (server, log):
        module = await importing
        async with module.connection(context, server, log) as connected:
            yield connected


def takes_native(schema: "Mapping[str, Any]") -> bool:
    """Return whether the provider's strict output can express a schema."""
    from ao_executors.codex.strict_schema import strict_schema

    return strict_schema(schema) is not None


def warm_up() -> None:
    """Import the modules that a run needs."""
    import ao_executors.codex.codex_connection  # noqa: F401


def check() -> Findings:
    """Return the problems that prevent a run, and the program that it starts."""
    from ao_executors.codex.codex_process import find_problems

    return find_problems()


def main() -> NoReturn:
    """Run the program `ao-codex-exec`."""
    begin_imports()
    serve(
        Executor(
            "codex",
            VERSION,
            perform,
            DESCRIPTION,
            check=check,
            warm_up=warm_up,
            connect=connect,
            starts_mcp_servers=True,
            takes_native=takes_native,
            unkept_limits={"max_cost_usd": "the CLI tells tokens and no cost"},
        )
    )

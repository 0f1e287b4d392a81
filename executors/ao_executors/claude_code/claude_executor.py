"""`ao-claude-code-exec`: its description and its entry point."""

from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final, NoReturn, cast

from ao_executors import VERSION
from ao_executors.claude_code.claude_config import CONFIG_SCHEMA, MEDIA_TYPES, SECRETS, SETTINGS
from ao_executors.core import Executor, Findings, RunContext, RunFailed, Task, converse, serve
from ao_executors.core.described import capabilities
from ao_protocol.errors import ErrorType
from ao_protocol.quick_import import begin_imports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ao_executors.claude_code.claude_connection import ClaudeConnection
    from ao_protocol.events import Result

DESCRIPTION: Final = {
    "agent_types": ["autonomous"],
    "capabilities": capabilities(
        *("resume", "multi_turn", "prepare", "cancel", "streaming", "check", "trace", "input", "input_parking"),
        strategies=("system_prompt", "prompt", "extract", "native", "tool"),
        media_types=MEDIA_TYPES,
    ),
    "config_schema": CONFIG_SCHEMA,
    "secrets": list(SECRETS),
    "environment": list(SETTINGS),
    "requires_programs": [
        {"name": "claude", "install_hint": "pip install 'ao-executor-protocol[claude]', whose SDK contains it"}
    ],
    "model_endpoint": {"anthropic": {"env": "ANTHROPIC_BASE_URL", "api_key_env": "ANTHROPIC_API_KEY"}},
}


async def perform(task: Task) -> "Result":
    """Perform a task with the connected CLI.

    Raises:
        RunFailed: The conversation ended without a valid answer.
    """
    connected = cast("ClaudeConnection", task.connection)  # the value that `connect` yielded
    async with connected.conversation(task) as claude:
        return await converse(task, claude)


@asynccontextmanager
async def connect(context: RunContext) -> "AsyncIterator[ClaudeConnection]":
    """Start a CLI, which boots while the SDK is imported, and connect to it. Leaving the block ends it.

    Raises:
        RunFailed: The SDK, the CLI or an MCP server is missing, or the session cannot be resumed.
    """
    import asyncio

    from ao_executors.claude_code.claude_arguments import chosen_session, resumed_session
    from ao_executors.claude_code.claude_process import started_claude
    from ao_executors.claude_code.cli_files import SessionLock

    known = resumed_session(context.invocation) or chosen_session(context.invocation)
    if known is not None and "\0" in known:  # no program argument can contain it
        message = "the CLI has no session with a zero in its name; start a new one"
        raise RunFailed(ErrorType.SESSION_NOT_FOUND, message, origin="caller")
    with SessionLock() as lock:
        if known is not None:
            lock.take(known)
        async with started_claude(context) as process:
            try:
                # In a thread, so that heartbeats and a cancel work meanwhile.
                module = await asyncio.to_thread(import_module, "ao_executors.claude_code.claude_connection")
            except ImportError as error:
                message = (
                    f"the Claude Agent SDK cannot be imported ({error}); pip install 'ao-executor-protocol[claude]'"
                )
                raise RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment") from error
            async with module.connection(context, process, lock) as connected:
                yield connected


def warm_up() -> None:
    """Import the modules that a run needs, including the SDK."""
    import ao_executors.claude_code.claude_connection  # noqa: F401


def check() -> Findings:
    """Return the problems that prevent a run, and the program that it starts."""
    from ao_executors.claude_code.claude_process import find_problems

    return find_problems()


def main() -> NoReturn:
    """Run the program `ao-claude-code-exec`."""
    begin_imports()
    serve(
        Executor(
            "claude-code",
            VERSION,
            perform,
            DESCRIPTION,
            check=check,
            warm_up=warm_up,
            connect=connect,
            starts_mcp_servers=True,
        )
    )

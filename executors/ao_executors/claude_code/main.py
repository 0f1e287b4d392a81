"""`ao-claude-code-exec`: what it says of itself, and where its work is done."""

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from ao_executors import VERSION
from ao_executors.claude_code.cli_variables import SECRETS, SETTINGS
from ao_executors.claude_code.config import CONFIG_SCHEMA
from ao_executors.core import Executor, serve

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ao_executors.core.executor import Connection
    from ao_executors.core.task import Setting, Task
    from ao_protocol.events import Result

DESCRIPTION: Final = {
    "agent_types": ["autonomous"],
    "capabilities": {
        "resume": True,
        "multi_turn": True,
        "prepare": True,
        "cancel": True,
        "check": True,
        "trace": True,
        "output_schema": {
            "strategies": ["system_prompt", "prompt", "extract", "native"],
            "formats": ["agent_response"],
        },
    },
    "config_schema": CONFIG_SCHEMA,
    "secrets": list(SECRETS),
    "environment": list(SETTINGS),
    "requires_programs": [
        {"name": "claude", "install_hint": "pip install 'ao-executor-protocol[claude]', whose SDK contains it"}
    ],
    "model_endpoint": {"anthropic": {"env": "ANTHROPIC_BASE_URL", "api_key_env": "ANTHROPIC_API_KEY"}},
}


async def perform(task: "Task") -> "Result":
    """Perform a task with the Claude CLI."""
    from ao_executors.claude_code.perform import perform_with_claude

    return await perform_with_claude(task)


@asynccontextmanager
async def connect(setting: "Setting") -> "AsyncIterator[Connection]":
    """Start the Claude CLI and connect to it."""
    from ao_executors.claude_code.perform import connected_claude

    async with connected_claude(setting) as connected:
        yield connected


def warm_up() -> None:
    """Import what a run needs, the SDK above all."""
    import ao_executors.claude_code.connection
    import ao_executors.claude_code.perform  # noqa: F401


def check() -> list[str]:
    """Say what is missing for a run."""
    from ao_executors.claude_code.check import find_problems

    return find_problems()


def main() -> NoReturn:
    """Be `ao-claude-code-exec`."""
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

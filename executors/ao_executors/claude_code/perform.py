"""The story of a session on the Claude CLI: it boots while the SDK is imported, then each run converses with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, cast

from ao_executors.claude_code.arguments import chosen_session, resumed_session
from ao_executors.claude_code.process import started_claude
from ao_executors.claude_code.session_lock import session_lock
from ao_executors.core import converse
from ao_executors.core.failures import RunFailed
from ao_executors.core.task import Setting, Task
from ao_protocol.errors import ErrorType
from ao_protocol.events import Result

if TYPE_CHECKING:
    from ao_executors.claude_code.connection import ClaudeConnection


@asynccontextmanager
async def connected_claude(setting: Setting) -> AsyncIterator["ClaudeConnection"]:
    """Start a CLI and connect to it; nothing is asked. Leaving the block ends it.

    Raises:
        RunFailed: the SDK, the CLI or an MCP server is missing, or the session cannot be gone on with.
    """
    known = resumed_session(setting.invocation) or chosen_session(setting.invocation)
    if known is not None and "\0" in known:  # no argument of a program holds one
        message = "the CLI has no session with a zero in its name; start a new one"
        raise RunFailed(ErrorType.SESSION_NOT_FOUND, message, origin="caller")
    with session_lock(known) as lock:
        async with started_claude(setting) as process:
            try:
                # In a thread: heartbeats and a cancel go on meanwhile.
                module = await asyncio.to_thread(import_module, "ao_executors.claude_code.connection")
            except ImportError as error:
                message = (
                    f"the Claude Agent SDK cannot be imported ({error}); pip install 'ao-executor-protocol[claude]'"
                )
                raise RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment") from error

            async with module.connection(setting, process, lock) as connected:
                yield connected


async def perform_with_claude(task: Task) -> Result:
    """Perform a task with the CLI that it is connected to.

    Raises:
        RunFailed: the conversation did not end well.
    """
    connected = cast("ClaudeConnection", task.connection)  # what connected_claude yielded
    async with connected.conversation(task) as claude:
        result = await converse(task, claude)
    return result.model_copy(update={"usage": claude.usage})

"""The story of one run on the Claude CLI: the CLI boots while the SDK is imported, then they converse."""

from ao_executors.claude_code.arguments import resumed_session
from ao_executors.claude_code.process import started_claude
from ao_executors.claude_code.session_lock import SessionLock, session_lock
from ao_executors.core import converse
from ao_executors.core.failures import RunFailed
from ao_executors.core.task import Task
from ao_protocol.errors import ErrorType
from ao_protocol.events import Result


async def perform_with_claude(task: Task) -> Result:
    """Perform a task.

    Raises:
        RunFailed: the SDK or the CLI is missing, or the conversation did not end well.
    """
    with session_lock(resumed_session(task.invocation)) as lock:
        return await _perform(task, lock)


async def _perform(task: Task, lock: SessionLock) -> Result:
    async with started_claude(task) as process:
        try:
            from ao_executors.claude_code.conversation import conversation
        except ImportError as error:
            message = f"the Claude Agent SDK cannot be imported ({error}); pip install 'ao-executor-protocol[claude]'"
            raise RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment") from error

        async with conversation(task, process, lock) as claude:
            result = await converse(task, claude)
        return result.model_copy(update={"usage": claude.usage})

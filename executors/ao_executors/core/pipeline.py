"""The story of one run inside an executor: check, perform while listening, end."""

import asyncio
from typing import Final

from pydantic import JsonValue

from ao_executors.core.cancellation import Cancellation
from ao_executors.core.control import listen
from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor
from ao_executors.core.failures import RunFailed, cancelled
from ao_executors.core.heartbeat import beat
from ao_executors.core.prepare import prepare
from ao_executors.core.shrinking import EventTooLarge
from ao_executors.core.stdio import Stdio
from ao_executors.core.task import Task
from ao_protocol.errors import ErrorType
from ao_protocol.events import Result, body_fields

DEFAULT_CANCEL_GRACE_SECONDS: Final = 10.0


def run(
    executor: Executor, document: dict[str, JsonValue], stdio: Stdio, events: Emitter, cancellation: Cancellation
) -> None:
    """Perform a run to its `result`.

    Raises:
        RunFailed: it ends in a `failure` instead, which the caller writes.
    """
    task = prepare(executor, document, events)
    result = asyncio.run(_supervise(executor, task, stdio, cancellation))
    try:
        events.end("result", body_fields(result))
    except EventTooLarge as error:
        raise RunFailed(ErrorType.LIMIT_EXCEEDED, str(error), origin="caller") from error


async def _supervise(executor: Executor, task: Task, stdio: Stdio, cancellation: Cancellation) -> Result:
    loop = asyncio.get_running_loop()
    limits = task.invocation.limits
    with (
        listen(loop, stdio, task.events, cancellation, enabled=task.invocation.control.stdin == "open"),
        beat(loop, task.events, limits.heartbeat_interval_seconds, cancellation),
    ):
        work = loop.create_task(_perform_in_time(executor, task))
        await _until_done_or_cancelled(work, cancellation)
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=limits.cancel_grace_seconds or DEFAULT_CANCEL_GRACE_SECONDS)
        return _outcome(work, cancellation)


async def _perform_in_time(executor: Executor, task: Task) -> Result:
    seconds = task.invocation.limits.timeout_seconds
    try:
        async with asyncio.timeout(seconds):
            return await executor.perform(task)
    except TimeoutError as error:
        message = f"the run took longer than limits.timeout_seconds ({seconds:g} s)"
        raise RunFailed(ErrorType.DEADLINE_EXCEEDED, message, origin="caller") from error


async def _until_done_or_cancelled(work: asyncio.Task[Result], cancellation: Cancellation) -> None:
    loop = asyncio.get_running_loop()
    requested = asyncio.Event()
    cancellation.when_requested(lambda: loop.call_soon_threadsafe(requested.set))
    waiting = loop.create_task(requested.wait())
    await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _outcome(work: asyncio.Task[Result], cancellation: Cancellation) -> Result:
    """Read the work's end: a completion that won the race against a cancel counts, a clean-up that hangs does not."""
    if not work.done() or work.cancelled():
        raise cancelled(cancellation.reason or "the work cancelled itself")
    return work.result()

"""The story of one run inside an executor: check, perform while listening, end."""

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

from pydantic import JsonValue

from ao_executors.core.cancellation import Cancellation
from ao_executors.core.control import listen
from ao_executors.core.descendants import adopt_orphans
from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor
from ao_executors.core.failures import RunFailed, cancelled
from ao_executors.core.heartbeat import beat
from ao_executors.core.last_resort import end_after
from ao_executors.core.prepare import prepare
from ao_executors.core.shrinking import EventTooLarge
from ao_executors.core.stdio import Stdio
from ao_executors.core.task import Task
from ao_protocol.errors import ErrorType
from ao_protocol.events import Result, body_fields

DEFAULT_CANCEL_GRACE_SECONDS: Final = 10.0
CLEAN_UP_SHARE: Final = 0.7
"""How much of the grace the work has for ending what it started; the rest is for saying so."""
LAST_RESORT_SHARE: Final = 0.9
_LEFTOVER_SECONDS: Final = 1.0


def run(  # each of the six is another part of the process
    executor: Executor,
    document: dict[str, JsonValue],
    stdio: Stdio,
    events: Emitter,
    cancellation: Cancellation,
    give_up: Callable[[RunFailed], NoReturn],
) -> None:
    """Perform a run to its `result`.

    `give_up` ends the process at once with a failure; it is called from a signal handler, and only where the work
    does not let the event loop go on.

    Raises:
        RunFailed: it ends in a `failure` instead, which the caller writes.
    """
    task = prepare(executor, document, events)
    adopt_orphans()
    # Not asyncio.run: it waits without a limit for tasks that ignore their cancellation, and for threads.
    loop = asyncio.new_event_loop()
    try:
        result = loop.run_until_complete(_supervise(executor, task, stdio, cancellation, give_up))
        events.end("result", body_fields(result))
    except EventTooLarge as error:
        raise RunFailed(ErrorType.LIMIT_EXCEEDED, str(error), origin="caller") from error


async def _supervise(
    executor: Executor,
    task: Task,
    stdio: Stdio,
    cancellation: Cancellation,
    give_up: Callable[[RunFailed], NoReturn],
) -> Result:
    loop = asyncio.get_running_loop()
    limits = task.invocation.limits
    grace_seconds = limits.cancel_grace_seconds or DEFAULT_CANCEL_GRACE_SECONDS
    with (
        listen(loop, stdio, task.events, cancellation, enabled=task.invocation.control.stdin == "open"),
        beat(loop, task.events, limits.heartbeat_interval_seconds, cancellation),
    ):
        work = loop.create_task(_perform(executor, task, cancellation))
        interruption = await _until_done(work, task, cancellation, grace_seconds, give_up)
        if interruption is not None:
            work.cancel()
            await asyncio.wait({work}, timeout=grace_seconds * CLEAN_UP_SHARE)
        await _end_leftovers(work)
        return _outcome(work, interruption)


async def _perform(executor: Executor, task: Task, cancellation: Cancellation) -> Result:
    if cancellation.reason is not None:
        raise cancelled(cancellation.reason)
    return await executor.perform(task)


async def _until_done(
    work: asyncio.Task[Result],
    task: Task,
    cancellation: Cancellation,
    grace_seconds: float,
    give_up: Callable[[RunFailed], NoReturn],
) -> RunFailed | None:
    """Wait for the work, a request to cancel or the deadline; return the failure that the latter two mean."""
    loop = asyncio.get_running_loop()
    requested = asyncio.Event()
    seconds = task.invocation.limits.timeout_seconds
    last_seconds = grace_seconds * LAST_RESORT_SHARE

    def stop() -> None:
        loop.call_soon_threadsafe(requested.set)
        end_after(last_seconds, task.events, lambda: give_up(cancelled(cancellation.reason or "")))

    if seconds is not None:
        end_after(seconds + last_seconds, task.events, lambda: give_up(_too_late(seconds)))
    cancellation.when_requested(stop)
    waiting = loop.create_task(requested.wait())
    await asyncio.wait({work, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if work.done():
        return None
    return cancelled(cancellation.reason) if cancellation.reason is not None else _too_late(seconds)


def _too_late(seconds: float | None) -> RunFailed:
    message = f"the run took longer than limits.timeout_seconds ({seconds} s)"
    return RunFailed(ErrorType.DEADLINE_EXCEEDED, message, origin="caller")


async def _end_leftovers(work: asyncio.Task[Result]) -> None:
    """Cancel what the work has left running, so that it can end what it owns."""
    leftovers = asyncio.all_tasks() - {work, asyncio.current_task()}
    for leftover in leftovers:
        leftover.cancel()
    if leftovers:
        await asyncio.wait(leftovers, timeout=_LEFTOVER_SECONDS)


def _outcome(work: asyncio.Task[Result], interruption: RunFailed | None) -> Result:
    """Read the work's end: a completion that won the race counts, a clean-up that hangs or fails does not."""
    if work.done() and work.cancelled():
        raise interruption or cancelled("the work cancelled itself")
    if interruption is not None and (not work.done() or work.exception() is not None):
        raise interruption
    return work.result()

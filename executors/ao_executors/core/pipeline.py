"""The story of one run inside an executor: perform while listening, end."""

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from ao_executors.core.connections import Connections
from ao_executors.core.control import ControlLines
from ao_executors.core.executor import Connection, TextResult
from ao_executors.core.failures import RunFailed, cancelled
from ao_executors.core.heartbeat import beat
from ao_executors.core.process import Process
from ao_executors.core.shrinking import EventTooLarge
from ao_executors.core.task import Task
from ao_executors.core.watchdog import end_after
from ao_protocol.errors import ErrorType, ExitCode

if TYPE_CHECKING:
    from ao_protocol.events import Result

CLEAN_UP_SHARE: Final = 0.7
"""How much of the grace the work has for ending what it started; the rest is for saying so."""
LAST_RESORT_SHARE: Final = 0.9
_LEFTOVER_SECONDS: Final = 1.0
_BEFORE_MCP_SERVERS: Final = frozenset(
    {
        ErrorType.DEPENDENCY_MISSING,
        ErrorType.INVALID_EXECUTOR_CONFIG,
        ErrorType.INVALID_INVOCATION,
        ErrorType.SESSION_BUSY,
        ErrorType.SESSION_NOT_FOUND,
    }
)
"""Why an executor does not connect, where it has not started any MCP server."""
NOISE_VARIABLE: Final = "AO_CONFORM_NOISE"
LINGER_VARIABLE: Final = "AO_CONFORM_LINGER_SECONDS"
"""What a conformance suite may set (SPEC 12). Without them, the hooks are not even imported."""

_Work: TypeAlias = "asyncio.Task[Result | TextResult]"


@dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over: its exit code, and whether the process waits for another."""

    exit_code: ExitCode
    stays: bool


async def perform_run(
    process: Process, task: Task, connections: Connections, lines: ControlLines, *, may_stay: bool
) -> Ended:
    """Perform a run to its terminal event.

    Where the process does not stay, the connection has ended before that event is out: whoever resumes the session
    then finds it complete. What the executor's own code raises, `RunFailed` apart, passes through.
    """
    loop = asyncio.get_running_loop()
    grace_seconds, interval = task.terms.cancel_grace_seconds, task.terms.heartbeat_interval_seconds
    with lines.heard(task.events), beat(loop, task.events, interval, process.cancellation):
        work = loop.create_task(_work(process, task, connections))
        interruption = await _until_done(work, process, task, grace_seconds)
        clean_until = loop.time() + grace_seconds * CLEAN_UP_SHARE
        if interruption is not None:
            work.cancel()
            await asyncio.wait({work}, timeout=clean_until - loop.time())
        is_fit = _went_in_order(work) and connections.is_alive
        stays = may_stay and is_fit and not process.cancellation.is_for_good and not lines.ask_to_leave
        if not stays:
            await connections.close(max(0.0, clean_until - loop.time()))
        await _end_leftovers(work, connections)
    return Ended(_say_end(process, work, interruption), stays)


async def _work(process: Process, task: Task, connections: Connections) -> "Result | TextResult":
    reason = process.cancellation.reason
    if reason is not None:
        raise cancelled(reason)
    connection = await _connected(task, connections)
    perform = process.executor.perform
    if NOISE_VARIABLE in os.environ or LINGER_VARIABLE in os.environ:
        from ao_executors.core.conformance import hooked

        perform = hooked(perform, os.environ)
    return await perform(replace(task, connection=connection))


async def _connected(task: Task, connections: Connections) -> Connection | None:
    """Connect. The MCP servers that this starts may change something from then on (AOX-103)."""
    task.events.may_have_changed_something = task.terms.has_mcp_programs
    try:
        return await connections.connection(task)
    except RunFailed as failure:
        if failure.error_type in _BEFORE_MCP_SERVERS:
            task.events.may_have_changed_something = False
        raise


async def _until_done(work: _Work, process: Process, task: Task, grace_seconds: float) -> RunFailed | None:
    """Wait for the work, a request to cancel or the deadline; return the failure that the latter two mean."""
    loop = asyncio.get_running_loop()
    cancellation = process.cancellation
    requested = asyncio.Event()
    seconds = task.terms.timeout_seconds
    last_seconds = grace_seconds * LAST_RESORT_SHARE

    def stop() -> None:
        loop.call_soon_threadsafe(requested.set)
        end_after(last_seconds, task.events, lambda: process.give_up(cancelled(cancellation.reason or "")))

    if seconds is not None:
        end_after(seconds + last_seconds, task.events, lambda: process.give_up(_too_late(seconds)))
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


def _went_in_order(work: _Work) -> bool:
    """Say whether the executor's code ended as it may, so that another run can follow."""
    if not work.done() or work.cancelled():
        return work.done()
    return work.exception() is None or isinstance(work.exception(), RunFailed | EventTooLarge)


async def _end_leftovers(work: _Work, connections: Connections) -> None:
    """Cancel what the work has left running, so that it can end what it owns.

    Where the connection is still being opened the work has not begun: all that runs is opening it, for the next run.
    """
    if connections.is_opening:
        return
    leftovers = asyncio.all_tasks() - connections.tasks - {work, asyncio.current_task()}
    for leftover in leftovers:
        leftover.cancel()
    if leftovers:
        await asyncio.wait(leftovers, timeout=_LEFTOVER_SECONDS)


def _say_end(process: Process, work: _Work, interruption: RunFailed | None) -> ExitCode:
    try:
        process.events.end("result", _fields(_outcome(work, interruption)))
    except EventTooLarge as error:
        return process.fail(RunFailed(ErrorType.LIMIT_EXCEEDED, str(error), origin="caller"))
    except RunFailed as failure:
        return process.fail(failure)
    return ExitCode.RESULT


def _outcome(work: _Work, interruption: RunFailed | None) -> "Result | TextResult":
    """Read the work's end, which counts where nothing asked for it: work can catch the request and go on."""
    if interruption is not None:
        raise interruption
    if work.cancelled():
        raise cancelled("the work cancelled itself")
    return work.result()


def _fields(result: "Result | TextResult") -> dict[str, object]:
    if isinstance(result, TextResult):
        return {"result_text": result.text, "result_data": None, "stop_reason": result.stop_reason}
    from ao_protocol.events import body_fields

    return dict(body_fields(result))

"""Perform the runs of one process: the first one, and those that `turn` lines begin (SPEC 4.4).

Internal. A run performs its task while it reads control lines, ends what the work has left, and writes the terminal
event. An invocation with only a prompt needs no check by a schema. It becomes a task without pydantic models and
schemas, whose import takes longer than the rest of such a run. Any other invocation goes through `prepare`.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ao_executors.core.connections import Connections, PreparedConnection
from ao_executors.core.control import ControlLines
from ao_executors.core.emitter import Emitter, EventTooLarge
from ao_executors.core.executor import (
    Executor,
    NativeRefused,
    RunFailed,
    RunLimits,
    Task,
    TextResult,
    cancelled,
    input_required,
)
from ao_executors.core.executor_process import ExecutorProcess, adopt_orphans
from ao_executors.core.inputs import Inputs
from ao_executors.core.stdio import NobodyReads
from ao_protocol.errors import ErrorType, ExitCode
from ao_protocol.prompt_only import asks_a_prompt_alone, takes_an_empty_config
from ao_protocol.quick_import import end_imports

if TYPE_CHECKING:
    from ao_protocol.documents import Invocation
    from ao_protocol.events import Result

_LAST_RESORT_SHARE: Final = 0.9
"""The part of the grace period after which the process ends, even if the work blocks the event loop."""
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
"""The errors of `connect` after which no MCP server was started."""
_HOOK_PREFIX: Final = "AO_CONFORM_"
"""The prefix of the variables that a conformance suite sets (SPEC 12). Without one, the hooks are not imported."""
_LOOKS_PER_INTERVAL: Final = 2

_Work: TypeAlias = "asyncio.Task[Result | TextResult]"


def perform_runs(process: ExecutorProcess, document: dict[str, Any], prepared: PreparedConnection | None) -> ExitCode:
    """Perform a run whose `run_started` is written, and the turns that follow it.

    Args:
        process: The process, with the emitter of the run.
        document: The invocation.
        prepared: The connection that a `prepare` line requested; None without one.

    Returns:
        The exit code of the last run.

    Raises:
        RunFailed: The invocation is refused; the caller writes the failure.
    """
    task = plain_task(process.executor, document, process.events)
    if task is None:
        from ao_executors.core.task_from_invocation import prepare

        task = prepare(process.executor, document, process.events)
    adopt_orphans()
    # Not asyncio.run: it waits without a limit for tasks that ignore their cancellation, and for threads.
    loop = prepared.loop if prepared is not None else asyncio.new_event_loop()
    return loop.run_until_complete(_perform_all(process, task, prepared))


def plain_task(executor: Executor, document: dict[str, Any], events: Emitter) -> Task | None:
    """Return the task of an invocation with only a prompt, equal to that of `prepare`; None for any other."""
    if not asks_a_prompt_alone(document):
        return None
    blueprint, folder = document.get("agent_blueprint") or {}, Path(document.get("project_dir") or Path.cwd())
    is_served = blueprint.get("type", "autonomous") in executor.agent_types
    is_served &= not any((document.get("limits") or {}).get(name) for name in executor.unkept_limits)
    config_schema = executor.description.get("config_schema", {"type": "object"})
    if not is_served or not takes_an_empty_config(config_schema) or not os.path.isdir(folder):  # noqa: PTH112
        return None
    limits = RunLimits.of(document["schema_version"], document.get("limits") or {}, document.get("control") or {})
    events.max_event_bytes = limits.max_event_bytes or events.max_event_bytes

    @cache
    def read_invocation() -> "Invocation":
        from ao_protocol.documents import invocation_from_document

        return invocation_from_document(document)

    return Task(
        limits=limits,
        system_prompt=blueprint.get("system_prompt"),
        contract=None,
        config={},
        project_dir=folder,
        read_invocation=read_invocation,
        text=document.get("prompt") or document["parameters"]["prompt"],
        events=events,
        inputs=Inputs(events, is_open=limits.takes_input and executor.declares("input"), given={}),
    )


async def _perform_all(process: ExecutorProcess, first: Task, prepared: PreparedConnection | None) -> ExitCode:
    executor = process.executor
    connections = await prepared.connections_for(first) if prepared is not None else Connections(executor.connect)
    declared = frozenset(name for name in ("cancel", "input", "input_parking") if executor.declares(name))
    lines = ControlLines(process.stdio, process.cancellation, is_open=first.limits.listens, declared=declared)
    may_stay = first.limits.takes_turns and executor.declares("multi_turn")
    exit_code, stays = await _perform_run(process, first, connections, lines, may_stay=may_stay)
    while stays:
        process.cancellation.forget()
        turn = await lines.next_turn()
        if turn is None:
            break
        from ao_executors.core.task_from_invocation import prepare_turn

        process.begin_turn(turn.run_id, first.limits.schema_version)
        try:
            task = prepare_turn(process.executor, first, turn, process.events)
        except RunFailed as refusal:
            exit_code = process.fail(refusal)
        else:
            exit_code, stays = await _perform_run(process, task, connections, lines, may_stay=True)
    await connections.close()
    return exit_code


async def _perform_run(
    process: ExecutorProcess, task: Task, connections: Connections, lines: ControlLines, *, may_stay: bool
) -> tuple[ExitCode, bool]:
    """Perform a run to its terminal event; return its exit code, and whether the process waits for another run.

    If the process does not stay, the connection is closed before that event is written, so that a resume finds the
    session complete. Exceptions of the executor's code propagate, except for `RunFailed` and `EventTooLarge`.
    """
    loop = asyncio.get_running_loop()
    with lines.heard(task), _heartbeats(process, task):
        work = loop.create_task(_work(process, task, connections))
        interruption = await _until_done(work, process, task)
        clean_until = loop.time() + task.limits.clean_up_seconds
        if interruption is not None:
            if task.inputs.parked:  # the work may end by itself so that a resume continues it
                await asyncio.wait({work}, timeout=(clean_until - loop.time()) / 2)
            work.cancel()
            await asyncio.wait({work}, timeout=clean_until - loop.time())
        is_fit = _went_in_order(work) and connections.is_alive
        stays = may_stay and is_fit and not process.cancellation.is_for_good and not lines.ask_to_leave
        if not stays:
            await connections.close(max(0.0, clean_until - loop.time()))
        await _end_leftovers(work, connections)
    return _say_end(process, work, interruption), stays


async def _work(process: ExecutorProcess, task: Task, connections: Connections) -> "Result | TextResult":
    if process.cancellation.reason is not None:
        raise cancelled(process.cancellation.reason)
    try:
        return await _perform(process.executor, task, connections)
    except NativeRefused as refusal:
        from ao_executors.core.task_from_invocation import without_native

        asked_in_words = without_native(task, process.executor)
        if asked_in_words is None:
            raise
        task.events.warn(f"the provider does not take this schema as native output, so prompt is used: {refusal.why}")
    return await _perform(process.executor, asked_in_words, connections)


async def _perform(executor: Executor, task: Task, connections: Connections) -> "Result | TextResult":
    # The MCP servers that `connect` starts may change something from then on (AOX-103).
    task.events.may_have_changed_something = task.limits.has_mcp_programs
    try:
        connection = await connections.connection(task)
    except RunFailed as failure:
        if failure.error_type in _BEFORE_MCP_SERVERS:
            task.events.may_have_changed_something = False
        raise
    end_imports()
    perform = executor.perform
    if any(name.startswith(_HOOK_PREFIX) for name in os.environ):
        from ao_executors.core.conformance import hooked

        perform = hooked(perform, os.environ)
    return await perform(replace(task, connection=connection))


async def _until_done(work: _Work, process: ExecutorProcess, task: Task) -> RunFailed | None:
    """Wait for the work, a request to cancel, a `park` or the deadline; return the failure for all but the first."""
    loop = asyncio.get_running_loop()
    cancellation = process.cancellation
    requested = asyncio.Event()
    seconds = task.limits.timeout_seconds
    last_seconds = task.limits.cancel_grace_seconds * _LAST_RESORT_SHARE

    def stop() -> None:
        loop.call_soon_threadsafe(requested.set)
        process.fail_after(last_seconds, task.events, lambda: cancelled(cancellation.reason or ""))

    if seconds is not None:
        process.fail_after(seconds + last_seconds, task.events, lambda: _too_late(seconds))
    cancellation.when_requested(stop)
    task.inputs.when_parked = requested.set
    waiting = loop.create_task(requested.wait())
    await asyncio.wait({work, waiting}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if work.done() and not task.inputs.parked:
        return None
    if cancellation.reason is not None:
        return cancelled(cancellation.reason)
    return input_required(task.inputs.parked) if task.inputs.parked else _too_late(seconds)


def _too_late(seconds: float | None) -> RunFailed:
    message = f"the run took longer than limits.timeout_seconds ({seconds} s)"
    return RunFailed(ErrorType.DEADLINE_EXCEEDED, message, origin="caller")


def _went_in_order(work: _Work) -> bool:
    """Return whether the executor's code ended without an unexpected error, so that another run can follow."""
    if not work.done() or work.cancelled():
        return work.done()
    return work.exception() is None or isinstance(work.exception(), RunFailed | EventTooLarge)


async def _end_leftovers(work: _Work, connections: Connections) -> None:
    """Cancel the tasks that the work has left, so that they release their resources.

    While the connection is being opened, the work has not begun: the other tasks open it for the next run.
    """
    if connections.is_opening:
        return
    leftovers = asyncio.all_tasks() - connections.tasks - {work, asyncio.current_task()}
    for leftover in leftovers:
        leftover.cancel()
    if leftovers:
        await asyncio.wait(leftovers, timeout=_LEFTOVER_SECONDS)


def _say_end(process: ExecutorProcess, work: _Work, interruption: RunFailed | None) -> ExitCode:
    """Write the terminal event. After an interruption a result does not count: the work can ignore its cancellation."""
    try:
        if interruption is not None:
            raise interruption
        if work.cancelled():
            raise cancelled("the work cancelled itself")
        result = work.result()
        if isinstance(result, TextResult):
            fields = {"result_text": result.text, "result_data": None, "stop_reason": result.stop_reason}
            process.events.end("result", fields)
        else:
            from ao_protocol.events import body_fields

            process.events.end("result", body_fields(result))
    except EventTooLarge as error:
        return process.fail(RunFailed(ErrorType.LIMIT_EXCEEDED, str(error), origin="caller"))
    except RunFailed as failure:
        return process.fail(failure)
    return ExitCode.RESULT


@contextmanager
def _heartbeats(process: ExecutorProcess, task: Task) -> Iterator[None]:
    """Write a `heartbeat` for every interval without another event; none without an interval (SPEC 5).

    It checks twice in each interval, so that the gap between two events is at most one and a half intervals, and a late
    timer does not extend it to two (AOX-080). If the reader of stdout is gone, the run is cancelled.
    """
    loop, events, interval_seconds = asyncio.get_running_loop(), task.events, task.limits.heartbeat_interval_seconds
    if interval_seconds is None:
        yield
        return
    look_seconds = interval_seconds / _LOOKS_PER_INTERVAL
    seen, quiet_looks = events.seq, 0
    handle: asyncio.TimerHandle

    def look() -> None:
        nonlocal seen, quiet_looks, handle
        quiet_looks = quiet_looks + 1 if events.seq == seen else 0
        if quiet_looks == _LOOKS_PER_INTERVAL:
            quiet_looks = 0
            try:
                at = {"phase": events.phase, "last_progress_seq": events.last_progress_seq}
                events.emit_fields("heartbeat", at)
            except NobodyReads:
                process.cancellation.request("the reader of the events has exited")
        seen = events.seq
        handle = loop.call_later(look_seconds, look)

    handle = loop.call_later(look_seconds, look)
    try:
        yield
    finally:
        handle.cancel()

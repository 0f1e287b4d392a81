"""The story of the runs of one process: the first one, and those that `turn` lines ask for (SPEC 4.4)."""

import asyncio
from typing import TYPE_CHECKING

from ao_executors.core.connections import Connections
from ao_executors.core.control import ControlLines
from ao_executors.core.descendants import adopt_orphans
from ao_executors.core.failures import RunFailed
from ao_executors.core.pipeline import Ended, perform_run
from ao_executors.core.plain_task import plain_task
from ao_executors.core.process import Process
from ao_executors.core.task import Task
from ao_protocol.errors import ExitCode

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ao_executors.core.prepared import Ahead
    from ao_protocol.documents import Turn


def perform_runs(process: Process, document: "dict[str, JsonValue]", ahead: "Ahead | None") -> ExitCode:
    """Perform a run whose `run_started` is out, and the turns that follow it. Return the exit code of the last one.

    `ahead` is what has been connected before the invocation came, where anything was.

    Raises:
        RunFailed: the invocation is refused, and the caller writes the failure.
    """
    task = plain_task(process.executor, document, process.events) or _task(process, document)
    adopt_orphans()
    # Not asyncio.run: it waits without a limit for tasks that ignore their cancellation, and for threads.
    loop = ahead.loop if ahead is not None else asyncio.new_event_loop()
    return loop.run_until_complete(_perform(process, task, ahead))


def _task(process: Process, document: "dict[str, JsonValue]") -> Task:
    from ao_executors.core.task_from_invocation import prepare  # the models and schemas that a plain run can do without

    return prepare(process.executor, document, process.events)


async def _perform(process: Process, task: Task, ahead: "Ahead | None") -> ExitCode:
    connections = await ahead.connections_for(task) if ahead is not None else Connections(process.executor.connect)
    lines = ControlLines(
        process.stdio,
        process.cancellation,
        is_open=task.terms.listens,
        takes_cancel=process.executor.declares("cancel"),
    )
    may_stay = task.terms.takes_turns and process.executor.declares("multi_turn")
    end = await perform_run(process, task, connections, lines, may_stay=may_stay)
    while end.stays:
        process.cancellation.forget()
        turn = await lines.next_turn()
        if turn is None:
            break
        end = await _perform_turn(process, task, turn, connections, lines)
    await connections.close()
    return end.exit_code


async def _perform_turn(
    process: Process, first: Task, turn: "Turn", connections: Connections, lines: ControlLines
) -> Ended:
    from ao_executors.core.task_from_invocation import prepare_turn

    process.begin_turn(turn.run_id, first.terms.schema_version)
    try:
        task = prepare_turn(first, turn, process.events)
    except RunFailed as refusal:
        return Ended(process.fail(refusal), stays=True)
    return await perform_run(process, task, connections, lines, may_stay=True)

"""What a worker that died has left in its outbox: runs whose end nobody wrote. They end here, as lost."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from ao_protocol.events import Failure
from ao_runner.coordinators.port import Coordinator
from ao_runner.outbox import KeyState, Outbox, OutboxOptions, OutboxUnreadable, OutboxUnwritable, RecordDamaged
from ao_runner.run_events import RunKey
from ao_runner.runs import lost_runs
from ao_runner.runs.lost_runs import RunSummary
from ao_runner.store.records import timestamp
from ao_runner.worker.delivery import Delivery
from ao_runner.worker.log import Log
from ao_runner.worker.outboxes import adopt_outboxes

ADOPT_SECONDS: Final = 5.0
"""So often a worker looks for what dead workers have left."""


async def recover_orphans(coordinator: Coordinator, folder: Path, options: OutboxOptions, log: Log) -> None:
    """Take over what other workers have left that died, now and whenever one dies. Does not return."""
    while True:
        with suppress(OSError):  # no descriptor to look with; the next look finds the same
            for outbox in adopt_outboxes(folder, options, log):
                await deliver_left_behind(outbox, Delivery(coordinator, outbox, folder, log), log)
        await asyncio.sleep(ADOPT_SECONDS)


async def deliver_left_behind(outbox: Outbox, delivery: Delivery, log: Log) -> None:
    """Own an outbox that a dead worker left, and deliver all that is in it, with the ends that are missing."""
    try:
        with outbox:
            async with asyncio.TaskGroup() as group:
                delivery.attach(group, _nothing, _nothing, _nothing_more, _nobody_stays)
                wake_left_over(outbox, delivery, log)
    except* (OutboxUnreadable, OutboxUnwritable) as group:
        log.warning("events of a dead worker cannot be delivered yet", reason=str(group.exceptions[0]))


def wake_left_over(outbox: Outbox, delivery: Delivery, log: Log) -> None:
    """Write the ends that are missing, and have all delivered that is durable.

    Raises:
        OutboxUnwritable: the disk does not take the ends.
        OutboxUnreadable: it does not give what stands before them.
    """
    for damage in outbox.damages:
        log.error("outbox was damaged", damage=str(damage))
    for key in fail_lost_runs(outbox):
        log.warning("run was lost with its worker", run_id=key.run_id, attempt=key.attempt)
    outbox.sync()
    for state in outbox.open_keys():
        delivery.resume(state)


def _nothing(*_: object) -> None:
    """Nobody here holds the runs of an outbox that was left behind."""


async def _nothing_more(_key: RunKey, _instead: Failure | None) -> None:
    """As `_nothing`."""


async def _nobody_stays(_key: RunKey) -> bool:
    """The processes of a dead worker are gone."""
    return False


def fail_lost_runs(outbox: Outbox, now: Callable[[], str] = timestamp) -> list[RunKey]:
    """Append the end of every run that has none, and return which those were. Nothing is durable before a `sync`.

    Raises:
        OutboxUnreadable: an end needs to know what stands before it.
    """
    unended = [state for state in outbox.open_keys() if not state.has_terminal]
    for state in unended:
        outbox.append(state.key, state.durable_seq + 1, _ending(outbox, state, now), ends=True)
    return [state.key for state in unended]


def _ending(outbox: Outbox, state: KeyState, now: Callable[[], str]) -> list[bytes]:
    return ending_behind(outbox, state, lost_runs.lost_after(state.durable_seq), now)


def ending_behind(outbox: Outbox, state: KeyState, failure: Failure, now: Callable[[], str]) -> list[bytes]:
    """Return the events that end a run behind those that are durable: its open tool calls, and the failure.

    Raises:
        OutboxUnreadable: the durable ones cannot be read now.
    """
    summary = RunSummary.from_note(state.note)
    seq = state.acknowledged_seq
    while seq < state.durable_seq:
        try:
            batch = outbox.next_batch(state.key, after_seq=seq)
        except RecordDamaged as error:
            seq = error.to_seq  # delivery tells of it
            continue
        if batch is None:
            break
        summary, seq = summary.after(batch.lines), batch.last_seq
    return [item.line for item in lost_runs.ending_behind(state.key.run_id, state.durable_seq, summary, failure, now)]

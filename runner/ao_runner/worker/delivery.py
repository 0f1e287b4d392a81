"""Deliver durable events to the coordinator: those of each run in order, with retries for as long as needed.

A run has a task here only while it has events to deliver. Outboxes are in numbered folders per coordinator. A worker
takes the first free one: after a restart it takes the folder of the dead worker, and with it the events that were not
delivered. Outboxes of other dead workers are delivered, too. Runs without a terminal event end as lost.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from ao_protocol.errors import ErrorType
from ao_protocol.events import Failure
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.wire import ExecutorIdentity
from ao_runner.coordinators.port import (
    Backoff,
    Coordinator,
    CoordinatorUnavailable,
    CoordinatorUnusable,
    EventBatch,
    LeaseLost,
    Refused,
)
from ao_runner.errors import RunnerError
from ao_runner.home import make_private
from ao_runner.outbox.events_of_key import Batch, KeyState
from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.outbox.outbox_errors import (
    OutboxBusy,
    OutboxError,
    OutboxUnreadable,
    OutboxUnusable,
    OutboxUnwritable,
    RecordDamaged,
    StateDamaged,
)
from ao_runner.outbox.owning import is_left_behind
from ao_runner.run_events import RunIdentity, RunKey, as_event_of
from ao_runner.runs import lost_runs
from ao_runner.runs.lost_runs import RunSummary
from ao_runner.runs.outcome import failed
from ao_runner.store.records import seconds_since, timestamp
from ao_runner.worker.log import WorkerLog, log_mishap

MOST_EVENTS: Final = 5000
"""The maximum number of events in one batch, which has at most a megabyte."""
ADOPT_SECONDS: Final = 5.0
"""How often a worker looks for outboxes of dead workers."""
MOST_LATE_RUNS: Final = 100
"""Maximum number of runs to look at for how far delivery is behind, those first that have waited for longest."""
MAX_REASON_CHARACTERS: Final = 300
REFUSED_NAME: Final = "refused.jsonl"
"""The folder beside the outbox for events that a coordinator refused for good."""

Returned = TypeVar("Returned")


class _Faulty(Refused):
    """Delivering these events raised an unexpected error of this program."""


class Delivery:
    """Delivers the events of an outbox.

    `on_progress` is called when events are acknowledged, `on_lost` when the coordinator no longer accepts the events of
    a run, and `on_delivered` when it has the terminal event, with the failure that replaced it if it was refused.
    `stays` returns whether the process of an ended run stays for its session.
    """

    def __init__(self, coordinator: Coordinator, outbox: Outbox, folder: Path, log: WorkerLog) -> None:
        self._coordinator = coordinator
        self._outbox = outbox
        self._folder = folder
        self._log = log
        self._active: dict[RunKey, asyncio.Task[None]] = {}
        self._unwanted: set[RunKey] = set()
        self._faulty_runs: set[RunKey] = set()
        self._summaries: dict[RunKey, RunSummary] = {}
        self._told_instead: dict[RunKey, Failure] = {}
        self._is_over = False
        self.unreadable_runs = 0
        """How many runs have events that cannot be read from the disk now."""
        self.is_reaching = True
        """Whether the last call reached the coordinator."""
        self.is_hopeless = False
        """Whether the last call did not reach it, and further calls will not either."""
        self.on_progress: Callable[[], None] = lambda: None
        self.on_lost: Callable[[RunKey], None] = lambda _: None
        self.on_delivered: Callable[[RunKey, Failure | None], Awaitable[None]] | None = None
        self.stays: Callable[[RunKey], Awaitable[bool]] | None = None

    def attach(self, group: asyncio.TaskGroup) -> None:
        """Set the group of the tasks that deliver."""
        self._group = group

    @property
    def is_idle(self) -> bool:
        """Whether no delivery is in progress."""
        return not self._active

    def resume(self, state: KeyState) -> None:
        """Deliver the remaining events of a run of a dead worker."""
        self._summaries[state.key] = RunSummary.from_note(state.note)
        self.wake(state.key)

    def wake(self, key: RunKey) -> None:
        """Deliver the durable events of a run."""
        if key not in self._active and key not in self._faulty_runs and not self._is_over:
            self._active[key] = self._group.create_task(self._deliver(key))

    def has_given_up(self, key: RunKey) -> bool:
        """Return whether this worker stopped delivering a run because of an unexpected error."""
        return key in self._faulty_runs

    def stop(self) -> None:
        """Stop delivering. The outbox keeps the rest."""
        self._is_over = True
        for task in self._active.values():
            task.cancel()

    def give_up(self, key: RunKey, reason: str) -> None:
        """Drop the events of a run that the coordinator no longer accepts."""
        if key not in self._unwanted:
            self._unwanted.add(key)
            self._log.warning("run was revoked", run_id=key.run_id, attempt=key.attempt, reason=reason)
            self.on_lost(key)

    async def _deliver(self, key: RunKey) -> None:
        has_ended = False
        try:
            while (batch := await self._next_batch(key)) is not None:
                await self._hand_over(batch)
                has_ended = batch.ends
                self.on_progress()
            if has_ended:
                self._unwanted.discard(key)
                self._summaries.pop(key, None)
                instead = self._told_instead.pop(key, None)
                if self.on_delivered is not None:
                    await self.on_delivered(key, instead)
        except (CoordinatorUnusable, OutboxError, asyncio.CancelledError):
            self._is_over = True  # the group ends, too, and accepts no more tasks
            raise
        except Exception as error:  # noqa: BLE001  # the outermost frame of a run's delivery: the others go on
            log_mishap(self._log, "delivery of a run stops; its events stay in the outbox", key.run_id, error)
            self._faulty_runs.add(key)
            self.on_lost(key)
        finally:
            del self._active[key]

    async def _next_batch(self, key: RunKey) -> Batch | None:
        while True:
            try:
                return await self.read(lambda: self._outbox.next_batch(key, max_events=MOST_EVENTS))
            except RecordDamaged as error:
                self._log.error("events are lost: the outbox is damaged", run_id=key.run_id, reason=str(error))
                self._outbox.acknowledge(key, error.to_seq, self._summaries.get(key, RunSummary()).to_note())

    async def _hand_over(self, batch: Batch) -> None:
        key, lines = batch.key, batch.lines
        ordinary = lines[:-1] if batch.ends else lines
        done = 0
        try:
            while key not in self._unwanted and done < len(ordinary):
                part = EventBatch(key, batch.first_seq + done, ordinary[done:])
                taken = await self.persist(lambda part=part: self._taken(part))  # type: ignore[misc]
                self._acknowledge(key, part.first_seq + taken - 1, part.lines[:taken])
                done += taken
            if key not in self._unwanted and batch.ends:
                await self._end(key, batch.last_seq, lines[-1])
                done += 1
        except LeaseLost as error:
            self.give_up(key, error.reason)
        self._acknowledge(key, batch.last_seq, lines[done:])

    async def _end(self, key: RunKey, seq: int, line: bytes) -> None:
        stays = self.stays is not None and await self.stays(key)
        try:
            await self.persist(lambda: self._kept_apart(key, self._coordinator.terminal(key, seq, line, stays=stays)))
        except Refused as error:
            path = self._set_aside(key, seq, line, error)
            unknown = ExecutorIdentity(name="unknown", version="unknown")
            identity = RunIdentity(key.run_id, self._summaries.get(key, RunSummary()).session_id, unknown)
            await self._end_instead(key, seq, *failure_instead_of(line, identity, seq, error.reason, path))
        self._acknowledge(key, seq, [line])

    async def _end_instead(self, key: RunKey, seq: int, failure: Failure, line: bytes) -> None:
        sentence = "run ended as failed: coordinator rejects its own end"
        try:
            await self.persist(lambda: self._kept_apart(key, self._coordinator.terminal(key, seq, line)))
        except Refused as error:
            self._set_aside(key, seq, line, error)
            sentence = "coordinator rejects every end of the run"
        self._told_instead[key] = failure
        how = {"outcome": failure.status, "error_type": failure.error.type}
        self._log.error(sentence, run_id=key.run_id, attempt=key.attempt, **how)

    async def _taken(self, part: EventBatch) -> int:
        """Send events and return how many are acknowledged: at least one."""
        try:
            through = await self._kept_apart(part.key, self._coordinator.events(part))
        except Refused as error:
            if len(part.lines) > 1 and isinstance(error, _Faulty):  # one of them causes the error
                return await self._taken(EventBatch(part.key, part.first_seq, part.lines[:1]))
            self._set_aside(part.key, part.first_seq, part.lines[0], error)
            return 1
        if through < part.first_seq:
            raise CoordinatorUnavailable("", f"it says to hold events up to {through} only, not {part.first_seq}")
        return min(through, part.last_seq) - part.first_seq + 1

    async def _kept_apart(self, key: RunKey, call: Awaitable[Returned]) -> Returned:
        """Treat an unexpected error in a call as a refusal of the events, so that the run continues and ends.

        Raises:
            _Faulty: in place of an error that the port does not define.
        """
        try:
            return await call
        except RunnerError:
            raise
        except Exception as error:
            log_mishap(self._log, "an event cannot be handed over", key.run_id, error)
            raise _Faulty("an event", f"internal error of the worker: {type(error).__name__}") from error

    def _acknowledge(self, key: RunKey, through_seq: int, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        self._summaries[key] = self._summaries.get(key, RunSummary()).after(lines)
        self._outbox.acknowledge(key, through_seq, self._summaries[key].to_note())

    async def persist(self, call: Callable[[], Awaitable[Returned]], unless: asyncio.Event | None = None) -> Returned:
        """Call the coordinator, and retry while it is not available.

        Raises:
            CoordinatorUnavailable: it is not available, and `unless` is set.
        """
        backoff, unless = Backoff(), unless or asyncio.Event()
        while True:
            try:
                returned = await call()
            except CoordinatorUnavailable as error:
                if self.is_reaching:
                    self._log.warning("coordinator is not available; trying again", reason=error.reason)
                self.is_reaching, self.is_hopeless = False, error.is_damaged
                if unless.is_set():
                    raise
                with suppress(TimeoutError):
                    await asyncio.wait_for(unless.wait(), backoff.next_seconds(error.retry_after_seconds))
            else:
                if not self.is_reaching:
                    self._log.info("coordinator is available again")
                self.is_reaching, self.is_hopeless = True, False
                return returned

    async def read(self, read: Callable[[], Returned]) -> Returned:
        """Return the result of `read`; retry while the disk cannot be read."""
        try:
            return read()
        except OutboxUnreadable as error:
            if not self.unreadable_runs:
                self._log.error("outbox cannot be read; trying again", reason=error.reason)
        self.unreadable_runs += 1
        backoff = Backoff()
        try:
            while True:
                await asyncio.sleep(backoff.next_seconds())
                with suppress(OutboxUnreadable):
                    returned = read()
                    break
        finally:
            self.unreadable_runs -= 1
        if not self.unreadable_runs:
            self._log.info("outbox can be read again")
        return returned

    def _set_aside(self, key: RunKey, seq: int, line: bytes, error: Refused) -> Path | None:
        """Write refused events to a file for a person to look at, and return its path."""
        path = self._folder / REFUSED_NAME
        where = {"run_id": key.run_id, "attempt": key.attempt, "seq": seq, "reason": error.reason}
        self._log.error("coordinator refuses an event; it is set aside", path=str(path), **where)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(descriptor, "ab") as file:  # noqa: PTH123  # a descriptor
                file.write(json.dumps(where).encode() + b"\n" + line + b"\n")
        except OSError as failed:
            self._log.error("the event cannot be set aside either, and is lost", reason=str(failed), **where)
            return None
        return path


def failure_instead_of(
    line: bytes, identity: RunIdentity, seq: int, reason: str, set_aside: Path | None
) -> tuple[Failure, bytes]:
    """Return the failure that takes the place of a terminal event, and its line, which has that event's `seq`.

    Args:
        line: The event that is refused.
        identity: Whose it is, where it does not say so itself.
        seq: Its number.
        reason: Why it is refused.
        set_aside: The file that holds it; None where it could not be written.
    """
    try:
        refused = decode_object(line)
    except NotIJson:  # a line that is not an event is refused, too
        refused = {}
    kept = "could not be saved" if set_aside is None else f"was saved in {set_aside}"
    message = f"the coordinator rejected the {refused.get('event_type', 'last event')} of the run, which {kept}; "
    message += f"its reason: {reason[:300]}"
    failure = failed(ErrorType.INTERNAL_ERROR, message, origin="runner")
    if isinstance(session_id := refused.get("session_id"), str):
        identity = identity._replace(session_id=session_id)
    return failure, as_event_of(identity, seq, failure, None, timestamp).line


def take_outbox(places: Path, options: OutboxOptions) -> Outbox:
    """Own the first free outbox folder.

    Raises:
        OutboxUnusable: the folder cannot be read or written.
        StateDamaged: it is damaged, and the coordinator does not know the runs in it.
        OutboxBusy: a thousand workers own one already.
    """
    make_private(places)
    for number in range(1000):
        folder = places / str(number)
        try:
            return Outbox(folder, options)
        except OutboxBusy:
            continue
    raise OutboxBusy(places)


def left_behind(places: Path) -> list[Path]:
    """Return the outboxes that have no owner and still hold events."""
    return list(filter(is_left_behind, sorted(places.iterdir()))) if places.is_dir() else []


async def recover_orphans(coordinator: Coordinator, places: Path, options: OutboxOptions, log: WorkerLog) -> None:
    """Take over the outboxes of dead workers, now and whenever a worker dies. Does not return."""
    while True:
        with suppress(OSError):  # no free descriptor; the next look finds the same
            for folder in left_behind(places):
                try:
                    outbox = Outbox(folder, options)
                except OutboxBusy:
                    continue
                except (OutboxUnusable, StateDamaged) as error:
                    log.error("events of a dead worker cannot be delivered", reason=str(error))  # noqa: TRY400  # not a bug of this program
                    continue
                await deliver_left_behind(outbox, Delivery(coordinator, outbox, places, log), log)
        await asyncio.sleep(ADOPT_SECONDS)


async def deliver_left_behind(outbox: Outbox, delivery: Delivery, log: WorkerLog) -> None:
    """Own the outbox of a dead worker, add missing terminal events, and deliver all of it."""
    try:
        with outbox:
            async with asyncio.TaskGroup() as group:
                delivery.attach(group)
                wake_left_over(outbox, delivery, log)
    except* (OutboxUnreadable, OutboxUnwritable) as group:
        log.warning("events of a dead worker cannot be delivered yet", reason=str(group.exceptions[0]))


def wake_left_over(outbox: Outbox, delivery: Delivery, log: WorkerLog) -> None:
    """Write missing terminal events, and deliver all durable events.

    Raises:
        OutboxUnwritable: the terminal events cannot be written.
        OutboxUnreadable: the events before them cannot be read.
    """
    if outbox.damage is not None:
        log.error("outbox was damaged", damage=outbox.damage)
    for key in end_unended(outbox):
        log.warning("run was lost with its worker", run_id=key.run_id, attempt=key.attempt)
    outbox.sync()
    for state in outbox.open_keys():
        delivery.resume(state)


def end_unended(outbox: Outbox) -> list[RunKey]:
    """Append a terminal event to every run without one, and return these runs. Nothing is durable before `sync`.

    Raises:
        OutboxUnreadable: the events before the end cannot be read.
    """
    unended = [state for state in outbox.open_keys() if not state.has_terminal]
    for state in unended:
        ending = ending_behind(outbox, state, lost_runs.lost_after(state.durable_seq))
        outbox.append(state.key, state.durable_seq + 1, ending, ends=True)
    return [state.key for state in unended]


def ending_behind(outbox: Outbox, state: KeyState, failure: Failure) -> list[bytes]:
    """Return the events that end a run after its durable ones: ends of open tool calls, and the failure.

    Raises:
        OutboxUnreadable: the durable events cannot be read now.
    """
    summary = RunSummary.from_note(state.note)
    seq = state.acknowledged_seq
    while seq < state.durable_seq:
        try:
            batch = outbox.next_batch(state.key, after_seq=seq)
        except RecordDamaged as error:
            seq = error.to_seq  # delivery reports it
            continue
        if batch is None:
            break
        summary, seq = summary.after(batch.lines), batch.last_seq
    ending = lost_runs.ending_behind(state.key.run_id, state.durable_seq, summary, failure, timestamp)
    return [item.line for item in ending]


def oldest_age_seconds(outbox: Outbox) -> float:
    """Return the age of the oldest undelivered event by its own timestamp; 0 if all are delivered."""
    waiting = (state for state in outbox.open_keys() if state.durable_seq != state.acknowledged_seq)
    ages = [0.0]
    for state in islice(waiting, MOST_LATE_RUNS):
        try:
            batch = outbox.next_batch(state.key, max_events=1)
        except (RecordDamaged, OutboxUnreadable):
            continue  # delivery reports it
        if batch is not None:
            ages.append(seconds_since(json.loads(batch.lines[0])["timestamp"], datetime.now(UTC)))
    return max(ages)

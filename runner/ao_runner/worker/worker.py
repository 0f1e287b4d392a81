"""A worker: take over outboxes, then claim, perform, deliver and renew leases concurrently, and drain.

It brings the parts together and decides for each run what they do next. One thread and one event loop carry all runs.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from ao_protocol.errors import ErrorType
from ao_protocol.events import Failure, Terminal
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import (
    Assignment,
    Backoff,
    Coordinator,
    CoordinatorUnavailable,
    CoordinatorUnusable,
    LeaseLost,
    Orders,
)
from ao_runner.errors import RunnerError
from ao_runner.outbox.events_of_key import KeyState
from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.outbox.outbox_errors import OutboxUnwritable
from ao_runner.profiles import InputWait
from ao_runner.run_events import RunKey
from ao_runner.runs.attempt import Launcher
from ao_runner.runs.input_requests import InputPolicy, InputRequests
from ao_runner.runs.outcome import failed
from ao_runner.runs.run import perform_run
from ao_runner.store.records import RunRecord
from ao_runner.worker.assignment import Host, served_order
from ao_runner.worker.claiming import Claiming, Needs
from ao_runner.worker.delivery import Delivery, ending_behind, oldest_age_seconds, recover_orphans, wake_left_over
from ao_runner.worker.held_runs import HeldRun, HeldRuns, Leases
from ao_runner.worker.log import WorkerLog, log_mishap
from ao_runner.worker.observers import Observer
from ao_runner.worker.spooling import SpooledJournal, Spooler

LAST_DELIVERY_SECONDS: Final = 10.0
"""How long a worker continues to deliver after a second stop request, or if the store is damaged."""
FLUSH_SECONDS: Final = 1.0
"""How often acknowledgements become durable. Those lost in a crash are delivered again, with the same `seq`."""


@dataclass(frozen=True, slots=True)
class ExitSummary:
    """What is left when a worker exits."""

    cancelled_runs: int = 0
    undelivered_runs: int = 0
    refused_lines: int = 0
    """How many lines of a coordinator that reads lines were invalid."""
    is_ordered: bool = False
    """Whether the coordinator has ordered it."""


@dataclass
class Worker:
    """Await `work` once. `stop` may be called meanwhile, from the same event loop.

    The caller creates the coordinator, the outbox and the launcher. The coordinator is opened and closed here.
    """

    coordinator: Coordinator
    outbox: Outbox
    folder: Path
    """The folder of the outboxes for this coordinator."""
    launcher: Launcher
    host: Host
    log: WorkerLog
    concurrency: int = 4
    needs: Needs = field(default_factory=Needs)
    outbox_options: OutboxOptions = field(default_factory=OutboxOptions)
    until_idle: bool = False
    """Whether to exit as soon as there is nothing to do, for scripts."""
    observers: Sequence[Observer] = ()

    def __post_init__(self) -> None:
        self.held = HeldRuns()
        self._stops = 0
        self._is_ordered = False
        self._cancelled = 0
        self._left_sessions: asyncio.Queue[str] = asyncio.Queue()
        self._connecting: asyncio.Timeout | None = None
        self._delivery = Delivery(self.coordinator, self.outbox, self.folder, self.log)
        self._spooler = Spooler(self.outbox, self.log, self._delivery.wake)
        self._delivery.on_progress, self._delivery.on_lost = self._spooler.has_delivered, self._on_lost
        self._delivery.on_delivered, self._delivery.stays = self._on_delivered, self._stays
        self._claiming = Claiming(
            self.coordinator, self._spooler, self.held, self.folder, self.log, self.concurrency, self.needs
        )
        backlog = partial(oldest_age_seconds, self.outbox)
        self._leases = Leases(self.coordinator, self.held, self.log, self._obey, self._fence_all, backlog)

    async def work(self) -> ExitSummary:
        """Work until `stop` is called and nothing is left to do, and return what is left.

        Raises:
            CoordinatorUnusable: the coordinator can never be used.
        """
        if not await self._is_connected():
            return ExitSummary(self._cancelled, len(self.outbox.open_keys()))
        try:
            async with asyncio.TaskGroup() as group:
                self._delivery.attach(group)
                try:
                    await self._serve(group)
                finally:
                    self._delivery.stop()
        except BaseExceptionGroup as group:
            raise _reason(group) from group
        finally:
            await self.coordinator.__aexit__(None, None, None)
        return ExitSummary(self._cancelled, len(self.outbox.open_keys()), is_ordered=self._is_ordered)

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        wake_left_over(self.outbox, self._delivery, self.log)
        adopting = recover_orphans(self.coordinator, self.folder, self.outbox_options, self.log)
        steps = (self._listen(), self._leases.keep(), self._flush(), self._tell_of_left_sessions(), adopting)
        helpers = [group.create_task(step) for step in steps]
        await self._claiming.claim_runs(lambda one: self._take(one, group), self._is_idle if self.until_idle else None)
        while self.held.in_slots:
            await self.held.changed()
        await self._deliver_the_rest()
        for helper in helpers:
            helper.cancel()

    @property
    def trouble(self) -> str | None:
        """Why runs do not progress here, in a few words; None if they do."""
        if self._claiming.draining.is_set():
            return "draining"
        if self.unreadable_runs:
            return "the outbox cannot be read"
        return "the outbox takes no more events" if self._spooler.is_full else None

    @property
    def unreadable_runs(self) -> int:
        """How many runs have events that cannot be read from the disk now."""
        return self._delivery.unreadable_runs

    def is_full(self) -> bool:
        """Return whether no further run begins now: each slot is taken, or the worker drains."""
        return self.held.in_slots >= self.concurrency or self._claiming.draining.is_set()

    def session_left(self, session_id: str) -> None:
        """Notify the coordinator that no process waits for a session any more."""
        self._left_sessions.put_nowait(session_id)

    def stop(self) -> None:
        """Drain at the first call, cancel the runs at the second, kill them at the third."""
        self._stops += 1
        if self._stops == 1:
            self._drain("stop requested: finishing active runs; request it again to cancel them")
            return
        self._claiming.hurry.set()
        if self._connecting is not None:
            self._connecting.reschedule(asyncio.get_running_loop().time())
            self._connecting = None
        running = [held for held in self.held if held.takes_a_slot]  # one whose start is being reported, too
        self._cancelled = max(self._cancelled, len(running))
        self.log.warning("cancelling active runs" if self._stops == 2 else "killing active runs", runs=len(running))
        for held in running:
            held.stops.request("shutdown")
        self.held.tell_change()

    async def _is_connected(self) -> bool:
        """Open the coordinator, with retries. Return false if `stop` comes first; a second `stop` interrupts a call."""
        backoff = Backoff()
        while not self._claiming.draining.is_set():
            try:
                async with asyncio.timeout(None) as self._connecting:
                    await self.coordinator.__aenter__()
            except TimeoutError:
                break
            except CoordinatorUnavailable as error:
                self.log.warning("coordinator is not available; trying again", reason=error.reason)
                await self._claiming.pause(backoff.next_seconds(error.retry_after_seconds))
            else:
                return True
            finally:
                self._connecting = None
        return False

    def _take(self, assignment: Assignment, group: asyncio.TaskGroup) -> None:
        key = assignment.key
        if key in self.held.runs or self.held.has_ended(key) or self.outbox.knows(key):
            self.log.warning("run was assigned twice; it is performed once", run_id=key.run_id, attempt=key.attempt)
            return
        held = HeldRun(assignment, SpooledJournal(key, self._spooler, self.log))
        self.held.add(held)
        self._tell_observers(held, lambda observer: observer.run_claimed(held))
        group.create_task(self._perform(held))

    async def _perform(self, held: HeldRun) -> None:
        try:
            if not await self._may_begin(held):
                self.held.drop(held.key)
                return
            held.phase = "running"
            self._tell_observers(held, lambda observer: observer.run_begins(held))
            held.inputs = self._inputs_of(held)
            async with served_order(held.assignment, self.host, held.journal.note, held.inputs) as request:
                terminal = await perform_run(request, held.journal, held.stops, self.launcher)
        except CoordinatorUnusable:
            raise
        except Exception as error:  # noqa: BLE001  # the outermost frame of a run: a fault in one must not end the others
            log_mishap(self.log, "an internal error of the worker ended a run", held.key.run_id, error)
            terminal = await self._end_after_mishap(held, error)
        if held.ends_session:
            self.launcher.retire_session(held.assignment.run.session_id)
        held.phase = "delivering"
        held.terminal = held.terminal or terminal  # the failure in place of a refused end exists already
        self.held.tell_change()
        self._tell_observers(held, lambda observer: observer.run_ended(held, terminal_of(held)))
        if self._delivery.has_given_up(held.key):
            self.held.drop(held.key)

    def _inputs_of(self, held: HeldRun) -> InputRequests | None:
        """Return the requests of a run to a person; None if its profile does not let it ask, or is not valid."""
        wait = None
        with suppress(RunnerError):
            wait = self.host.profile_of(held.assignment).input
        if not isinstance(wait, InputWait):
            return None

        async def decide(request_id: str, answer: JsonObject) -> JsonObject:
            return await self._delivery.persist(lambda: self.coordinator.decide(held.key, request_id, answer))

        return InputRequests(InputPolicy(wait.wait_seconds, wait.then), decide, held.stops.request)

    async def _end_after_mishap(self, held: HeldRun, error: Exception) -> Failure:
        """End a run after its stored events, unless its terminal event exists, and return the terminal event."""
        message = f"internal error of the runner: {type(error).__name__}; see the worker's log"
        failure = failed(ErrorType.INTERNAL_ERROR, message, origin="runner")
        if not held.journal.has_ended:
            self._spooler.sync()
            known = (state for state in self.outbox.open_keys() if state.key == held.key)
            state = next(known, KeyState(held.key, 0, 0, has_terminal=False, note=held.summary.to_note()))
            ending = await self._delivery.read(lambda: ending_behind(self.outbox, state, failure))
            self._spooler.append(held.key, state.durable_seq + 1, ending, ends=True)
        held.journal.record = RunRecord(argv=(), problems=(message,), problem_count=1)
        return failure

    def _tell_observers(self, held: HeldRun, tell: Callable[[Observer], None]) -> None:
        for observer in self.observers:
            try:
                tell(observer)
            except Exception as error:  # noqa: BLE001  # none of them may delay a run
                log_mishap(self.log, "an observer of the worker failed", held.key.run_id, error)

    async def _may_begin(self, held: HeldRun) -> bool:
        """Call `started` of the coordinator, which has to return before anything else is reported of the run.

        A run that did not begin before its lease expires, or before this worker drains, is given back. A draining
        worker begins it if no other worker would get it, unless it has to hurry.
        """

        async def begin() -> bool:
            is_expired = held.stops.is_fenced and held.assignment.lease_seconds is not None
            claiming = self._claiming
            if is_expired or claiming.hurry.is_set() or (claiming.draining.is_set() and self.coordinator.hands_on):
                await self.coordinator.release(held.key, None)
                return False
            await self.coordinator.started(held.key)
            return True

        try:
            if not await self._delivery.persist(begin, unless=self._claiming.hurry):
                return False
        except (LeaseLost, CoordinatorUnavailable) as error:
            self.log.warning("run not started", run_id=held.key.run_id, reason=error.reason)
            return False
        # A note of the run, so that it ends even if this worker dies before its first event.
        with suppress(OutboxUnwritable):  # the terminal event retries it
            self.outbox.expect(held.key, held.summary.to_note())
        return True

    async def _listen(self) -> None:
        backoff = Backoff()
        while True:
            try:
                self._obey(await self.coordinator.orders())
                backoff = Backoff()
            except CoordinatorUnavailable as error:
                await asyncio.sleep(backoff.next_seconds(error.retry_after_seconds))
            except RunnerError:
                raise
            except Exception as error:  # noqa: BLE001  # invalid orders must not end the runs
                log_mishap(self.log, "orders of the coordinator cannot be read", "", error)
                await asyncio.sleep(backoff.next_seconds())

    def _obey(self, orders: Orders) -> None:
        for held in self.held:
            if held.key in orders.lost and held.takes_a_slot:
                self._delivery.give_up(held.key, "revoked by the coordinator")
        self.held.cancel(orders.cancel_runs, orders.cancel_sessions)
        for answer in orders.answers:
            for held in self.held:
                if held.key.run_id == answer.run_id and held.inputs is not None:
                    held.inputs.receive(answer.request_id, answer.answer)
        for session_id in orders.cancel_sessions:
            if not self.held.of_session(session_id):
                self.launcher.retire_session(session_id)
                self.session_left(session_id)  # also if there was none: the coordinator waits for the answer
        if orders.drain:
            self._is_ordered = True
            self._drain("requested by the coordinator")

    async def _stays(self, key: RunKey) -> bool:
        """Return whether the process of an ended run waits for the session's next run."""
        if (held := self.held.runs.get(key)) is None:
            return False
        with suppress(Exception):  # an invalid profile has ended the run already
            if self.host.profile_of(held.assignment).lifecycle != "persistent":
                return False
        while held.phase != "delivering":
            await self.held.changed()
        return self.launcher.keeps(held.assignment.run.session_id)

    async def _tell_of_left_sessions(self) -> None:
        while True:
            session_id = await self._left_sessions.get()
            if self.held.of_session(session_id):
                continue
            try:
                await self._delivery.persist(lambda session_id=session_id: self.coordinator.session_left(session_id))  # type: ignore[misc]
            except CoordinatorUnusable:
                raise
            except Exception as error:  # noqa: BLE001  # an error of one session must not end the runs of others
                log_mishap(self.log, "a session that was left cannot be told", "", error)

    def _on_lost(self, key: RunKey) -> None:
        if (held := self.held.runs.get(key)) is not None:
            self._tell_observers(held, lambda observer: observer.lease_lost(held))
            held.stops.fence()
            if self._delivery.has_given_up(key) and not held.takes_a_slot:
                self.held.drop(key)

    def _fence_all(self, reason: str) -> None:
        for held in self.held:
            if held.takes_a_slot and held.assignment.lease_seconds is not None and not held.stops.is_fenced:
                self.log.error("lease expires; stopping the run", run_id=held.key.run_id, reason=reason)
                held.stops.fence()

    async def _on_delivered(self, key: RunKey, instead: Failure | None) -> None:
        """Release a run whose last event is delivered, once its process has ended, too."""
        self.held.note_end(key)
        if (held := self.held.runs.get(key)) is None:
            return
        held.terminal = instead or held.terminal
        while held.phase != "delivering":
            await self.held.changed()
        self._tell_observers(held, lambda observer: observer.end_delivered(held, terminal_of(held)))
        await self._delivery.persist(lambda: self.coordinator.release(key, held.journal.record))
        self.held.drop(key)

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            with suppress(OutboxUnwritable):
                self.outbox.flush_state()
                self._spooler.has_delivered()

    def _drain(self, reason: str) -> None:
        if not self._claiming.draining.is_set():
            self.log.info("draining", reason=reason, runs=self.held.in_slots)
            self._claiming.draining.set()
            self.coordinator.drain()

    def _is_idle(self) -> bool:
        return not (self.held.in_slots if self._delivery.is_hopeless else len(self.held))

    async def _deliver_the_rest(self) -> None:
        """Deliver the rest; for a limited time after a second `stop`, or if the coordinator cannot be used."""
        loop = asyncio.get_running_loop()
        ends_at: float | None = None
        while self._spooler.has_unwritten or not self._delivery.is_idle:
            if self._stops > 1 or self._delivery.is_hopeless:
                ends_at = ends_at or loop.time() + LAST_DELIVERY_SECONDS
            if ends_at is not None and loop.time() >= ends_at:
                return
            await asyncio.sleep(0.02)


def terminal_of(held: HeldRun) -> Terminal:
    """Return the terminal event of a delivered run."""
    assert held.terminal is not None, "it is set before"  # noqa: S101
    return held.terminal


def _reason(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the message for failed tasks: the sentence of a runner's error, or the traceback of a bug."""
    expected, unexpected = group.split(RunnerError)
    if expected is None or unexpected is not None:
        return group
    first: BaseException = expected
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first

"""The coordinator of a store: its queue, sessions and events, which several workers share, on one host or on many."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self, TypeVar

from ao_protocol.errors import ErrorType
from ao_protocol.events import REQUEST_EVENTS, Failure, Result, parse_event
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.group_commit import GroupCommit, unavailable
from ao_runner.coordinators.inbox import AskedRequests, new_stops
from ao_runner.coordinators.port import (
    Assignment,
    Coordinator,
    CoordinatorUnavailable,
    EventBatch,
    InputAnswer,
    LeaseLost,
    Orders,
    Refused,
)
from ao_runner.run_events import RunKey
from ao_runner.runs.input_requests import PARKED
from ao_runner.runs.lost_runs import RunSummary, end_lost_run, ending_behind, fail_lost_runs, fail_stranded_runs
from ao_runner.runs.outcome import failed
from ao_runner.runs.projection import Ended, project_end, project_lines
from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import LOOK_SECONDS, Wakeup
from ao_runner.store.records import RunRecord, seconds_since, timestamp
from ao_runner.store.store import Store
from ao_runner.store.store_errors import BEHIND, NotHeld, RowDamaged, StoreUnreachable, StoreUnusable, StoreUnwritable
from ao_runner.store.worker_table import ClaimedRun, Fleet, Offer

LOOKS_PER_LEASE: Final = 3
"""How often a worker looks for the runs of dead workers, also without a free slot."""
ASK_AGAIN_SECONDS: Final = 10.0
BUSY_SECONDS: Final = 0.25
"""How long the event loop waits for another writer of the file before it continues and tries again later."""

Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class SharedStore:
    """An open store that the coordinators of several workers share. Its owner ends the runs of dead workers."""

    store: Store
    commits: GroupCommit
    wakeup: Wakeup


class StoreCoordinator(Coordinator):
    """See `ao_runner.coordinators.port.Coordinator`. `offer.owner` must be alive, see `ao_runner.store.ownership`.

    Calls of a server run in a thread of their own, so that a slow network delays no other work of the event loop.
    `tell` receives a sentence about each queued run that cannot be read, and about what a server has lost.
    `held` are the runs that the worker has claimed from an earlier coordinator of the same store.
    """

    def __init__(
        self,
        place: StorePlace | SharedStore,
        offer: Offer,
        tell: Callable[[str], None] = lambda _: None,
        held: Sequence[RunKey] = (),
    ) -> None:
        self._place = place
        self._tell = tell
        self._offer = offer
        self._resources = AsyncExitStack()
        self._told_stops: dict[str, int] = {}
        self._asked = AskedRequests()
        self._acknowledged: dict[RunKey, int] = dict.fromkeys(held, 0)
        self._not_held: frozenset[tuple[str, int]] = frozenset()
        self._to_end: frozenset[tuple[str, int]] = frozenset()
        self._look_at = 0.0

    async def __aenter__(self) -> Self:
        if isinstance(self._place, SharedStore):
            self._store, self._commits, self._wakeup = self._place.store, self._place.commits, self._place.wakeup
            await self._commits.do(lambda: self._store.workers.join(self._offer))
            return self
        opening = partial(self._place.open, BUSY_SECONDS)
        try:
            store = opening() if self._place.is_local else await asyncio.to_thread(opening)
        except StoreUnreachable as error:
            raise CoordinatorUnavailable(self._place.name, str(error)) from error
        async with AsyncExitStack() as resources:
            self._store = resources.enter_context(store)
            thread = resources.enter_context(ThreadPoolExecutor(1)) if store.waits_for_a_server else None
            self._commits = GroupCommit(self._store, thread)
            self._wakeup = await resources.enter_async_context(store.listening(self._offer.owner, self._tell))
            await self._commits.do(lambda: store.workers.join(self._offer))
            self._resources = resources.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(CoordinatorUnavailable):
            await self._commits.do(lambda: self._store.workers.leave(self._offer.owner))
        await self._resources.aclose()

    async def claim(self, slots: int) -> Sequence[Assignment]:
        """Claim runs. If there are none, wait for a notification.

        On one host, end the runs of dead workers before. Of many hosts, each would do so at each notification.
        """
        until = asyncio.get_running_loop().time() + ASK_AGAIN_SECONDS
        while True:
            claimed = await self.claim_now(slots)
            if claimed or asyncio.get_running_loop().time() >= until:
                return claimed
            if not self._store.waits_for_a_server:
                await self._end_lost_runs()
            await self._wakeup.wait(LOOK_SECONDS)

    async def started(self, key: RunKey) -> None:
        """Record that the run begins."""
        owner, host = self._owner(key), self._offer.host
        store = self._store
        await self._held(key, lambda: store.queue.begin(key.run_id, key.attempt, timestamp(store.now()), owner, host))

    async def events(self, batch: EventBatch) -> int:
        """Store events, and what they report: the executor's own id of the session, usage, requests to a person."""
        key, owner = batch.key, self._owner(batch.key)

        def keep() -> tuple[int, list[JsonObject]]:
            last = self._store.events.add_of_attempt(key.run_id, key.attempt, batch.first_seq, batch.lines, owner)
            is_repetition = last != batch.last_seq
            return last, [] if is_repetition else project_lines(self._store, key.run_id, batch.lines)

        last, changing = await self._held(key, keep)
        self._asked.note(key.run_id, changing)
        if any(event["event_type"] in REQUEST_EVENTS for event in changing):
            self._wakeup.notify()  # somebody may watch for requests
        self._note_acknowledged(key, last)
        return last

    async def terminal(self, key: RunKey, seq: int, line: bytes, *, stays: bool = False) -> None:
        """Store the event and end the run in one transaction. A repetition changes nothing.

        If an outbox has lost events that are stored here, the number of its end is one of theirs. Then the run ends as
        lost, behind them.
        """
        body = parse_event(line).body
        if not isinstance(body, Result | Failure):
            raise Refused(f"event {seq} of run {key.run_id}", f"{body.event_type} is not a terminal event")

        owner = self._owner(key)

        def end() -> Ended:
            stored = self._store.events.last_seq(key.run_id)
            if stored == seq and self._store.events.last_line(key.run_id) == line.decode():
                return Ended(is_awaited=False, pause=None)
            if stored >= seq:
                if self._end_as_lost(key):
                    return Ended(self._store.deliveries.is_end_awaited(key.run_id), None)
                self._store.runs.check_held(key.run_id, key.attempt, owner)
            self._store.events.add_of_attempt(key.run_id, key.attempt, seq, [line], owner)
            return project_end(self._store, key.run_id, body, self._offer.pausing)

        ended = await self._held(key, end)
        if ended.pause is not None:
            self._tell(ended.pause)
        if ended.is_awaited:
            # Let servers announce the end at once. They also poll, so that it does not matter if this fails.
            with suppress(StoreUnusable, StoreUnwritable, OSError):
                await self._commits.alone(self._store.notify)
        self._note_acknowledged(key, seq)
        self._acknowledged.pop(key, None)
        self._wakeup.notify()  # the session may have another run waiting

    async def heartbeat(self, held: Sequence[RunKey], outbox_seconds: float = 0.0) -> Orders:
        """Extend the leases, and do nothing else: on a busy server each call waits, and a late answer ends the runs."""
        offer = self._offer
        kept = await self._commits.do(
            lambda: self._store.workers.renew_leases(offer.owner, offer.lease_seconds, outbox_seconds)
        )
        for key in held:
            if (key.run_id, key.attempt) not in kept and await self._takes_back(key):
                kept.add((key.run_id, key.attempt))
        not_held = frozenset(kept) - {(key.run_id, key.attempt) for key in held}
        # One heartbeat may find a claim that is still being answered.
        self._to_end, self._not_held = not_held & self._not_held, not_held
        return Orders(lost=frozenset(key for key in held if (key.run_id, key.attempt) not in kept))

    async def orders(self) -> Orders:
        """Wait for requests to stop a run or to drain, and end the runs of dead workers some times in a lease."""
        await self._wakeup.wait(LOOK_SECONDS)
        now = asyncio.get_running_loop().time()
        if now >= self._look_at:
            self._look_at = now + self._offer.lease_seconds / LOOKS_PER_LEASE
            await self._end_lost_runs()
            if self._store.waits_for_a_server:
                await self.end_not_held()
        requests = await self._read(lambda: self._store.workers.requests_to(self._offer.owner))
        found = await self._read(lambda: self._store.inputs.answers_for(self._offer.owner)) if self._asked else ()
        answers = self._asked.take([InputAnswer(one.run_id, one.request_id, one.answer or {}) for one in found])
        stops = new_stops(requests.stops, self._told_stops)
        return Orders(cancel_runs=stops, answers=answers, drain=requests.drain)

    async def decide(self, key: RunKey, request_id: str, answer: JsonObject) -> JsonObject:
        """Store an answer unless there is one, or park the request; see `ao_runner.runs.input_requests.Decide`."""
        given = None if answer == PARKED else answer
        decide = partial(self._store.inputs.decide, key.run_id, request_id, given, timestamp())
        return await self._commits.do(decide) or PARKED

    async def release(self, key: RunKey, record: RunRecord | None) -> None:
        """Store the record of a run that has ended, or return one that has not begun to the queue."""
        if record is None:
            await self._commits.do(lambda: self._store.queue.give_back(key.run_id, key.attempt))
        else:
            await self._commits.do(lambda: self._store.runs.add_record(key.run_id, record))
        self._told_stops.pop(key.run_id, None)
        self._asked.forget(key.run_id)
        self._acknowledged.pop(key, None)

    async def fleet(self) -> Fleet:
        """Return the load of the store and the number of its workers."""
        return await self._commits.alone(self._store.workers.fleet)

    async def _end_lost_runs(self) -> None:
        """End them, unless the store cannot be written now, which heartbeats report, or no descriptor is left."""
        if isinstance(self._place, SharedStore):
            return
        with suppress(StoreUnusable, StoreUnwritable, OSError):
            await self._commits.alone(lambda: fail_lost_runs(self._store))
            if self._store.waits_for_a_server:
                await self._commits.alone(lambda: fail_stranded_runs(self._store, self._offer.gone_seconds))

    async def end_not_held(self) -> None:
        """End the runs that the store ascribes to this worker, and that it does not perform.

        The answer to their claim was lost, or the server has gone back to a time before their end.
        """
        again, self._to_end = self._to_end, frozenset()
        for run_id, attempt in again:
            await self._commits.do(partial(self._end_as_lost, RunKey(run_id, attempt)))
            self._tell(
                f"the store says that this worker performs run {run_id}, which it does not: the run ends as"
                " attempt_lost, or is queued again if it had not begun"
            )

    def _end_as_lost(self, key: RunKey) -> bool:
        """End an attempt that nobody performs, and return whether it was running."""
        with suppress(RowDamaged):
            for state in self._store.runs.find(key.run_id):
                if (state.run.run_id, state.attempt, state.run.status) == (key.run_id, key.attempt, "running"):
                    end_lost_run(self._store, state)
                    return True
        return False

    def _note_acknowledged(self, key: RunKey, seq: int) -> None:
        """Remember the last acknowledged event, and tell if the server lost some of those acknowledged before.

        Only of runs that this worker has claimed, and not of those that a dead one has left in its outbox.
        """
        stored = self._store.events.gaps.pop(key.run_id, None)
        if stored is not None and stored < (acknowledged := self._acknowledged.get(key, 0)):
            self._tell(
                f"the server lost events {stored + 1} to {acknowledged} of run {key.run_id}, which it had acknowledged;"
                f" they stay missing. {BEHIND}"
            )
        if key in self._acknowledged:
            self._acknowledged[key] = seq

    def _owner(self, key: RunKey) -> str | None:
        """Return the owner of an attempt that this worker has claimed, and None for one of a dead worker."""
        return self._offer.owner if key in self._acknowledged else None

    async def claim_now(self, slots: int) -> list[Assignment]:
        """Claim runs without waiting for any. Return them to the queue if the caller is cancelled meanwhile."""
        claiming = asyncio.ensure_future(self._commits.do(lambda: self._claim(slots)))
        try:
            claimed = await asyncio.shield(claiming)
        except asyncio.CancelledError:
            with suppress(CoordinatorUnavailable):
                for assignment in await claiming:
                    key = assignment.key
                    await self._commits.do(lambda key=key: self._store.queue.give_back(key.run_id, key.attempt))  # type: ignore[misc]
            raise
        self._acknowledged = {one.key: 0 for one in claimed} | self._acknowledged
        return claimed

    def _claim(self, slots: int) -> list[Assignment]:
        """Claim runs. A run that cannot be read ends as failed, and the next one is claimed."""
        assignments: list[Assignment] = []
        damaged: list[Exception | None] = [None]

        def hear(reason: Exception, row: Sequence[Any]) -> None:
            damaged.append(reason)
            if all(isinstance(value, str) for value in row[:2]):  # else no event can name the run
                self._end_unreadable(row[0], row[1], row[2], reason)

        while damaged and not assignments:
            damaged.clear()
            claimed = self._store.queue.claim(self._offer, slots, hear)
            for one in claimed:
                try:
                    assignments.append(self._assignment(one))
                except Exception as error:  # noqa: BLE001  # what a row holds ends its run at most
                    self._end_unreadable(one.run.run_id, one.run.session_id, one.attempt, error)
                    damaged.append(error)
            for reason in damaged:
                self._tell(f"a queued run is not performed, and ends as failed: {reason}")
        return assignments

    def _end_unreadable(self, run_id: str, session_id: str, attempt: int, error: Exception) -> None:
        """End a run that cannot be read, or not all that belongs to it, with an event that says so."""
        message = f"the run cannot be performed: {error}"
        failure = failed(ErrorType.INTERNAL_ERROR, message, side_effects="none", origin="runner")
        lines = [event.line for event in ending_behind(run_id, 0, RunSummary(session_id), failure, timestamp)]
        self._store.events.add_of_attempt(run_id, attempt, 1, lines)
        project_end(self._store, run_id, failure)

    def _assignment(self, claimed: ClaimedRun) -> Assignment:
        run = claimed.run
        first = self._store.runs.first(run.session_id) if run.mode == "resume" else None
        return Assignment(
            key=RunKey(run.run_id, claimed.attempt),
            session=self._store.sessions.find(run.session_id),
            run=run,
            lease_seconds=self._offer.lease_seconds,
            first_parameters=None if first is None else first.parameters,
            queued_seconds=seconds_since(claimed.queued_at, self._store.now()),
        )

    async def _read(self, call: Callable[[], Returned]) -> Returned:
        try:
            return await self._commits.alone(call)
        except (StoreUnwritable, StoreUnusable) as error:
            raise unavailable(self._store.place, error) from error

    async def _held(self, key: RunKey, step: Callable[[], Returned]) -> Returned:
        try:
            try:
                return await self._commits.do(step)
            except NotHeld:
                await self._takes_back(key)
                return await self._commits.do(step)  # it may have been claimed meanwhile, also by this worker
        except NotHeld as error:
            raise LeaseLost(key, error.reason) from error
        except ValueError as error:
            raise Refused(f"what attempt {key.attempt} says of run {key.run_id}", str(error)) from error

    async def _takes_back(self, key: RunKey) -> bool:
        """Continue a run of this worker whose claim the server has lost, and return whether nobody else performs it."""
        owner, is_taken = self._owner(key), False
        with suppress(ConstraintBroken):  # the server lost the end of the run before it, too
            is_taken = owner is not None and await self._commits.do(
                lambda: self._store.queue.take_back(key.run_id, key.attempt, owner)
            )
        if is_taken:
            self._tell(f"the server lost that this worker performs run {key.run_id}, which goes on. {BEHIND}")
        return is_taken

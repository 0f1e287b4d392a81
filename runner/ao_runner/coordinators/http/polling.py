"""Poll for runs and stop orders, and send the heartbeats that keep the worker registered.

Both runs and stop orders come as responses to polls. A worker without a free slot therefore polls until it has one
unclaimed run, and then stops, so that it does not take runs that other workers could begin. From then on it requests
the status of its runs, and treats a stopped run as a stop order.
"""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

from pydantic import JsonValue

from ao_protocol.framing import is_identifier
from ao_runner.coordinators.http.assignments import OfferedRun, Scripts, offered_run
from ao_runner.coordinators.http.event_delivery import ENDED, RestDelivery
from ao_runner.coordinators.http.registration import MOST_LOST_POLLS, Enrolment, Tell
from ao_runner.coordinators.http.transport import ServerReply, Timing, Unanswered, is_name
from ao_runner.coordinators.inbox import Inbox
from ao_runner.coordinators.port import Backoff, CoordinatorUnavailable, CoordinatorUnusable, Orders, Refused

UNWANTED: Final = ENDED | {"stopping"}


class Polling:
    """Three loops for tasks of the caller. No loop raises errors of the server."""

    def __init__(
        self, enrolment: Enrolment, delivery: RestDelivery, scripts: Scripts | None, tell: Tell, timing: Timing
    ) -> None:
        self.inbox: Inbox[OfferedRun] = Inbox()
        self.has_to_leave = False
        """The server has deregistered the worker, which stops polling and sends no more heartbeats."""
        self.has_stopped = asyncio.Event()
        """Set when no poll is open and none will follow."""
        self._draining = asyncio.Event()
        self._look_until = 0.0
        """Until then a poll may claim a run for this worker and its response may be lost."""
        self._lost_until = 0.0
        """Until then the server may continue a poll of this worker whose connection broke."""
        self._has_looked = False
        """Whether missed runs were looked for since the last poll whose response was lost."""
        self._seen_claimed: dict[str, float] = {}
        """Runs that are claimed for this worker and not held here, with the time when they were first seen."""
        self._latest_run_id = ""
        self._ordered: set[str] = set()
        """The held runs whose stop was ordered. It is ordered once, because a worker kills at a second order."""
        self._enrolment = enrolment
        self._delivery = delivery
        self._scripts = scripts
        self._tell = tell
        self._timing = timing

    def drain(self) -> None:
        """Stop polling, and have the server end the open poll, which would claim a run that is never performed."""
        self._draining.set()

    async def stop(self, polling: asyncio.Task[None], seconds: float) -> None:
        """Drain, and wait for at most `seconds` until no poll is open. `polling` is the task of the first loop."""
        self.drain()
        stopped = asyncio.ensure_future(self.has_stopped.wait())
        await asyncio.wait({polling, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()

    def loops(self) -> list[Coroutine[None, None, None]]:
        """Return the loops: first the one that polls, then those that send heartbeats and look for missed runs."""
        self._expect_missed_runs()
        return [self._repeat(once) for once in (self._poll_once, self._beat_once, self._look_once)]

    async def _poll_once(self) -> None:
        """Fill the inbox."""
        room = 0 if self.has_to_leave or self._draining.is_set() else 1
        if room == 0 and not self.has_stopped.is_set():
            if time.monotonic() < self._lost_until and not self.has_to_leave:
                await self._enrolment.end_lost_polls()
                await self._take_missed(0.0)  # a run that such a poll has claimed
            self.has_stopped.set()
        if len(self.inbox) >= room:
            if not await self.inbox.until_room(room, self._timing.watch_seconds):
                await self._watch()
            return
        if not self._has_looked:
            await self._take_missed(0.0)  # no poll of this worker is open, so no response is under way
            self._has_looked = True
            if len(self.inbox):
                return
        began_at = time.monotonic()
        answer = await self._until_answered_or_draining()
        if not answer.is_success:
            raise CoordinatorUnavailable(self._enrolment.place, f"it answered a poll with {answer.reason}")
        if not self._receive(answer.document):
            await asyncio.sleep(self._timing.shortest_poll_seconds - (time.monotonic() - began_at))

    async def _until_answered_or_draining(self) -> ServerReply:
        asking = asyncio.ensure_future(self._enrolment.poll())
        draining = asyncio.ensure_future(self._draining.wait())
        try:
            await asyncio.wait({asking, draining}, return_when=asyncio.FIRST_COMPLETED)
            return await (self._withdrawn(asking) if draining.done() else asking)
        except CoordinatorUnavailable:
            self._expect_missed_runs()
            self._lost_until = self._look_until
            raise
        finally:
            asking.cancel()
            draining.cancel()

    async def _withdrawn(self, asking: asyncio.Future[ServerReply]) -> ServerReply:
        """End the open poll, and return its response: a run that it has claimed already, or nothing."""
        if asking.done():
            return await asking
        for _ in range(MOST_LOST_POLLS + 1):
            times = await self._enrolment.withdraw()
            await asyncio.wait({asking}, timeout=self._timing.dead_poll_seconds)
            if asking.done():
                break
            await self._enrolment.again(times)  # it ended a poll whose connection broke, not the open one
        else:
            raise CoordinatorUnavailable(self._enrolment.place, "it does not end the poll of this worker")
        answer = await asking
        is_over = answer.document.get("deregistered") is True
        if not is_over:
            await self._enrolment.poll()  # removes the mark that `withdraw` left
        await self._enrolment.again(times)
        return ServerReply(204, None) if is_over else answer

    def _expect_missed_runs(self) -> None:
        """Look for missed runs for as long as the server keeps a poll open after its connection broke."""
        self._has_looked = False
        self._look_until = time.monotonic() + self._enrolment.poll_seconds + self._timing.watch_seconds

    async def _look_once(self) -> None:
        """Find missed runs: they were claimed for this worker, and the response to the poll was lost."""
        await asyncio.sleep(self._timing.watch_seconds)
        if time.monotonic() < self._look_until and not self._draining.is_set():
            await self._take_missed(self._timing.missed_seconds)

    async def _take_missed(self, seconds: float) -> None:
        """Take the runs that have been claimed for this worker for `seconds` without a response to the poll.

        A killed worker leaves such a run, and so does a connection that breaks during the response.
        """
        try:
            answer = await self._enrolment.ask("GET", "/runs?status=claimed")
        except Unanswered as error:
            if not error.is_garbage:
                raise
            self._tell(f"missed runs cannot be looked for: {error.reason}")
            return
        runs = answer.document.get("runs") if answer.is_success else None
        known = self._delivery.held.keys() | {offered.run_id for offered in self.inbox}
        missing = [
            offered
            for run in (runs if isinstance(runs, list) else [])
            if isinstance(run, dict) and run.get("runner_id") == self._enrolment.runner_id
            if (offered := offered_run(run)) is not None and offered.run_id not in known
        ]
        now = time.monotonic()
        self._seen_claimed = {one.run_id: self._seen_claimed.get(one.run_id, now) for one in missing}
        for offered in missing:
            if now - self._seen_claimed[offered.run_id] >= seconds:
                self._take(offered)

    async def _beat_once(self) -> None:
        """Send a heartbeat at the server's interval. A poll does not count as one."""
        await asyncio.sleep(max(self._enrolment.heartbeat_seconds, self._timing.shortest_poll_seconds))
        if self.has_to_leave:
            return
        answer = await self._enrolment.say("/runner/heartbeat")
        if not answer.is_success:
            raise CoordinatorUnavailable(self._enrolment.place, f"it answered a heartbeat with {answer.reason}")

    def _receive(self, document: dict[str, JsonValue]) -> bool:
        """Process the response to a poll; False if it contains nothing new."""
        run, sessions = document.get("run"), document.get("stop_sessions")
        is_new = isinstance(run, dict) and self._take(offered_run(run))
        if isinstance(sessions, list):
            named = frozenset(name for name in sessions if is_name(name) and is_identifier(name))
            stopped = {run_id for run_id, one in self._delivery.held.items() if one.session.session_id in named}
            is_new = is_new or not stopped <= self._ordered
            self._ordered |= stopped
            with_a_run = {one.session.session_id for one in self._delivery.held.values()}
            self._delivery.idle_sessions |= named - with_a_run - {offered.session_id for offered in self.inbox}
            self.inbox.order(Orders(cancel_runs=frozenset(stopped), cancel_sessions=named))
        for name in [*_names(document, "sync_scripts"), *_names(document, "remove_scripts")]:
            is_new = True
            if self._scripts is not None:
                self._scripts.forget(name)
        if document.get("deregistered") is True:
            self._tell("the server has deregistered this worker; it accepts no more runs")
            self.has_to_leave = True
            self.inbox.order(Orders(drain=True))
        return is_new or self.has_to_leave

    def _take(self, offered: OfferedRun | None) -> bool:
        """Put a run into the inbox; False if it is invalid, or the same as the one before."""
        if offered is None:
            self._tell("the server handed out a run without a run_id and a session_id; nobody can perform or end it")
            return False
        if offered.run_id not in self._delivery.held and all(offered.run_id != other.run_id for other in self.inbox):
            self.inbox.put(offered)
        is_new = offered.run_id != self._latest_run_id
        self._latest_run_id = offered.run_id
        return is_new

    async def _watch(self) -> None:
        """Request the status of the held runs and of those in the inbox, and act on stops."""
        self._ordered &= self._delivery.held.keys()
        for run_id in self._delivery.held.keys() - self._ordered:
            if await self._delivery.status(run_id) in UNWANTED and run_id in self._delivery.held:
                self._ordered.add(run_id)
                self.inbox.order(Orders(cancel_runs=frozenset({run_id})))
        for offered in self.inbox:
            status = await self._delivery.status(offered.run_id)
            if status in UNWANTED and self.inbox.remove(offered) and status not in ENDED:
                await self._delivery.report_end(offered.run_id, "stopped", signal="SIGTERM")

    async def _repeat(self, once: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(self._timing.first_pause_seconds, self._timing.longest_pause_seconds)
        while True:
            try:
                await once()
            except CoordinatorUnavailable as error:
                if not backoff.tries:
                    self._tell(f"{error}; retrying until it answers")
                await asyncio.sleep(backoff.next_seconds(error.retry_after_seconds))
            except Refused as error:
                self._tell(str(error))
            except CoordinatorUnusable as error:
                self.inbox.fail(error)
                return
            except Exception as error:  # noqa: BLE001  # the data of one response must not end the worker
                self._tell(f"an internal error of the worker: {''.join(traceback.format_exception(error))}")
                await asyncio.sleep(backoff.next_seconds())
            else:
                if backoff.tries:
                    self._tell("the coordinator answers again")
                    backoff.tries = 0


def _names(document: dict[str, JsonValue], field: str) -> list[str]:
    found = document.get(field)
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

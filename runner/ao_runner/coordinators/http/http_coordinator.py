"""The coordinator for the REST interface of the existing server.

It does not retry calls; the worker does. Tasks of its `with` block poll, send heartbeats and look for missed runs.
"""

import asyncio
import os
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from pydantic import JsonValue

from ao_runner.coordinators.http.assignments import (
    Blueprints,
    OfferedRun,
    RunDetails,
    Scripts,
    UnusableRun,
    UnusableScript,
)
from ao_runner.coordinators.http.event_delivery import RestDelivery
from ao_runner.coordinators.http.polling import Polling
from ao_runner.coordinators.http.registration import MAX_GARBAGE, Enrolment, RegistrationNote, RunnerIdentity, Tell
from ao_runner.coordinators.http.transport import USUAL_TIMING, Exchange, Timing, Unanswered, shortened, token_of
from ao_runner.coordinators.port import (
    Assignment,
    Coordinator,
    CoordinatorUnavailable,
    CoordinatorUnusable,
    EventBatch,
    Orders,
    Refused,
)
from ao_runner.run_events import RunKey
from ao_runner.store.records import RunRecord

NEVER_BEGAN: Final = (
    "attempt_lost: the worker had to exit before it could begin the run, and the server does not assign it again"
)


class HttpCoordinator(Coordinator):
    """A `Coordinator` over HTTP. After `CoordinatorUnavailable` it may be entered again.

    The server has no leases and no attempts, so nothing is fenced. `LeaseLost` is raised if the server no longer knows
    a run, or reports another end of it. After a lost response the server may have an event twice, with the same
    timestamp.

    The server assigns no run twice, so a worker that drains performs those that it has received.

    Args:
        url: The URL of the server, such as `http://host:8765`.
        identity: The identity to register.
        tell: Receives a sentence for people about each action of its own.
        environ: The variables, for `AO_COORDINATOR_TOKEN`.
        timing: The timeouts and intervals.
        folder: The folder for scripts and the registration note; without one, runs with scripts are refused.
    """

    hands_on = False

    def __init__(
        self,
        url: str,
        identity: RunnerIdentity,
        tell: Tell,
        environ: Mapping[str, str] = os.environ,
        timing: Timing = USUAL_TIMING,
        folder: Path | None = None,
    ) -> None:
        self._identity = identity
        self._tell = tell
        self._timing = timing
        self._exchange = Exchange(url, token_of(environ), timing)
        self._note = RegistrationNote(folder and folder / "registrations", identity)
        self._enrolment = Enrolment(self._exchange, identity, tell, timing, self._note)
        self._delivery = RestDelivery(self._enrolment, identity, tell)
        self._blueprints = Blueprints(self._enrolment)
        self._scripts = None if folder is None else Scripts(folder / "scripts", self._enrolment)
        self._polling = Polling(self._enrolment, self._delivery, self._scripts, tell, timing)
        self._garbage: dict[str, int] = {}
        """By run: the number of invalid responses to requests about an offered run."""

    async def __aenter__(self) -> Self:
        """Register, and begin to poll and to send heartbeats.

        Raises:
            CoordinatorUnavailable: The server cannot be reached now.
            CoordinatorUnusable: The server will never accept this worker.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._exchange)
            stack.enter_context(self._note)
            await self._enrolment.begin()
            stack.pop_all()
        self._group = await asyncio.TaskGroup().__aenter__()
        self._tasks = [self._group.create_task(loop) for loop in self._polling.loops()]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop polling, end the runs that were not claimed, and deregister. Failures are reported to `tell`."""
        ends_at = asyncio.get_running_loop().time() + self._timing.farewell_seconds
        try:
            await self._polling.stop(self._tasks[0], self._timing.farewell_seconds)
            for task in self._tasks:
                task.cancel()
            # Without the error of the block: a task group would wrap it, and its tasks have ended.
            await self._group.__aexit__(None, None, None)
            await self._say_goodbye(ends_at)
        finally:
            self._note.__exit__()
            await self._exchange.__aexit__()

    async def claim(self, slots: int) -> Sequence[Assignment]:
        """Wait for a run. Returns at most one, for any `slots`, because the server assigns runs one at a time.

        Raises:
            CoordinatorUnavailable: The details of the run are not available now; the run stays in the inbox.
            CoordinatorUnusable: The server no longer accepts this worker.
        """
        if slots < 1 or not await self._polling.inbox.until_run(self._timing.idle_seconds):
            return ()
        offered = next(iter(self._polling.inbox))
        try:
            assignment = offered.to_assignment(self._identity, await self._details(offered), datetime.now(UTC))
        except Unanswered as error:
            self._garbage[offered.run_id] = self._garbage.get(offered.run_id, 0) + error.is_garbage
            if self._garbage[offered.run_id] < MAX_GARBAGE:
                raise
            return await self._refuse(offered, f"invalid_invocation: {error.reason} ({MAX_GARBAGE} times)")
        except (CoordinatorUnavailable, CoordinatorUnusable):
            raise
        except (UnusableRun, ValueError, Refused) as error:
            return await self._refuse(offered, str(error))
        except Exception as error:  # noqa: BLE001  # the data of one run must not end the others
            self._tell(f"an internal error of the worker: {''.join(traceback.format_exception(error))}")
            return await self._refuse(offered, f"internal_error: {type(error).__name__}; see the worker's log")
        self._garbage.pop(offered.run_id, None)
        if not self._polling.inbox.remove(offered):
            return ()  # it was stopped meanwhile
        self._delivery.held[offered.run_id] = assignment
        return (assignment,)

    async def started(self, key: RunKey) -> None:
        """Report the start of a run. Raises `LeaseLost` if the server does not know it."""
        await self._delivery.started(key)

    async def events(self, batch: EventBatch) -> int:
        """Send events one at a time and return the `seq` of the last stored one, which may be an earlier one."""
        return await self._delivery.events(batch)

    async def terminal(self, key: RunKey, seq: int, line: bytes, *, stays: bool = False) -> None:
        """Send the result, if any, and report the end of the run. Before a retry, read back whether it is stored."""
        await self._delivery.terminal(key, seq, line, stays=stays)

    async def heartbeat(self, held: Sequence[RunKey], outbox_seconds: float = 0.0) -> Orders:
        """Return the orders, without waiting. The server never reassigns a run, so there is no lease to prolong."""
        return self._polling.inbox.take_orders()

    async def orders(self) -> Orders:
        """Wait for orders."""
        return await self._polling.inbox.until_orders(self._timing.idle_seconds)

    def drain(self) -> None:
        """Stop polling, because a poll brings runs. The status of held runs is requested instead."""
        self._polling.drain()

    async def has_unclaimed(self) -> bool:
        """Return whether a run was received. Without one, wait first, for a bounded time, until no poll is open."""
        if not self._polling.inbox:
            await self._polling.stop(self._tasks[0], self._timing.farewell_seconds)
        return len(self._polling.inbox) > 0

    async def release(self, key: RunKey, record: RunRecord | None) -> None:
        """Forget a run. One that never began is reported as failed, because the server does not assign it again."""
        if record is None:
            await self._fail(key.run_id, NEVER_BEGAN)
        self._delivery.forget(key)

    async def session_left(self, session_id: str) -> None:
        """Report an idle session as finished. For other sessions the end of the last run reported it."""
        if session_id in self._delivery.idle_sessions:
            await self._delivery.session_ended(session_id, "finished")
            self._delivery.idle_sessions.discard(session_id)

    async def _details(self, offered: OfferedRun) -> RunDetails:
        """Request the details of a run from the server. Details that it does not know are left out.

        Raises:
            UnusableRun: The script of the blueprint is not available.
            CoordinatorUnavailable: The server does not answer now.
        """
        session: JsonValue = None
        if offered.mode != "start":
            answer = await self._enrolment.ask("GET", f"/sessions/{quote(offered.session_id, safe='')}")
            session = answer.document.get("session") if answer.is_success else None
        known = session if isinstance(session, dict) else {}
        found = await self._blueprints.of_run(offered.document, offered.session_id, offered.agent_name(known))
        if found is None:
            return RunDetails(known)
        script, name = None, found.document.get("script")
        if isinstance(name, str):
            if self._scripts is None:
                raise UnusableRun("dependency_missing: this worker keeps no scripts")
            try:
                script = await self._scripts.find(name)
            except UnusableScript as error:
                raise UnusableRun(f"dependency_missing: {error}") from error
        return RunDetails(known, found.document, script, is_resolved=found.is_resolved)

    async def _refuse(self, offered: OfferedRun, error: str) -> Sequence[Assignment]:
        """End a run that cannot be performed, and return no assignment."""
        self._tell(f"run {shortened(ascii(offered.run_id))} cannot be performed: {error}")
        await self._fail(offered.run_id, error)
        self._polling.inbox.remove(offered)
        self._garbage.pop(offered.run_id, None)
        return ()

    async def _fail(self, run_id: str, error: str) -> None:
        """Report a run that never began as failed. If the server refuses that, report it to `tell`."""
        try:
            await self._delivery.fail(run_id, error)
        except Refused as refusal:
            self._tell(str(refusal))

    async def _say_goodbye(self, ends_at: float) -> None:
        try:
            async with asyncio.timeout_at(ends_at):
                for offered in self._polling.inbox:
                    await self._refuse(offered, NEVER_BEGAN)
                await self._enrolment.end()
        except (CoordinatorUnavailable, CoordinatorUnusable) as error:
            self._tell(f"this worker is still registered: {error}")
        except TimeoutError:
            self._tell("this worker is still registered: the coordinator did not answer its farewell")

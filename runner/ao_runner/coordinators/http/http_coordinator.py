"""The coordinator that speaks the REST contract of the existing server.

It repeats no call by itself; the worker does. Tasks of its own, which its `with` block owns, poll, send
heartbeats and look for runs that it missed.
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
from ao_runner.coordinators.http.event_delivery import Delivery
from ao_runner.coordinators.http.polling import Polling
from ao_runner.coordinators.http.registration import MAX_GARBAGE, Enrolment, RegistrationNote, RunnerIdentity, Tell
from ao_runner.coordinators.http.transport import Exchange, Timing, Unanswered, shortened
from ao_runner.coordinators.port import (
    Assignment,
    CoordinatorUnavailable,
    CoordinatorUnusable,
    EventBatch,
    Orders,
    Refused,
)
from ao_runner.run_events import RunKey
from ao_runner.store.records import RunRecord

TOKEN_VARIABLE: Final = "AO_COORDINATOR_TOKEN"  # noqa: S105  # the name of a variable
NEVER_BEGAN: Final = (
    "attempt_lost: the worker returned the run before it began, and the server does not assign it again"
)
USUAL_TIMING: Final = Timing()


class HttpCoordinator:
    """Implements `Coordinator`. After `CoordinatorUnavailable` it may be entered again.

    There are no leases there and no attempts, so nothing is fenced: `LeaseLost` is raised where the server knows a run
    no longer, or says that it has ended otherwise. An event can be there twice after a lost answer, with the same
    timestamp.

    Args:
        url: Of the server, `http://host:8765`.
        identity: Who to register as.
        tell: Gets a sentence for people about what it does by itself.
        environ: Where `AO_COORDINATOR_TOKEN` is looked for.
        timing: How long to wait for what.
        folder: Where it keeps scripts and the note of its registration; without one, runs with scripts are refused.
    """

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
        self._exchange = Exchange(url, environ.get(TOKEN_VARIABLE, "").strip() or None, timing)
        self._note = RegistrationNote(folder and folder / "registrations", identity)
        self._enrolment = Enrolment(self._exchange, identity, tell, timing, self._note)
        self._delivery = Delivery(self._enrolment, identity, tell)
        self._blueprints = Blueprints(self._enrolment)
        self._scripts = None if folder is None else Scripts(folder / "scripts", self._enrolment)
        self._polling = Polling(self._enrolment, self._delivery, self._scripts, tell, timing)
        self._garbage: dict[str, int] = {}
        """How many answers that are none were given to questions about a run in hand."""

    async def __aenter__(self) -> Self:
        """Register, and begin to poll and to send heartbeats.

        Raises:
            CoordinatorUnavailable: it cannot be reached now.
            CoordinatorUnusable: it never will take this worker.
        """
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._exchange)
            stack.enter_context(self._note)
            await self._enrolment.begin()
            stack.pop_all()
        self._group = await asyncio.TaskGroup().__aenter__()
        loops = (self._polling.poll(), self._polling.beat(), self._polling.look())
        self._tasks = [self._group.create_task(loop) for loop in loops]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop polling, end what nobody claimed, and deregister. What does not succeed is told."""
        ends_at = asyncio.get_running_loop().time() + self._timing.farewell_seconds
        try:
            await self._polling.stop(self._tasks[0], self._timing.farewell_seconds)
            for task in self._tasks:
                task.cancel()
            # Without the error of the block: a task group would wrap it, and its tasks are over.
            await self._group.__aexit__(None, None, None)
            await self._say_goodbye(ends_at)
        finally:
            self._note.__exit__()
            await self._exchange.__aexit__()

    async def claim(self, slots: int) -> Sequence[Assignment]:
        """Wait for a run. There is never more than one, whatever `slots` says: the server hands them out singly.

        Raises:
            CoordinatorUnavailable: what a resume needs cannot be had now; the run is kept in hand.
            CoordinatorUnusable: the server does not take this worker any more.
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
        except Exception as error:  # noqa: BLE001  # what one run holds must not end the others
            self._tell(f"an internal error of the worker: {''.join(traceback.format_exception(error))}")
            return await self._refuse(offered, f"internal_error: {type(error).__name__}; see the worker's log")
        self._garbage.pop(offered.run_id, None)
        if not self._drop(offered):
            return ()
        self._delivery.held[offered.run_id] = assignment
        return (assignment,)

    async def started(self, key: RunKey) -> None:
        """Say that the run begins; `LeaseLost` where the server does not know it."""
        await self._delivery.started(key)

    async def events(self, batch: EventBatch) -> int:
        """Send events one at a time and return the `seq` of the last that is there, which may be an earlier one."""
        return await self._delivery.events(batch)

    async def terminal(self, key: RunKey, seq: int, line: bytes, *, stays: bool = False) -> None:
        """Send the result, where there is one, and say how the run ended. Either is read back before it is repeated."""
        await self._delivery.terminal(key, seq, line, stays=stays)

    async def heartbeat(self, held: Sequence[RunKey]) -> Orders:
        """Return what is wanted, without waiting. Nobody else is given a run, so there is no lease to keep."""
        return self._polling.inbox.take_orders()

    async def orders(self) -> Orders:
        """Wait for what is wanted."""
        await self._polling.inbox.until_orders(self._timing.idle_seconds)
        return self._polling.inbox.take_orders()

    def drain(self) -> None:
        """Poll no more, since a poll brings runs; how held runs stand is asked instead."""
        self._polling.drain()

    async def release(self, key: RunKey, record: RunRecord | None) -> None:
        """Forget a run. One that never began fails there, because the server would hand it to nobody else."""
        if record is None:
            await self._fail(key.run_id, NEVER_BEGAN)
        self._delivery.forget(key)

    async def session_left(self, session_id: str) -> None:
        """Say that a session which the server takes for idle is finished. Others have said so with their last run."""
        if session_id in self._delivery.idle_sessions:
            await self._delivery.session_ended(session_id, "finished")
            self._delivery.idle_sessions.discard(session_id)

    async def _details(self, offered: OfferedRun) -> RunDetails:
        """Ask the server for what a run needs; what it does not know is left out.

        Raises:
            UnusableRun: the blueprint names a script that cannot be had.
            CoordinatorUnavailable: the server does not answer now.
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
        self._drop(offered)
        self._garbage.pop(offered.run_id, None)
        return ()

    async def _fail(self, run_id: str, error: str) -> None:
        """End a run that never began as failed, as far as the server lets one."""
        try:
            await self._delivery.fail(run_id, error)
        except Refused as refusal:
            self._tell(str(refusal))

    def _drop(self, offered: OfferedRun) -> bool:
        """Take a run out of the inbox; False when it was stopped meanwhile and is there no longer."""
        if offered not in self._polling.inbox:
            return False
        self._polling.inbox.remove(offered)
        return True

    async def _say_goodbye(self, ends_at: float) -> None:
        try:
            async with asyncio.timeout_at(ends_at):
                for offered in self._polling.inbox:
                    await self._fail(offered.run_id, NEVER_BEGAN)
                    self._drop(offered)
                await self._enrolment.end()
        except (CoordinatorUnavailable, CoordinatorUnusable) as error:
            self._tell(f"this worker is still registered: {error}")
        except TimeoutError:
            self._tell("this worker is still registered: the coordinator did not answer its farewell")

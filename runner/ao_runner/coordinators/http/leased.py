"""The coordinator of a server that speaks the port itself, with attempts and leases: `ao serve`."""

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from ao_protocol.wire import JsonObject
from ao_runner.coordinators.http import worker_calls as calls
from ao_runner.coordinators.http.transport import USUAL_TIMING, Exchange, ServerReply, Timing, Unanswered, token_of
from ao_runner.coordinators.inbox import new_stops
from ao_runner.coordinators.port import (
    Assignment,
    Backoff,
    Coordinator,
    CoordinatorUnavailable,
    CoordinatorUnusable,
    EventBatch,
    LeaseLost,
    Orders,
    Refused,
)
from ao_runner.profiles import COORDINATOR_TOKEN
from ao_runner.run_events import RunKey
from ao_runner.store.records import RunRecord
from ao_runner.store.worker_table import Offer

Parsed = TypeVar("Parsed")


async def speaks_leases(
    url: str, environ: Mapping[str, str], tell: Callable[[str], None], timing: Timing = USUAL_TIMING
) -> bool:
    """Ask a server, until it answers, whether it speaks the port; else it is one of the older contract."""
    backoff = Backoff()
    async with Exchange(url, token_of(environ), timing) as exchange:
        while True:
            try:
                answer = await exchange.ask("GET", "/health")
                return answer.document.get("worker_api") == calls.VERSION
            except Unanswered as error:
                if error.is_garbage:
                    return False  # the older contract says what is wrong
                if not backoff.tries:
                    tell(f"{error}; trying again")
                await asyncio.sleep(backoff.next_seconds(error.retry_after_seconds))


class LeasedCoordinator(Coordinator):
    """See `ao_runner.coordinators.port.Coordinator`. It retries nothing, as the worker does that.

    Args:
        url: The address of the server.
        offer: What the worker offers; the name of its owner begins with `remote-`.
        environ: The variables, for `AO_COORDINATOR_TOKEN`.
        timing: The timeouts.
    """

    def __init__(
        self, url: str, offer: Offer, environ: Mapping[str, str] = os.environ, timing: Timing = USUAL_TIMING
    ) -> None:
        self._exchange = Exchange(url, token_of(environ), timing)
        self._offer = offer
        self._timing = timing
        self._held: set[RunKey] = set()
        self._told: dict[str, int] = {}
        self._answered: set[tuple[str, str]] = set()
        """The requests, as run and request, whose answers are known and which are not resolved yet."""
        self._drains = False
        self._claim_id = ""
        """The name of a claim whose answer has not come; the same name again has the same answer."""
        self._joining = asyncio.Lock()
        self._joined = 0

    async def __aenter__(self) -> Self:
        await self._exchange.__aenter__()
        try:
            await self._join(self._joined)
        except BaseException:
            await self._exchange.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Say goodbye; without an answer, the leases end by themselves."""
        try:
            with suppress(CoordinatorUnavailable):
                await self._post(calls.Leave(worker_id=self._offer.owner), self._timing.farewell_seconds)
        finally:
            await self._exchange.__aexit__()

    async def claim(self, slots: int) -> Sequence[Assignment]:
        """Wait for runs. A claim without an answer is repeated under its name by the next one."""
        self._claim_id = self._claim_id or secrets.token_hex(8)
        call = calls.Claim(worker_id=self._offer.owner, slots=slots, claim_id=self._claim_id)
        answer = await self._ask(call, calls.WAIT_SECONDS + self._timing.poll_margin_seconds)
        _fill_in_folder(answer.get("assignments"), str(Path.cwd()))
        assignments = self._parsed(calls.ASSIGNMENTS, answer, "assignments")
        self._claim_id = ""
        self._held.update(one.key for one in assignments)
        return assignments

    async def started(self, key: RunKey) -> None:
        """Say that the run begins."""
        await self._ask(calls.Started(worker_id=self._offer.owner, key=key))

    async def events(self, batch: EventBatch) -> int:
        """Hand over events."""
        lines = [line.decode() for line in batch.lines]
        call = calls.Events(worker_id=self._offer.owner, key=batch.key, first_seq=batch.first_seq, lines=lines)
        return self._parsed(calls.SEQ, await self._ask(call), "through_seq")

    async def terminal(self, key: RunKey, seq: int, line: bytes, *, stays: bool = False) -> None:
        """Hand over the terminal event."""
        owner = self._offer.owner
        await self._ask(calls.Terminal(worker_id=owner, key=key, seq=seq, line=line.decode(), stays=stays))
        self._held.discard(key)

    async def heartbeat(self, held: Sequence[RunKey], outbox_seconds: float = 0.0) -> Orders:
        """Keep the leases."""
        call = calls.Heartbeat(worker_id=self._offer.owner, held=list(held), outbox_seconds=outbox_seconds)
        answer = await self._ask(call)
        lost = self._parsed(calls.KEYS, answer, "lost")
        return Orders(lost=frozenset(lost))

    async def orders(self) -> Orders:
        """Wait for requests to stop a run or to drain, and for answers to requests."""
        known = sorted(self._answered)
        call = calls.AskOrders(worker_id=self._offer.owner, told=self._told, answered=known, drains=self._drains)
        answer = await self._ask(call, calls.WAIT_SECONDS + self._timing.poll_margin_seconds)
        stops = self._parsed(calls.STOPS, answer, "stops")
        answers = self._parsed(calls.ANSWERS, answer, "answers")
        new = tuple(one for one in answers if (one.run_id, one.request_id) not in self._answered)
        self._answered = {(one.run_id, one.request_id) for one in answers}
        self._drains = answer.get("drain") is True
        return Orders(cancel_runs=new_stops(stops, self._told), answers=new, drain=self._drains)

    async def decide(self, key: RunKey, request_id: str, answer: JsonObject) -> JsonObject:
        """Record an answer to a request at the server."""
        call = calls.Decide(worker_id=self._offer.owner, key=key, request_id=request_id, answer=answer)
        return self._parsed(calls.ANSWER, await self._ask(call), "answer")

    async def release(self, key: RunKey, record: RunRecord | None) -> None:
        """Hand over the record of a run, or return one that has not begun."""
        await self._ask(calls.Release(worker_id=self._offer.owner, key=key, record=record))
        self._held.discard(key)
        self._told.pop(key.run_id, None)

    async def _ask(self, call: calls.Call, seconds: float | None = None) -> JsonObject:
        """Make a call, and join again if the server has forgotten the worker.

        Raises:
            LeaseLost, Refused, CoordinatorUnavailable, CoordinatorUnusable: See the port.
        """
        joined = self._joined
        answer = await self._post(call, seconds)
        if answer.status == 401:
            await self._join(joined)
            answer = await self._post(call, seconds)
        if answer.is_success:
            return answer.document
        if answer.status == 409 and isinstance(call, calls.CallOfRun):
            self._held.discard(call.key)
            raise LeaseLost(call.key, answer.reason)
        if answer.status in {400, 413, 422}:
            raise Refused(f"{call.name} of worker {call.worker_id}", answer.reason)
        raise CoordinatorUnavailable(self._exchange.place, f"it answered {answer.reason}")

    async def _join(self, joined: int) -> None:
        """Announce the worker, unless another call has done so since `joined`."""
        async with self._joining:
            if self._joined != joined:
                return
            call = calls.Join(worker_id=self._offer.owner, offer=self._offer, held=sorted(self._held))
            answer = await self._post(call)
            if not answer.is_success:
                advice = f"check {COORDINATOR_TOKEN} and the version of the server"
                raise CoordinatorUnusable(self._exchange.place, f"it refuses this worker: {answer.reason}", advice)
            self._joined += 1

    async def _post(self, call: calls.Call, seconds: float | None = None) -> ServerReply:
        return await self._exchange.ask("POST", f"/worker/{call.name}", call.model_dump(mode="json"), seconds)

    def _parsed(self, kind: TypeAdapter[Parsed], answer: JsonObject, name: str) -> Parsed:
        try:
            return kind.validate_python(answer.get(name))
        except ValidationError as error:
            raise CoordinatorUnavailable(self._exchange.place, f"its answer holds no valid {name}") from error


def _fill_in_folder(assignments: JsonValue, folder: str) -> None:
    """Let runs that name no folder use that of this worker."""
    for one in assignments if isinstance(assignments, list) else ():
        session = one.get("session") if isinstance(one, dict) else None
        if isinstance(session, dict) and session.get("project_dir", "") is None:
            session["project_dir"] = folder

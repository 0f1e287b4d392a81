"""The calls of `ao worker --coordinator URL`: those of the port between worker and coordinator, with leases."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Request

from ao_protocol.events import InvalidEvent, parse_event
from ao_runner.coordinators.http import worker_calls as calls
from ao_runner.coordinators.port import Assignment, InputAnswer, Refused
from ao_runner.run_events import RunKey
from ao_runner.store.ownership import LOOK_SECONDS
from ao_server.api import answers, worker_answers
from ao_server.api.answers import Json, Shape
from ao_server.context import Context, ServerContext
from ao_server.joined_workers import JoinedWorker
from ao_server.problems import Told

routes = APIRouter(prefix="/worker", tags=["Workers"])
COALESCE_SECONDS = 0.02
"""How long orders wait after a notification, since a busy server gets hundreds of them per second."""


@routes.post("/join")
async def join(context: Context, call: calls.Join) -> Annotated[Json, Shape(answers.Done)]:
    """Announce a worker, or announce it again under the same name."""
    await context.workers.join(call.offer, call.held)
    return {"ok": True}


@routes.post("/claim")
async def claim(
    context: Context, request: Request, call: calls.Claim
) -> Annotated[Json, Shape(worker_answers.Assignments)]:
    """Wait for runs, for at most ten seconds. A repetition with the same `claim_id` has the same answer."""
    worker = _worker(context, call)
    assignments = await _claimed(context, request, worker, call)
    found = calls.ASSIGNMENTS.dump_python(list(assignments), mode="json")
    for session in [one["session"] for one in found]:
        if session["project_dir"] == context.settings.project_dir:
            session["project_dir"] = None  # the run names none, and the worker has one of its own
    return {"assignments": found}


async def _claimed(
    context: ServerContext, request: Request, worker: JoinedWorker, call: calls.Claim
) -> Sequence[Assignment]:
    """Wait for the end of a claim; a claim of a worker that hangs up, or of a server that stops, takes nothing."""
    leaving = [asyncio.create_task(_hung_up(request)), asyncio.create_task(context.live.closing.wait())]
    try:
        while True:
            claiming = worker.claiming(call.claim_id, call.slots)
            await asyncio.wait({claiming, *leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not claiming.done():
                claiming.cancel()
                with suppress(asyncio.CancelledError):
                    return await claiming
                return ()
            if not claiming.cancelled():  # else an earlier request for this claim has hung up just now
                return await claiming
    finally:
        for task in leaving:
            task.cancel()


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@routes.post("/started")
async def started(context: Context, call: calls.Started) -> Annotated[Json, Shape(answers.Done)]:
    """Say that a run begins; 409 if it must not."""
    await _worker(context, call).coordinator.started(call.key)
    return {"ok": True}


@routes.post("/events")
async def events(context: Context, call: calls.Events) -> Annotated[Json, Shape(worker_answers.StoredThrough)]:
    """Store events. Those that are stored already are left out; 409 if the attempt counts no more."""
    worker = _worker(context, call)
    await context.access.read(lambda _: _check_lines(call.key, call.first_seq, call.lines))
    return {"through_seq": await worker.coordinator.events(call.batch)}


@routes.post("/terminal")
async def terminal(context: Context, call: calls.Terminal) -> Annotated[Json, Shape(answers.Done)]:
    """Store the last event of a run and end the run, once."""
    worker = _worker(context, call)
    await context.access.read(lambda _: _check_lines(call.key, call.seq, [call.line]))
    await worker.coordinator.terminal(call.key, call.seq, call.line.encode(), stays=call.stays)
    context.access.notify()  # the session may have another run waiting
    return {"ok": True}


@routes.post("/heartbeat")
async def heartbeat(context: Context, call: calls.Heartbeat) -> Annotated[Json, Shape(worker_answers.LostRuns)]:
    """Keep the leases of a worker's runs, and return those that it has lost."""
    orders = await _worker(context, call).coordinator.heartbeat(call.held, call.outbox_seconds)
    return {"lost": calls.KEYS.dump_python(sorted(orders.lost), mode="json")}


@routes.post("/orders")
async def orders(context: Context, call: calls.AskOrders) -> Annotated[Json, Shape(worker_answers.WorkerOrders)]:
    """Wait for requests to stop runs beyond those in `told`, or to drain, for at most ten seconds.

    `stops` is the number of requests for each run.
    """
    worker = _worker(context, call)
    known = set(call.answered)
    until = asyncio.get_running_loop().time() + calls.WAIT_SECONDS
    while True:
        wanted = await context.access.read(lambda store: store.workers.requests_to(call.worker_id))
        answers = await context.access.read(lambda store: store.inputs.answers_for(call.worker_id))
        is_new = any(count > call.told.get(run_id, 0) for run_id, count in wanted.stops.items())
        is_new = is_new or (wanted.drain and not call.drains)
        is_new = is_new or any((one.run_id, one.request_id) not in known for one in answers)
        if is_new or context.live.closing.is_set() or asyncio.get_running_loop().time() >= until:
            given = [InputAnswer(one.run_id, one.request_id, one.answer or {}) for one in answers]
            told = calls.ANSWERS.dump_python(given, mode="json")
            return {"stops": wanted.stops, "drain": wanted.drain, "answers": told}
        await worker.coordinator.end_not_held()
        await context.access.wakeup.wait(LOOK_SECONDS)
        await asyncio.sleep(COALESCE_SECONDS)


@routes.post("/decide")
async def decide(context: Context, call: calls.Decide) -> Annotated[Json, Shape(worker_answers.Decision)]:
    """Record an answer to a request unless there is one, and return the one that counts."""
    return {"answer": await _worker(context, call).coordinator.decide(call.key, call.request_id, call.answer)}


@routes.post("/release")
async def release(context: Context, call: calls.Release) -> Annotated[Json, Shape(answers.Done)]:
    """Store the record of a run that has ended, or return one that has not begun to the queue."""
    await _worker(context, call).coordinator.release(call.key, call.record)
    if call.record is None:
        context.access.notify()
    return {"ok": True}


@routes.post("/leave")
async def leave(context: Context, call: calls.Leave) -> Annotated[Json, Shape(answers.Done)]:
    """Say goodbye."""
    await context.workers.leave(call.worker_id)
    return {"ok": True}


def _worker(context: ServerContext, call: calls.Call) -> JoinedWorker:
    worker = context.workers.find(call.worker_id)
    if worker is None:
        raise Told(HTTPStatus.UNAUTHORIZED, "worker_unknown", "the server does not know this worker; join again")
    return worker


def _check_lines(key: RunKey, first_seq: int, lines: Sequence[str]) -> None:
    """Refuse lines that are not the events of a run, since readers of the store rely on it."""
    for seq, line in enumerate(lines, first_seq):
        try:
            envelope = parse_event(line.encode()).envelope
        except InvalidEvent as error:
            raise Refused(f"event {seq} of run {key.run_id}", str(error)) from error
        if (envelope.run_id, envelope.seq) != (key.run_id, seq):
            found = f"found seq {envelope.seq} of run {envelope.run_id!r}"
            raise Refused(f"event {seq} of run {key.run_id}", found)

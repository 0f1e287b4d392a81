"""The calls of runners that speak the older contract: register, poll, report. Paths, fields and answers are its own."""

import asyncio
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator, BaseModel, Field, StrictBool

from ao_protocol.events import Terminal
from ao_protocol.wire import JsonObject
from ao_runner.store.ownership import LOOK_SECONDS
from ao_runner.store.records import RunState
from ao_runner.store.store import Store
from ao_server.agent_documents import AGENT_NAME, problems_of_agent
from ao_server.api import answers, worker_answers
from ao_server.api.agent_calls import refuse_agent
from ao_server.api.answers import Json, Shape
from ao_server.api.run_calls import RunId, found_run
from ao_server.api.sessions import SessionId, found_session
from ao_server.context import Context, ServerContext
from ao_server.older.handed_out_runs import handed_out
from ao_server.older.registrations import (
    HEARTBEAT_SECONDS,
    STALE_SECONDS,
    OlderRunner,
    offer_of,
    registration_of,
    runner_id_of,
)
from ao_server.older.reports import failure_of, stopped_by
from ao_server.problems import Told, refusal
from ao_server.request_text import Segment

routes = APIRouter(tags=["Runners"])
POLL_SECONDS: Final = 30
OK: Final[JsonObject] = {"ok": True}
POLLED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": worker_answers.PolledOrders},
    204: {"description": "No news."},
}
ENDED_SESSIONS: Final = ("finished", "failed", "stopped")


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected printable characters")
    return text


Text = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_printable)]


class RunnerExecutor(BaseModel):
    """The program that performs the runs of a runner."""

    type: Text = "autonomous"
    command: str = Field("", max_length=1000)
    config: dict[str, Any] = {}
    agents_dir: str | None = None
    lifecycle: str | None = None


class OwnAgent(BaseModel):
    """A procedural agent of a runner."""

    name: str = Field(pattern=f"^{AGENT_NAME}$")
    description: str = ""
    command: Text
    parameters_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None


class Registration(BaseModel):
    """What a runner says of itself. The same four, hostname, project_dir, executor_profile and command, are one runner.

    `agents` are procedural agents that it alone performs. With `require_matching_tags` it is handed out only runs that
    demand at least one of its tags.
    """

    hostname: Text
    project_dir: Text
    executor_profile: Text
    executor: RunnerExecutor = RunnerExecutor()
    tags: list[Text] | None = Field(None, max_length=100)
    require_matching_tags: StrictBool = False
    agents: list[OwnAgent] | None = Field(None, max_length=1000)


class Report(BaseModel):
    """What every report contains."""

    runner_id: str
    attempt: int | None = Field(None, description="The attempt that the run was handed out as; it is checked if given.")


class Completed(Report):
    """A run went well."""

    status: str = "success"
    session_status: str | None = Field(None, description="`idle` if a process waits for the session's next run.")


class Failed(Report):
    """A run failed."""

    error: str


class StoppedReport(Report):
    """A run was stopped."""

    signal: str = "SIGTERM"


class SessionEnded(Report):
    """The process of an idle session has ended."""

    status: str


@routes.post("/runner/register")
async def register(context: Context, wanted: Registration) -> Annotated[Json, Shape(worker_answers.RegisteredRunner)]:
    """Register a runner. One of the same identity that is online blocks it."""
    executor = wanted.executor
    runner_id = runner_id_of(wanted.hostname, wanted.project_dir, wanted.executor_profile, executor.command)
    known = context.runners.find(runner_id)
    if known is not None and known.silent_seconds < STALE_SECONDS:
        message = (
            f"Runner with identity ({wanted.hostname}, {wanted.project_dir}, {wanted.executor_profile}) is already"
            f" registered and online as {runner_id}"
        )
        identity: JsonObject = wanted.model_dump(include={"hostname", "project_dir", "executor_profile"})
        raise refusal(HTTPStatus.CONFLICT, "duplicate_runner", message, runner_id=runner_id, **identity)
    shown: JsonObject = wanted.model_dump(exclude={"agents"}, exclude_none=True)
    offer = offer_of(runner_id, wanted.hostname, wanted.executor_profile, executor.type, wanted.tags or [])
    offer = replace(offer, needs_tag=wanted.require_matching_tags)
    await context.runners.register(runner_id, {"tags": [], **shown}, offer, await _own_agents(context, wanted))
    return {
        "runner_id": runner_id,
        "poll_endpoint": "/runner/runs",
        "poll_timeout_seconds": POLL_SECONDS,
        "heartbeat_interval_seconds": HEARTBEAT_SECONDS,
    }


async def _own_agents(context: ServerContext, wanted: Registration) -> list[JsonObject]:
    """Return the documents of a runner's agents, which only its profile on its host performs."""
    placed: JsonObject = {
        "type": "procedural",
        "profile": wanted.executor_profile,
        "demands": {"hostname": wanted.hostname},
    }
    agents: list[JsonObject] = [{**one.model_dump(exclude_none=True), **placed} for one in wanted.agents or ()]
    refuse_agent(await context.access.read(lambda _: [one for agent in agents for one in problems_of_agent(agent)]))
    return agents


@routes.post("/runner/heartbeat")
async def heartbeat(context: Context, report: Report) -> Annotated[Json, Shape(answers.Done)]:
    """Keep a registration and the leases of its runs."""
    await context.runners.heartbeat(await _runner(context, report.runner_id))
    return OK


@routes.get("/runner/runs", response_model=None, responses=POLLED)
async def poll(context: Context, request: Request, runner_id: Annotated[str, Query()]) -> dict[str, Any] | Response:
    """Wait for a run, for sessions to stop, or for the end of the registration; 204 after half a minute."""
    runner = await _runner(context, runner_id)
    until = asyncio.get_running_loop().time() + POLL_SECONDS
    while asyncio.get_running_loop().time() < until and not context.live.closing.is_set():
        if await request.is_disconnected():
            break
        if runner.is_leaving:
            await context.runners.remove(runner, ends_runs=False)
        if context.runners.find(runner_id) is not runner:  # else a runner that has left would be given a run
            return {"deregistered": True}
        if stops := await context.runners.new_stops(runner):
            return {"stop_sessions": stops}
        if (assignment := await context.runners.claim(runner)) is not None:
            if await request.is_disconnected():
                await runner.coordinator.release(assignment.key, None)
                break
            run = await context.access.read(lambda store: _handed_out(context, store, assignment.key.run_id))
            return {"run": run}
        await context.access.wakeup.wait(LOOK_SECONDS)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _handed_out(context: ServerContext, store: Store, run_id: str) -> JsonObject:
    state = found_run(store, run_id)
    session = store.sessions.find(state.run.session_id)
    first = store.runs.first(session.session_id).parameters
    return handed_out(state, session, first, context.settings.environ, context.settings.project_dir)


@routes.post("/runner/runs/{run_id}/started")
async def started(context: Context, run_id: RunId, report: Report) -> Annotated[Json, Shape(answers.Done)]:
    """Say that a run begins. A repetition, also a late one, changes nothing."""
    runner, state = await _reported(context, run_id, report)
    await context.runners.run_of(runner, state, report.attempt)
    return OK


@routes.post("/runner/runs/{run_id}/completed")
async def completed(context: Context, run_id: RunId, report: Completed) -> Annotated[Json, Shape(answers.Done)]:
    """End a run with the result that was posted. Without one it is empty, or misses the output contract."""
    return await _ended(context, run_id, report, None, stays=report.session_status == "idle")


@routes.post("/runner/runs/{run_id}/failed")
async def failed(context: Context, run_id: RunId, report: Failed) -> Annotated[Json, Shape(answers.Done)]:
    """End a run as failed."""
    return await _ended(context, run_id, report, failure_of(report.error))


@routes.post("/runner/runs/{run_id}/stopped")
async def stopped(context: Context, run_id: RunId, report: StoppedReport) -> Annotated[Json, Shape(answers.Done)]:
    """End a run as stopped."""
    return await _ended(context, run_id, report, stopped_by(report.signal))


@routes.post("/runner/sessions/{session_id}/status")
async def session_ended(
    context: Context, session_id: SessionId, report: SessionEnded
) -> Annotated[Json, Shape(answers.Done)]:
    """Say that no process waits for a session's next run any more."""
    runner = await _runner(context, report.runner_id)
    await context.access.read(lambda store: found_session(store, session_id))
    if report.status not in ENDED_SESSIONS:
        raise Told(HTTPStatus.BAD_REQUEST, "invalid_status", "Status must be 'finished', 'failed', or 'stopped'")
    runner.idle.discard(session_id)
    return OK


@routes.get("/runners")
async def list_runners(context: Context) -> Annotated[Json, Shape(worker_answers.Runners)]:
    """List the registered runners, and the other processes that take runs from this store."""
    runners = [one.shown() for one in context.runners.all()]
    unknown: JsonObject = dict.fromkeys(("registered_at", "last_heartbeat", "seconds_since_heartbeat"))
    for name, owner in (await context.access.read(lambda store: store.workers.living())).items():
        if owner.serves and not context.runners.is_one(name):
            runners.append({"runner_id": name, **unknown, **registration_of(owner), "status": "online"})
    return {"runners": runners}


@routes.delete("/runners/{runner_id}")
async def deregister(
    context: Context, runner_id: Annotated[str, Segment], self_initiated: Annotated[bool, Query(alias="self")] = False
) -> Annotated[Json, Shape(worker_answers.DeregisteredRunner)]:
    """Send a runner away: with `self`, by itself and at once, which ends its runs; else by the answer to its poll."""
    runner = await context.runners.recognise(runner_id)
    if runner is None:
        raise Told(HTTPStatus.NOT_FOUND, "runner_not_found", "Runner not found")
    if self_initiated:
        await context.runners.remove(runner, ends_runs=True)
        return {**OK, "message": "Runner deregistered", "initiated_by": "self"}
    runner.is_leaving = True
    context.access.notify()
    return {**OK, "message": "Runner marked for deregistration", "initiated_by": "external"}


async def _runner(context: ServerContext, runner_id: str) -> OlderRunner:
    runner = await context.runners.recognise(runner_id)
    if runner is None:
        raise Told(HTTPStatus.UNAUTHORIZED, "runner_not_registered", "Runner not registered")
    return runner


async def _reported(context: ServerContext, run_id: str, report: Report) -> tuple[OlderRunner, RunState]:
    runner = await _runner(context, report.runner_id)
    return runner, await context.access.read(lambda store: found_run(store, run_id))


async def _ended(
    context: ServerContext, run_id: str, report: Report, terminal: Terminal | None, *, stays: bool = False
) -> dict[str, Any]:
    """End a run, unless it has ended already."""
    runner, state = await _reported(context, run_id, report)
    run = await context.runners.run_of(runner, state, report.attempt)
    if run is not None:
        last = terminal or run.terminal(needs_result=state.run.contract is not None)
        await context.runners.end(runner, run, last, stays=stays)
    return OK

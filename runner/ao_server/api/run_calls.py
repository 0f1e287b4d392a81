"""Runs: add, list, read, stop; batches, and requests that may be repeated."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, HTTPException, Path, Query, Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from ao_protocol.events import Failure, Result
from ao_protocol.framing import MAX_IDENTIFIER_CHARACTERS
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable
from ao_runner.durations import FORMS, seconds_from
from ao_runner.errors import RunnerError
from ao_runner.runs.lost_runs import cancel_run, fail_lost_runs, fail_stranded_runs
from ao_runner.runs.submission import AcceptedRun, NewRun, enqueue, new_batch_id
from ao_runner.runs.waiting import reasons_to_wait
from ao_runner.store.brief_fields import brief, without_data
from ao_runner.store.engine import ConstraintBroken
from ao_runner.store.records import OPEN_STATUSES, RunState, timestamp
from ao_runner.store.run_filter import RunFilter, SortKey
from ao_runner.store.store import Store
from ao_runner.store.worker_table import Offer
from ao_server.api import answers
from ao_server.api.answers import Json, Shape
from ao_server.context import Context, ServerContext, reads
from ao_server.problems import Told, in_batch, refusal
from ao_server.recording import note_targets
from ao_server.request_text import Segment
from ao_server.shapes import (
    STATUSES,
    STOPPING,
    STORED,
    RunStatusName,
    failures_of,
    shown_contract,
    shown_result,
    shown_run,
    terminal_of,
)
from ao_server.submission import RunBody, ServerSettings, accepted, digest_of, reception

routes = APIRouter(prefix="/runs", tags=["Runs"])
RunId = Annotated[str, Path(max_length=MAX_IDENTIFIER_CHARACTERS), Segment]
MAX_BATCH: Final = 1000
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        description="A repetition of the request with this key is answered as the first one, and adds nothing.",
    ),
]


class Batch(BaseModel):
    """Several runs that are added together, or not at all."""

    model_config = ConfigDict(extra="forbid")

    runs: list[RunBody] = Field(min_length=1, max_length=MAX_BATCH)


@routes.post("", status_code=HTTPStatus.CREATED)
async def create_run(
    context: Context, response: Response, wanted: RunBody, idempotency_key: IdempotencyKey = None
) -> Annotated[Json, Shape(answers.CreatedRun)]:
    """Add a run to the queue. Parameters and schemas are checked before."""
    runs = await submitted(context, [wanted], idempotency_key, response)
    response.headers["Location"] = f"/runs/{runs[0]['run_id']}"
    return runs[0]


@routes.post("/batch", status_code=HTTPStatus.CREATED)
async def create_runs(
    context: Context, response: Response, batch: Batch, idempotency_key: IdempotencyKey = None
) -> Annotated[Json, Shape(answers.CreatedBatch)]:
    """Add several runs to the queue, or none if one of them is refused."""
    runs = await submitted(context, batch.runs, idempotency_key, response, is_batch=True)
    response.headers["Location"] = f"/batches/{runs[0].get('batch_id')}"
    return {"batch_id": runs[0].get("batch_id"), "runs": runs}


async def submitted(
    context: ServerContext,
    wanted: Sequence[RunBody | NewRun],
    key: str | None = None,
    response: Response | None = None,
    *,
    is_batch: bool = False,
) -> list[JsonObject]:
    """Check runs, queue them together, and return the ids and the status of each. A repetition returns them again."""
    bodies = [run for run in wanted if isinstance(run, RunBody)]
    digest = await asyncio.to_thread(lambda: digest_of([run.model_dump(mode="json") for run in bodies]))

    def check(store: Store) -> list[JsonObject] | list[AcceptedRun]:
        return _answer_to(store, key, digest) or _checked(store, wanted, context.settings, is_batch=is_batch)

    def queue(store: Store, checked: Sequence[AcceptedRun]) -> list[JsonObject]:
        if (known := _answer_to(store, key, digest)) is not None:
            return known
        enqueue(store, *checked)
        runs: list[JsonObject] = []
        for run in (one.run for one in checked):
            ids: JsonObject = {"run_id": run.run_id, "session_id": run.session_id, "status": "pending"}
            runs.append(ids if run.batch_id is None else {**ids, "batch_id": run.batch_id})
        if key is not None:
            store.answers.put(key, digest, {"runs": list(runs)})
        return runs

    found = await context.access.read(check)
    checked = [one for one in found if isinstance(one, AcceptedRun)]
    if not checked:
        if response is not None:
            response.headers["Idempotent-Replayed"] = "true"
        return [one for one in found if isinstance(one, dict)]
    try:
        runs = await context.access.write(lambda store: queue(store, checked))
    except ConstraintBroken as error:
        raise Told(HTTPStatus.CONFLICT, "session_exists", "A session with this id already exists") from error
    context.access.notify()
    note_targets(*(str(run["run_id"]) for run in runs))
    return runs


def _checked(
    store: Store, wanted: Sequence[RunBody | NewRun], settings: ServerSettings, *, is_batch: bool
) -> list[AcceptedRun]:
    found = []
    at = replace(reception(store, settings), batch_id=new_batch_id() if is_batch else None)
    for number, run in enumerate(wanted):
        try:
            found.append(accepted(store, run, settings, at))
        except (HTTPException, RunnerError, NotInteroperable) as error:
            if not is_batch:
                raise
            raise in_batch(error, number) from error
    return found


def _answer_to(store: Store, key: str | None, digest: str) -> list[Any] | None:
    if key is None or (found := store.answers.find(key)) is None:
        return None
    if found[0] != digest:
        message = "the Idempotency-Key was used for another request; choose a new one"
        raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency_key_reused", message)
    runs: Any = found[1]["runs"]
    return list(runs)


def _in_utc(time: datetime) -> datetime:
    """Return a time in UTC; `ValueError` if that is not in the years 1 to 9999."""
    try:
        return time.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("it is not in the years 1 to 9999 of UTC") from error


def _no_number(written: object) -> object:
    """Return what was written; `ValueError` for a number, which Pydantic takes as seconds."""
    if "T" not in str(written).upper():
        raise ValueError("expected a time such as 2026-01-31T08:00:00Z")
    return written


Moment = Annotated[AwareDatetime, BeforeValidator(_no_number), AfterValidator(_in_utc)]


class RunQuery(BaseModel):
    """The filters of a list of runs. All have to fit."""

    status: RunStatusName | None = None
    agent_name: str | None = None
    profile: str | None = None
    session_id: str | None = None
    parent_session_id: str | None = None
    batch_id: str | None = None
    label: list[Annotated[str, Field(pattern="^[^=]+=")]] = Field([], description="A label, `name=text`; repeatable.")
    text: str | None = Field(None, description="Part of the parameters, in any case.")
    error_type: str | None = None
    since: Moment | None = Field(None, description="The earliest time at which the run was asked for.")
    until: Moment | None = Field(None, description="The time before which the run was asked for.")
    sort: SortKey | None = Field(None, description="Sort the newest 10,000 runs by it, the largest value first.")
    reverse: bool = Field(False, description="The smallest value first; without `sort`, the oldest run.")
    skip: int = Field(0, ge=0, le=2**31, description="How many runs of a sorted list are left out at its beginning.")
    before: int | None = Field(None, ge=0, le=2**62, description="`next_before` of the page before.")
    limit: int = Field(100, ge=1, le=1000)

    @property
    def filter(self) -> RunFilter:
        """The same for the store."""
        names: dict[Any, str | None] = {
            "profile": self.profile, "session_id": self.session_id, "parent_session_id": self.parent_session_id,
            "batch_id": self.batch_id, "error_type": self.error_type,
        }  # fmt: skip
        return RunFilter(
            statuses=() if self.status is None else (STORED[self.status],),
            agent=self.agent_name,
            equal={name: value for name, value in names.items() if value is not None},
            labels=dict(one.split("=", 1) for one in self.label),
            since=None if self.since is None else timestamp(self.since),
            until=None if self.until is None else timestamp(self.until),
            text=self.text,
            order=self.sort,
            is_rising=self.reverse,
            skip=self.skip,
            before=self.before,
            limit=self.limit,
        )


@routes.get("")
async def list_runs(context: Context, query: Annotated[RunQuery, Query()]) -> Annotated[Json, Shape(answers.RunList)]:
    """List runs, the newest first unless `sort` or `reverse` says otherwise."""

    def search(store: Store) -> JsonObject:
        states = store.runs.search(query.filter)
        runs = map(brief, _shown(store, states))
        is_sorted = query.sort is not None or query.reverse  # such a list goes on by `skip`
        more = states[-1].number if len(states) == query.limit and not is_sorted else None
        return {"runs": [run for run in runs if query.status in {None, run["status"]}], "next_before": more}

    return await context.access.read(search)


Wait = Annotated[
    float,
    BeforeValidator(seconds_from),
    Query(ge=0, le=30, description=f"Hold the answer back while the run is open, for at most 30 s: {FORMS}."),
]


@routes.get("/{run_id}")
async def get_run(context: Context, run_id: RunId, wait: Wait = 0) -> Annotated[Json, Shape(answers.RunDetails)]:
    """Return a run: its status, why it waits, how it ended, and what became of its output contract."""
    if wait:
        await _until_ended(context, run_id, wait)

    def find(store: Store) -> JsonObject:
        state = found_run(store, run_id)
        terminal = terminal_of(store, run_id) if state.run.status not in OPEN_STATUSES else None
        reason = reasons_to_wait(store, store.runs.states_of(state.run.session_id)).get(run_id)
        return {
            **_shown(store, [state])[0],
            "attachments": without_data(state.run.attachments),
            "metadata": state.run.metadata,
            "waiting": None if reason is None else reason.text,
            "failure": terminal.error.model_dump(exclude_none=True) if isinstance(terminal, Failure) else None,
            "output": shown_contract(store, state, terminal),
            "succeeded_by": store.runs.find_successor(run_id),
        }

    return await context.access.read(find)


async def _until_ended(context: ServerContext, run_id: str, seconds: float) -> None:
    """Wait until a run has ended, `seconds` have passed, or the server stops."""
    state = await context.access.read(lambda store: found_run(store, run_id))
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), context.live.watching(state.run.session_id) as changed:
            while state.run.status in OPEN_STATUSES and not context.live.closing.is_set():
                changed.clear()
                state = await context.access.read(lambda store: found_run(store, run_id))
                if state.run.status in OPEN_STATUSES:
                    await changed.wait()


@routes.get("/{run_id}/result", operation_id="get_run_result")
@reads
def get_result(store: Store, run_id: RunId) -> Annotated[Json, Shape(answers.RunResult)]:
    """Return the result of a run that has completed."""
    state, terminal = found_run(store, run_id), terminal_of(store, run_id)
    if not isinstance(terminal, Result):
        raise refusal(HTTPStatus.BAD_REQUEST, "no_result", f"Run {run_id} has no result: it is {state.run.status}")
    return shown_result(store, state, terminal)


@routes.post("/{run_id}/stop")
async def stop_run(context: Context, run_id: RunId) -> Annotated[Json, Shape(answers.Stopped)]:
    """Stop a run: a waiting one at once, a running one by its worker. A second request kills it."""
    return await stopped(context, (await context.access.read(lambda store: found_run(store, run_id))))


async def stopped(context: ServerContext, state: RunState) -> JsonObject:
    """Ask a run to stop and return what came of it."""
    before = await context.access.write(lambda store: cancel_run(store, state.run))
    context.access.notify()
    answer: JsonObject = {"ok": True, "run_id": state.run.run_id, "session_id": state.run.session_id}
    if before == "queued":
        return {**answer, "status": STATUSES["cancelled"].run, "message": "Run cancelled before execution"}
    if before == "running":
        again: JsonObject = {"message": "Run is already being stopped"} if state.stop_wanted else {}
        return {**answer, "status": STOPPING.run, **again}
    now = STATUSES[before or state.run.status].session
    return {**answer, "status": now, "message": f"Run has already ended: {now}"}


def found_run(store: Store, run_id: str) -> RunState:
    """Return the run with exactly this id.

    Raises:
        HTTPException: There is none.
    """
    found = [state for state in store.runs.find(run_id) if state.run.run_id == run_id]
    if not found:
        raise Told(HTTPStatus.NOT_FOUND, "run_not_found", "Run not found")
    return found[0]


def _shown(store: Store, states: Sequence[RunState]) -> list[JsonObject]:
    sessions = store.sessions.by_id({state.run.session_id for state in states})
    failures = failures_of(store, states)
    return [shown_run(one, sessions.get(one.run.session_id), failures.get(one.run.run_id)) for one in states]


async def sweep(context: ServerContext) -> None:
    """End the runs whose worker is gone."""
    await context.access.write_alone(fail_lost_runs)
    await context.access.write_alone(lambda store: fail_stranded_runs(store, Offer("").gone_seconds))

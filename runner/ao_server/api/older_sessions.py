"""Sessions in the older contract: executors bind them and post events, and clients list and follow these."""

import asyncio
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from itertools import islice
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from sse_starlette import EventSourceResponse, ServerSentEvent

from ao_protocol.events import InvalidEvent, RunStarted, parse_event
from ao_protocol.older_events import user_message
from ao_protocol.wire import JsonObject
from ao_runner.store.brief_fields import OMITTED
from ao_runner.store.records import RunState, Session
from ao_runner.store.run_filter import RunFilter
from ao_runner.store.store import Store
from ao_server.api import answers
from ao_server.api.answers import Json, Shape
from ao_server.api.runners import OK
from ao_server.api.sessions import SessionId, found_session, get_session
from ao_server.api.streams import STREAM, event_stream
from ao_server.context import Context, ServerContext, reads
from ao_server.event_log import FIRST, EventId, EventPosition, LoggedEvent, events_after, position_from
from ao_server.older.registrations import OlderRunner, OlderRunners
from ao_server.older.reports import OlderRun, PostedEvent, bound, older_row, time_of
from ao_server.problems import Told
from ao_server.shapes import shown_sessions

routes = APIRouter(tags=["Older clients"])
LOOK_SECONDS: Final = 0.5
MOST_RECENT: Final = 200
"""The number of newest runs whose sessions are followed."""


class Binding(BaseModel):
    """The executor's own session behind a session."""

    executor_session_id: str = Field(min_length=1, max_length=1000)
    hostname: str
    executor_profile: str = Field(min_length=1, max_length=1000)
    project_dir: str | None = None
    attempt: int | None = None


class Metadata(BaseModel):
    """Facts about a session. Only those that are not known from its runs have an effect."""

    last_resumed_at: str | None = None
    executor_session_id: str | None = Field(None, min_length=1, max_length=1000)
    project_dir: str | None = None
    agent_name: str | None = None
    executor_profile: str | None = Field(None, min_length=1, max_length=1000)
    hostname: str | None = None


class ListedEvent(PostedEvent):
    """An event in the older vocabulary."""

    id: str


class ListedEvents(BaseModel):
    """Events in the older vocabulary."""

    events: list[ListedEvent]


@routes.post("/sessions/{session_id}/bind")
async def bind(
    context: Context, session_id: SessionId, binding: Binding
) -> Annotated[Json, Shape(answers.ChangedSession)]:
    """Store the executor's own session, which a later run of the session resumes."""
    runner, run = await _going_on(context, session_id, binding.attempt)
    event = bound(binding.executor_session_id, binding.project_dir)
    await context.runners.add(runner, run, lambda: [event])
    await context.access.write(
        lambda store: store.sessions.place(session_id, binding.executor_profile, binding.project_dir)
    )
    return {**OK, **await get_session(context, context.runners.idle, session_id)}


@routes.post("/sessions/{session_id}/events", status_code=HTTPStatus.CREATED)
async def post_event(
    context: Context, session_id: SessionId, event: PostedEvent
) -> Annotated[Json, Shape(answers.Done)]:
    """Store an event of the run that goes on. One without a counterpart in the protocol is accepted and left out."""
    await context.access.read(lambda store: found_session(store, session_id))
    if event.session_id != session_id:
        raise Told(HTTPStatus.BAD_REQUEST, "other_session", "Event session_id must match URL session_id")
    runner, run = await _going_on(context, session_id, event.attempt)
    await context.runners.add(runner, run, lambda: run.bodies_of(event), time_of(event))
    return OK


@routes.patch("/sessions/{session_id}/metadata")
async def change_metadata(
    context: Context, session_id: SessionId, metadata: Metadata
) -> Annotated[Json, Shape(answers.ChangedSession)]:
    """Change what is known of a session."""
    await context.access.read(lambda store: found_session(store, session_id))

    def change(store: Store) -> None:
        if metadata.executor_session_id is not None:
            store.sessions.bind(session_id, metadata.executor_session_id)
        store.sessions.place(session_id, metadata.executor_profile, metadata.project_dir)

    await context.access.write(change)
    return {**OK, **await get_session(context, context.runners.idle, session_id)}


@routes.get("/sessions/{session_id}/events")
@reads
def list_events(
    store: Store,
    session_id: SessionId,
    after: Annotated[EventId, Query(description="The `id` of the last event that is known.")] = str(FIRST),
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Annotated[Json, Shape(ListedEvents)]:
    """List events in the older vocabulary: messages, tool calls and results."""
    session = found_session(store, session_id)
    states = {state.run.run_id: state for state in store.runs.states_of(session_id)}
    rows = (_row(store, session, states, one) for one in events_after(store, session_id, position_from(after)))
    return {"events": list(islice((row for row in rows if row is not None), limit))}


@routes.get("/sse/sessions", response_class=EventSourceResponse, responses=STREAM)
async def follow_sessions(
    context: Context, session_id: str | None = None, include_init: bool = True
) -> EventSourceResponse:
    """Send the changes of sessions and their events in the older vocabulary, until the server stops."""
    return event_stream(_changes(context, session_id, is_told_all=include_init))


async def _changes(
    context: ServerContext, session_id: str | None, *, is_told_all: bool
) -> AsyncIterator[ServerSentEvent]:
    followed = _Followed(session_id, idle=context.runners.idle)
    sessions = await context.access.read(followed.begin)
    if is_told_all:
        yield ServerSentEvent(event="init", data=json.dumps({"sessions": sessions}))
    while not context.live.closing.is_set():
        followed.idle = context.runners.idle
        for name, document in await context.access.read(followed.news):
            yield ServerSentEvent(event=name, data=json.dumps(document))
        await asyncio.sleep(LOOK_SECONDS)  # not a wakeup: a busy server has hundreds of them per second


class _Followed:
    """What a reader of changes knows: of each recent run its state, and the last event that was sent."""

    def __init__(self, session_id: str | None, idle: frozenset[str]) -> None:
        self.idle = idle
        wanted = {} if session_id is None else {"session_id": session_id}
        self._filter = RunFilter(equal=wanted, limit=MOST_RECENT)  # type: ignore[arg-type]  # the one key
        self._known: dict[str, RunState] = {}
        self._positions: dict[str, EventPosition] = {}

    def begin(self, store: Store) -> list[JsonObject]:
        """Return the sessions of the recent runs, the newest first, and take note of their state."""
        states = store.runs.search(self._filter)
        self._known = {state.run.run_id: state for state in states}
        newest_first = dict.fromkeys(state.run.session_id for state in states)
        sessions = store.sessions.by_id(newest_first)
        return [*shown_sessions(store, [sessions[one] for one in newest_first if one in sessions], self.idle).values()]

    def news(self, store: Store) -> list[tuple[str, JsonObject]]:
        """Return what has changed since the last call, the oldest first."""
        states = store.runs.search(self._filter)[::-1]
        changed = [state for state in states if self._known.get(state.run.run_id) != state]
        if not changed:
            return []
        sessions = store.sessions.by_id({state.run.session_id for state in changed})
        shown = shown_sessions(store, list(sessions.values()), self.idle)
        found: list[tuple[str, JsonObject]] = []
        for state in changed:
            session_id, before = state.run.session_id, self._known.get(state.run.run_id)
            if session_id not in sessions:
                continue
            name = "session_created" if before is None and state.run.mode == "start" else "session_updated"
            found.append((name, {"session": shown[session_id]}))
            found += self._events(store, sessions[session_id], state, 0 if before is None else before.last_seq)
            if state.run.status == "failed":
                error = state.run.error_type or "failed"
                found.append(("run_failed", {"run_id": state.run.run_id, "error": error, "session_id": session_id}))
        self._known = {state.run.run_id: state for state in states}
        self._positions = {run_id: self._positions[run_id] for run_id in self._positions.keys() & self._known.keys()}
        return found

    def _events(self, store: Store, session: Session, state: RunState, last_seq: int) -> list[tuple[str, JsonObject]]:
        run_id = state.run.run_id
        found: list[tuple[str, JsonObject]] = []
        for one in events_after(store, session.session_id, self._positions.get(run_id, FIRST), run_id):
            self._positions[run_id] = one.id
            if one.id.seq > last_seq and (row := _row(store, session, {run_id: state}, one)) is not None:
                found.append(("event", {"data": row}))
        return found


def _row(store: Store, session: Session, states: dict[str, RunState], logged: LoggedEvent) -> JsonObject | None:
    state = states.get(logged.run_id)
    try:
        event = parse_event(logged.line.encode())
    except InvalidEvent:
        return None
    if state is None:
        return None
    parameters = state.run.parameters
    if OMITTED in parameters and isinstance(event.body, RunStarted):
        parameters = store.runs.find(state.run.run_id)[0].run.parameters
    question = user_message(session.blueprint, parameters, is_start=state.run.mode == "start")
    return older_row(event, str(logged.id), question, is_posted=OlderRunners.is_one(state.owner))


async def _going_on(context: ServerContext, session_id: str, attempt: int | None) -> tuple[OlderRunner, OlderRun]:
    """Return the run of a session that goes on, and its runner.

    Raises:
        HTTPException: There is none whose events are posted here.
    """

    def find(store: Store) -> RunState | None:
        found_session(store, session_id)
        return next((state for state in store.runs.states_of(session_id) if state.run.status == "running"), None)

    state = await context.access.read(find)
    runner = None if state is None else await context.runners.recognise(state.owner)
    run = None if state is None or runner is None else await context.runners.run_of(runner, state, attempt)
    if runner is None or run is None:
        raise Told(HTTPStatus.CONFLICT, "no_run_of_runner", f"Session {session_id} has no run of a registered runner")
    return runner, run

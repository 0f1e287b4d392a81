"""Events as they happen, by Server-Sent Events. A reader that reconnects sends `Last-Event-ID` and misses nothing."""

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header
from sse_starlette import EventSourceResponse, ServerSentEvent

from ao_runner.store.records import OPEN_STATUSES
from ao_runner.store.store import Store
from ao_server.api.run_calls import RunId, found_run
from ao_server.api.sessions import SessionId, found_session
from ao_server.context import Context, ServerContext
from ao_server.event_log import EVENTS_AT_ONCE, FIRST, EventPosition, LoggedEvent, position_from, some_events
from ao_server.problems import Told

routes = APIRouter(tags=["Events"])
STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}
"""How a stream is documented."""
PING_SECONDS: Final = 15
LastEventId = Annotated[str | None, Header(description="The id of the last event that the reader has.")]


@routes.get("/sessions/{session_id}/stream", response_class=EventSourceResponse, responses=STREAM)
async def stream_session(
    context: Context, session_id: SessionId, last_event_id: LastEventId = None
) -> EventSourceResponse:
    """Send the events of a session as they are stored (SPEC 5). The stream stays open for its next runs."""
    await context.access.read(lambda store: found_session(store, session_id))
    return _events_of(context, session_id, last_event_id, None)


@routes.get("/runs/{run_id}/stream", response_class=EventSourceResponse, responses=STREAM)
async def stream_run(context: Context, run_id: RunId, last_event_id: LastEventId = None) -> EventSourceResponse:
    """Send the events of a run as they are stored (SPEC 5). The stream ends behind the terminal event."""
    state = await context.access.read(lambda store: found_run(store, run_id))
    return _events_of(context, state.run.session_id, last_event_id, run_id)


def _events_of(
    context: ServerContext, session_id: str, last_event_id: str | None, run_id: str | None
) -> EventSourceResponse:
    return event_stream(
        ServerSentEvent(id=str(one.id), event=json.loads(one.line)["event_type"], data=one.line)
        async for one in live_events(context, session_id, position_behind(last_event_id), run_id)
    )


def position_behind(last_event_id: str | None) -> EventPosition:
    """Return the position behind which a reader goes on; without an id, the one before all events.

    Raises:
        HTTPException: The id is none.
    """
    try:
        return FIRST if not last_event_id else position_from(last_event_id)
    except ValueError as error:
        raise Told(HTTPStatus.BAD_REQUEST, "invalid_event_id", f"Last-Event-ID: {error}") from error


def event_stream(events: AsyncIterator[ServerSentEvent]) -> EventSourceResponse:
    """Return events as an answer that no proxy holds back."""
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return EventSourceResponse(events, ping=PING_SECONDS, headers=headers)


async def live_events(
    context: ServerContext, session_id: str, after: EventPosition, run_id: str | None = None
) -> AsyncIterator[LoggedEvent]:
    """Yield the events of a session behind a position, and new ones as they are stored.

    With a run, end behind its last event; otherwise go on until the server stops.
    """

    def page(store: Store) -> tuple[bool, list[LoggedEvent]]:
        # Asked before reading: an event that comes between the two is read in the next round.
        states = [state for state in store.runs.states_of(session_id) if run_id in {None, state.run.run_id}]
        is_over = run_id is not None and not any(state.run.status in OPEN_STATUSES for state in states)
        return is_over, some_events(store, session_id, after, run_id)

    async with context.live.watching(session_id) as changed:
        while not context.live.closing.is_set():
            changed.clear()
            is_over, events = await context.access.read(page)
            for event in events:
                yield event
                after = event.id
            if len(events) == EVENTS_AT_ONCE:
                continue
            if is_over:
                return
            await changed.wait()

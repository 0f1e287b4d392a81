"""Downloads: events as NDJSON, one event, results and whole runs as JSON."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Path
from fastapi.responses import Response, StreamingResponse

from ao_protocol.events import Result
from ao_runner.store.store import Store
from ao_server.api.run_calls import RunId, found_run, get_run
from ao_server.api.sessions import SessionId, found_session
from ao_server.context import Context, ServerContext, reads
from ao_server.event_log import FIRST, EventPosition, events_after, position_from, some_events
from ao_server.shapes import terminal_of

routes = APIRouter(include_in_schema=False)
NDJSON: Final = "application/x-ndjson"


@routes.get("/ui/runs/{run_id}/events.ndjson")
async def events_of_run(context: Context, run_id: RunId) -> Response:
    """Send the events of a run as they are stored."""
    state = await context.access.read(lambda store: found_run(store, run_id))
    return _attached(_lines(context, state.run.session_id, run_id), "events.ndjson")


@routes.get("/ui/sessions/{session_id}/events.ndjson")
async def events_of_session(context: Context, session_id: SessionId) -> Response:
    """Send the events of all runs of a session as they are stored."""
    await context.access.read(lambda store: found_session(store, session_id))
    return _attached(_lines(context, session_id, None), "events.ndjson")


@routes.get("/ui/runs/{run_id}/events/{event_id}")
@reads
def event(store: Store, run_id: RunId, event_id: Annotated[str, Path(pattern="^[0-9]{1,18}-[0-9]{1,18}$")]) -> Response:
    """Show one event as it is stored."""
    position, seq = position_from(event_id)
    before = EventPosition(position, seq - 1)
    found = next(events_after(store, found_run(store, run_id).run.session_id, before, run_id), None)
    if found is None or str(found.id) != event_id:
        raise HTTPException(404, f"Run {run_id} has no event {event_id}")
    return Response(found.line, media_type="text/plain; charset=utf-8")


@routes.get("/ui/runs/{run_id}/result.json")
@reads
def result(store: Store, run_id: RunId) -> Response:
    """Send the result of a run: its data if it has some, else its text."""
    state, terminal = found_run(store, run_id), terminal_of(store, run_id)
    if not isinstance(terminal, Result):
        raise HTTPException(404, f"Run {run_id} has no result: it is {state.run.status}")
    value = terminal.result_text if terminal.result_data is None else terminal.result_data
    return _attached(json.dumps(value, indent=2), "result.json", "application/json")


@routes.get("/ui/runs/{run_id}/run.json")
async def run(context: Context, run_id: RunId) -> Response:
    """Send a run as the API has it."""
    return _attached(json.dumps(await get_run(context, run_id), indent=2), "run.json", "application/json")


async def _lines(context: ServerContext, session_id: str, run_id: str | None) -> AsyncIterator[str]:
    after = FIRST
    while events := await context.access.read(lambda store: some_events(store, session_id, after, run_id)):  # noqa: B023  # awaited here
        yield "".join(f"{one.line}\n" for one in events)
        after = events[-1].id


def _attached(content: str | AsyncIterator[str], name: str, media_type: str = NDJSON) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    if isinstance(content, str):
        return Response(content, 200, headers, media_type)
    return StreamingResponse(content, 200, headers, media_type)

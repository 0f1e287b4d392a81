"""Sessions: list, read, result, events, stop and delete."""

from http import HTTPStatus
from itertools import islice
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query

from ao_protocol.events import Result
from ao_protocol.framing import MAX_IDENTIFIER_CHARACTERS, decode_object
from ao_runner.store.records import OPEN_STATUSES, RunState, Session
from ao_runner.store.store import Store
from ao_server.api import answers
from ao_server.api.answers import Json, Shape
from ao_server.api.run_calls import stopped
from ao_server.context import Context, Idle, reads
from ao_server.event_log import FIRST, EventId, events_after, position_from
from ao_server.problems import Told
from ao_server.request_text import Segment
from ao_server.shapes import current_status, shown_result, shown_sessions, terminal_of

routes = APIRouter(prefix="/sessions", tags=["Sessions"])
SessionId = Annotated[str, Path(max_length=MAX_IDENTIFIER_CHARACTERS), Segment]
MAX_EVENTS: Final = 1000


@routes.get("")
@reads
def list_sessions(
    store: Store,
    idle: Idle,
    limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
    parent_session_id: str | None = None,
    after: Annotated[
        str | None, Query(description="List all, in pages: first with an empty text, then with `next_after`.")
    ] = None,
) -> Annotated[Json, Shape(answers.SessionList)]:
    """List sessions, the one with the newest run first; with `after`, in the order of their ids."""
    found = store.sessions.all() if after is None else store.sessions.after(after, limit)
    sessions = [one for one in found if parent_session_id in {None, one.parent_session_id}][:limit]
    rest = {} if after is None else {"next_after": found[-1].session_id if len(found) == limit else None}
    return {"sessions": list(shown_sessions(store, sessions, idle).values()), **rest}


@routes.get("/{session_id}")
@reads
def get_session(store: Store, idle: Idle, session_id: SessionId) -> Annotated[Json, Shape(answers.OneSession)]:
    """Return a session."""
    return {"session": shown_sessions(store, [found_session(store, session_id)], idle)[session_id]}


@routes.get("/{session_id}/status")
@reads
def get_status(store: Store, idle: Idle, session_id: SessionId) -> Annotated[Json, Shape(answers.CurrentStatus)]:
    """Return the status of a session; `not_existent` if there is none."""
    if not store.sessions.exists(session_id):
        return {"status": "not_existent"}
    return {"status": current_status(store.runs.states_of(session_id), is_idle=session_id in idle)}


@routes.get("/{session_id}/result", operation_id="get_session_result")
@reads
def get_result(store: Store, session_id: SessionId) -> Annotated[Json, Shape(answers.RunResult)]:
    """Return the result of the last run, with `validated_output` and `schema_validation`."""
    found_session(store, session_id)
    states = store.runs.states_of(session_id)
    if current_status(states) not in {"finished", "idle"}:
        raise Told(HTTPStatus.BAD_REQUEST, "session_not_finished", "Session not finished or idle")
    terminal = terminal_of(store, states[-1].run.run_id)
    if not isinstance(terminal, Result):
        raise Told(HTTPStatus.NOT_FOUND, "no_result", "No result found")
    return shown_result(store, states[-1], terminal)


@routes.get("/{session_id}/affinity")
@reads
def get_affinity(store: Store, session_id: SessionId) -> Annotated[Json, Shape(answers.SessionAffinity)]:
    """Return where a session lives."""
    session = found_session(store, session_id)
    return {
        "affinity": {
            "hostname": session.host,
            "project_dir": session.project_dir,
            "executor_profile": session.profile,
            "executor_session_id": session.executor_session_id,
        }
    }


@routes.get("/{session_id}/log")
@reads
def list_protocol_events(
    store: Store,
    session_id: SessionId,
    after: Annotated[EventId, Query(description="`next_after` of the page before.")] = str(FIRST),
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS)] = 100,
    run_id: str | None = None,
) -> Annotated[Json, Shape(answers.EventPage)]:
    """List the events of a session as the protocol has them (SPEC 5), in pages."""
    found_session(store, session_id)
    page = list(islice(events_after(store, session_id, position_from(after), run_id), limit + 1))
    shown_events = [
        {"id": str(one.id), "run_id": one.run_id, "event": decode_object(one.line.encode())} for one in page[:limit]
    ]
    return {"events": shown_events, "next_after": str(page[limit - 1].id) if len(page) > limit else None}


@routes.post("/{session_id}/stop")
async def stop_session(context: Context, session_id: SessionId) -> Annotated[Json, Shape(answers.Stopped)]:
    """Stop the open run of a session."""

    def find(store: Store) -> list[RunState]:
        found_session(store, session_id)
        return store.runs.states_of(session_id)

    states = await context.access.read(find)
    still_open = [state for state in states if state.run.status in OPEN_STATUSES]
    if not still_open and context.runners.stop_idle(session_id):
        message = "Stop command queued for idle session"
        return {"ok": True, "session_id": session_id, "status": "stopping", "message": message}
    if not still_open:
        status = current_status(states)
        return {"ok": True, "session_id": session_id, "status": status, "message": f"Session already {status}"}
    return await stopped(context, still_open[0])


@routes.delete("/{session_id}")
async def delete_session(context: Context, session_id: SessionId) -> Annotated[Json, Shape(answers.DeletedSession)]:
    """Delete a session with its runs and events. One that is running has to be stopped first."""
    await context.access.read(lambda store: found_session(store, session_id))
    deleted = await context.access.write_alone(lambda store: store.deletions.delete([session_id]))
    return {"ok": True, "session_id": session_id, "deleted": {"runs_count": sum(one.runs for one in deleted)}}


def found_session(store: Store, session_id: str) -> Session:
    """Return the session with exactly this id.

    Raises:
        HTTPException: There is none.
        RowDamaged: It cannot be read.
    """
    if not store.sessions.exists(session_id):
        raise Told(HTTPStatus.NOT_FOUND, "session_not_found", "Session not found")
    return store.sessions.find(session_id)

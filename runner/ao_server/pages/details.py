"""The pages of one run and of one session: what was asked, what happens, and what came of it."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Header, HTTPException, Request
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from sse_starlette import EventSourceResponse
from starlette.responses import Response

from ao_protocol.events import UsageFigures
from ao_protocol.wire import problems_of
from ao_runner.errors import RunnerError
from ao_runner.store.brief_fields import without_data
from ao_runner.store.records import RunState, Session
from ao_runner.store.store import Store
from ao_server.api.run_calls import RunId, found_run, submitted
from ao_server.api.sessions import SessionId, found_session
from ao_server.api.streams import event_stream, position_behind
from ao_server.context import Context, reads
from ao_server.event_log import position_from
from ao_server.pages.errors import told, wants_html
from ao_server.pages.family import family_of
from ao_server.pages.rendering import can_act, fragment, page
from ao_server.pages.requests import waiting_of
from ao_server.pages.run_view import RunRow, head_of, rows_of
from ao_server.pages.streaming import timeline_stream
from ao_server.pages.timeline import EVENTS_OF_PAGE, Window, pretty, window_of
from ao_server.pages.uploads import ATTACHED, read_form
from ao_server.problems import answer_to, refusal
from ao_server.shapes import current_status
from ao_server.submission import RunBody

routes = APIRouter(include_in_schema=False)
LastEventId = Annotated[str | None, Header()]


@routes.get("/ui/runs/{run_id}")
@reads
def show_run(store: Store, request: Request, run_id: RunId, until: str = "", at: str = "") -> Response:
    """Show a run. `until` is a run and a `seq`, as 'earlier' links have it; `at` is an event that must be shown."""
    state = found_run(store, run_id)
    window, asked = _window_at(store, state, until, at), pretty(dict(state.run.parameters))
    attached = without_data(state.run.attachments)
    shown: dict[str, Any] = {"window": window, "parameters": asked, "attachments": attached, "metadata": None}
    if state.run.metadata:
        shown["metadata"] = pretty(dict(state.run.metadata))
    return page(request, "run.html", **shown, **_head_of_run(store, state))


@routes.get("/ui/runs/{run_id}/stream")
async def stream_run(
    request: Request, context: Context, run_id: RunId, after: str = "0-0", last_event_id: LastEventId = None
) -> EventSourceResponse:
    """Send what is new on the page of a run."""
    state = await context.access.read(lambda store: found_run(store, run_id))
    acts = can_act(request)

    def head(store: Store, states: Sequence[RunState]) -> str:
        return fragment("_run.html", can_act=acts, is_update=True, **_head_of_run(store, states[0])) if states else ""

    position = position_behind(last_event_id or after)
    return event_stream(timeline_stream(context, state.run.session_id, position, run_id, head))


@routes.get("/ui/sessions/{session_id}")
@reads
def show_session(store: Store, request: Request, session_id: SessionId, until: str = "") -> Response:
    """Show a session with all its runs."""
    return _session_page(store, request, session_id, until)


@routes.post("/ui/sessions/{session_id}/resume")
async def resume(request: Request, context: Context, session_id: SessionId) -> Response:
    """Add a run that continues a session with a prompt and files, or show why not, with the text that was typed."""
    given, attached = await read_form(request)
    prompt = given.get("prompt", "").replace("\r\n", "\n")
    try:
        try:
            wanted = RunBody(
                type="resume_session", session_id=session_id, parameters={"prompt": prompt}, attachments=attached
            )
        except ValidationError as error:
            found = "; ".join(problems_of(error, {ATTACHED: attached}))
            raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_attachments", found) from error
        await submitted(context, [wanted])
    except (HTTPException, RunnerError) as error:
        known = await context.access.read(lambda store: store.sessions.exists(session_id))
        if not (known and wants_html(request)):
            raise
        status, detail = answer_to(error)
        message, problems = told(detail)
        refused = (status, prompt, " ".join([message, *problems]))
        return await context.access.read(lambda store: _session_page(store, request, session_id, "", refused))
    return RedirectResponse(f"/ui/sessions/{quote(session_id, safe='')}", HTTPStatus.SEE_OTHER)


@routes.get("/ui/sessions/{session_id}/stream")
async def stream_session(
    request: Request, context: Context, session_id: SessionId, after: str = "0-0", last_event_id: LastEventId = None
) -> EventSourceResponse:
    """Send what is new on the page of a session."""
    await context.access.read(lambda store: found_session(store, session_id))
    acts = can_act(request)

    def head(store: Store, states: Sequence[RunState]) -> str:
        # Read anew each time: its first run tells the executor's own id of the session, and places it on a host.
        session = store.sessions.by_id([session_id]).get(session_id)
        if session is None:  # deleted meanwhile
            return ""
        return fragment("_session.html", can_act=acts, is_update=True, **_head_of_session(store, session, states))

    return event_stream(timeline_stream(context, session_id, position_behind(last_event_id or after), None, head))


def _session_page(
    store: Store, request: Request, session_id: str, until: str = "", refused: tuple[int, str, str] = (200, "", "")
) -> Response:
    """Return the page of a session. `refused` is a status, the prompt that was typed, and why it was refused."""
    status, typed, wrong = refused
    states = store.runs.states_of(session_id)
    window = window_of(store, states, _until(until)) if states else None
    head = _head_of_session(store, found_session(store, session_id), states)
    return page(request, "session.html", status, window=window, typed=typed, wrong=wrong, **head)


def _window_at(store: Store, state: RunState, until: str, at: str) -> Window:
    """Return a part of the timeline of a run; the newest one that contains the event `at` if that is given."""
    window = window_of(store, [state], _until(until), is_run_page=True)
    try:
        seq = position_from(at).seq
    except ValueError:
        return window
    for end in (seq + EVENTS_OF_PAGE // 2, seq + 1):
        if f'id="e{at}"' not in window.html:
            window = window_of(store, [state], (state.run.run_id, end), is_run_page=True)
    return window


def _head_of_run(store: Store, state: RunState) -> dict[str, Any]:
    head = head_of(store, state)
    return {
        "head": head,
        "row": head["row"],
        "family": family_of(store, state.run.session_id),
        "given_up": store.deliveries.given_up("", state.run.run_id),
    }


def _head_of_session(store: Store, session: Session, states: Sequence[RunState]) -> dict[str, Any]:
    rows = rows_of(store, states)
    is_open = bool(rows) and rows[-1].is_open
    return {
        "session": session,
        "now": current_status(states),
        "rows": rows,
        "head": head_of(store, states[-1], rows[-1]) if states else None,
        "requests": [one for row in rows if row.asks for one in waiting_of(store, row.run_id)],
        "family": family_of(store, session.session_id),
        "used": _sum(rows),
        "seconds": sum(row.seconds or 0 for row in rows),
        "is_open": is_open,
        "can_resume": is_open or (bool(rows) and session.executor_session_id is not None),
    }


def _sum(rows: Sequence[RunRow]) -> UsageFigures | None:
    used = [row.usage for row in rows if row.usage is not None]
    costs = [one.cost_usd for one in used if one.cost_usd is not None]
    return UsageFigures(
        input_tokens=sum(one.input_tokens for one in used),
        output_tokens=sum(one.output_tokens for one in used),
        cost_usd=sum(costs) if costs else None,
    ) if used else None  # fmt: skip


def _until(written: str) -> tuple[str, int] | None:
    run_id, _, seq = written.rpartition(".")
    return (run_id, int(seq)) if run_id and seq.isascii() and seq.isdigit() and len(seq) < 19 else None

"""The lists of runs and of sessions, which follow the store as it changes."""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, RedirectResponse
from sse_starlette import EventSourceResponse
from starlette.responses import Response

from ao_runner.store.store import Store
from ao_server.context import Context
from ao_server.pages.attention import attention_of
from ao_server.pages.errors import wants_html
from ao_server.pages.filters import ROWS, STATUS_NAMES, TIMES, Filter, ListFilter
from ao_server.pages.rendering import page
from ao_server.pages.run_view import outcomes_of, rows_of
from ao_server.pages.streaming import list_stream

routes = APIRouter(include_in_schema=False)
MOST_IN_NEED: Final = 5


@routes.get("/")
async def begin(request: Request) -> Response:
    """Lead a browser to the runs, and say to programs where the API is."""
    if wants_html(request):
        return RedirectResponse("/ui/runs", 303)
    return JSONResponse({"api": "/openapi.json", "pages": "/ui/runs", "health": "/health"})


@routes.get("/ui/runs")
async def list_runs(request: Request, context: Context, wanted: Filter) -> Response:
    """Show the runs, those that need a person first."""
    return page(request, "runs.html", **await context.access.read(lambda store: _runs(store, wanted)))


@routes.get("/ui/runs/stream")
async def stream_runs(request: Request, context: Context, wanted: Filter) -> EventSourceResponse:
    """Send the list of runs whenever it changes."""
    return list_stream(request, context, "_runs.html", lambda store: _runs(store, wanted))


@routes.get("/ui/sessions")
async def list_sessions(request: Request, context: Context, wanted: Filter) -> Response:
    """Show the sessions, the one with the newest run first."""
    return page(request, "sessions.html", **await context.access.read(lambda store: _sessions(store, wanted)))


@routes.get("/ui/sessions/stream")
async def stream_sessions(request: Request, context: Context, wanted: Filter) -> EventSourceResponse:
    """Send the list of sessions whenever it changes."""
    return list_stream(request, context, "_sessions.html", lambda store: _sessions(store, wanted))


def _runs(store: Store, wanted: ListFilter) -> dict[str, Any]:
    attention = None if wanted.is_set else attention_of(store)
    listed = _listed(store, wanted)
    # A text is looked for in whole events, which costs too much to count.
    others = wanted.with_status("").of_store(store, listed["agents"])
    counts: Mapping[Any, int] = {} if wanted.is_set else store.figures.count_by_status()
    if wanted.is_set and not wanted.text:
        counts = store.runs.count(others)
    of_batch = store.runs.count_batch(wanted.batch) if wanted.batch else {}
    return {
        **listed,
        "counts": {name: None if wanted.text else counts.get(stored, 0) for name, stored in STATUS_NAMES.items()},
        "total": None if wanted.text else sum(counts.values()),
        "of_batch": {name: of_batch.get(stored, 0) for name, stored in STATUS_NAMES.items()},
        "in_need": attention.rows if attention else [],
        "in_inbox": attention.count if attention else "",
        "most_in_need": MOST_IN_NEED,
    }


def _sessions(store: Store, wanted: ListFilter) -> dict[str, Any]:
    listed = _listed(store, wanted, only_last=True)
    return {**listed, "outcomes": outcomes_of(store, listed["rows"]), "statuses": list(STATUS_NAMES)}


def _listed(store: Store, wanted: ListFilter, *, only_last: bool = False) -> dict[str, Any]:
    agents = [agent.name for agent in store.agents.all()]
    states = store.runs.search(wanted.of_store(store, agents, only_last=only_last))
    return {
        "wanted": wanted,
        "rows": rows_of(store, states[:ROWS]),
        "older": wanted.behind(states[ROWS - 1].number) if len(states) > ROWS else None,
        "agents": agents,
        "times": TIMES,
    }

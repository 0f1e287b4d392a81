"""Pages about the whole: what needs a person, and what has been changed."""

import re
from time import monotonic
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from sse_starlette import EventSourceResponse
from starlette.responses import Response

from ao_runner.store.store import Store
from ao_server.context import Context, reads
from ao_server.pages.attention import attention_of
from ao_server.pages.rendering import page, templates
from ao_server.pages.run_view import outcomes_of
from ao_server.pages.streaming import list_stream

routes = APIRouter(include_in_schema=False)
COUNT_SECONDS: Final = 1.0
ACTIONS_AT_ONCE: Final = 200
ACTIONS_DAYS: Final = 90
"""For how long actions are kept."""
DEEDS: Final = (
    (r"/(again|rerun)$", "ran again"),
    (r"/inputs/", "answered"),
    (r"/(cancel|stop)$", "stopped"),
    (r"POST (/runs|/ui/agents/[^/]+/run|/batches)$", "started"),
    (r"/sessions/[^/]+/resume$", "continued"),
    (r"/(runs|inbox)/actions$", "acted on several"),
    (r"/workers/pause$|PUT /limits/", "limited"),
    (r"/workers/resume$|DELETE /limits/", "ended a limit of"),
    (r"/drain$", "drained"),
    (r"^DELETE |/delete$", "deleted"),
    (r"/(status|secret)$|^P(UT|ATCH) ", "changed"),
    (r"POST (/ui)?/(agents|schemas|webhooks)(/_new)?$", "created"),
    (r"POST /ui/agents/[^/]+$", "changed"),
)
"""What somebody did, in a word, by a part of the method and path of the request; the first one that fits."""


def deed_of(request: str) -> str:
    """Return what the method and path of a request did, in a word for people; empty for a rare one."""
    return next((word for part, word in DEEDS if re.search(part, request)), "")


templates.filters["deed"] = deed_of


@routes.get("/ui/inbox")
@reads
def inbox(store: Store, request: Request) -> Response:
    """Show the runs that need a person."""
    return page(request, "inbox.html", **_inbox(store))


@routes.get("/ui/inbox/count")
async def count_inbox(request: Request, context: Context) -> JSONResponse:
    """Tell how many entries the inbox has, and how many of them are requests of runs. It is counted once for all."""
    kept: tuple[float, dict[str, Any]] | None = getattr(request.app.state, "inbox_count", None)
    if kept is None or monotonic() - kept[0] > COUNT_SECONDS:
        found = await context.access.read(attention_of)
        kept = monotonic(), {"count": found.count, "asking": len(found.asking) + found.more_asking}
        request.app.state.inbox_count = kept
    return JSONResponse(kept[1], headers={"Cache-Control": "no-store"})


@routes.get("/ui/inbox/stream")
async def stream_inbox(request: Request, context: Context) -> EventSourceResponse:
    """Send what needs a person whenever it changes."""
    return list_stream(request, context, "_inbox.html", _inbox)


def _inbox(store: Store) -> dict[str, Any]:
    attention = attention_of(store)
    return {"attention": attention, "outcomes": outcomes_of(store, attention.rows)}


@routes.get("/ui/actions")
@reads
def actions(store: Store, request: Request, before: Annotated[int | None, Query(ge=1, lt=2**62)] = None) -> Response:
    """Show what clients and pages have changed, newest first."""
    found = store.actions.newest(before, ACTIONS_AT_ONCE + 1)
    older = found[ACTIONS_AT_ONCE - 1].number if len(found) > ACTIONS_AT_ONCE else None
    return page(request, "actions.html", actions=found[:ACTIONS_AT_ONCE], older=older, days=ACTIONS_DAYS)

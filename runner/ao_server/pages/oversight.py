"""Pages about the whole: what needs a person, what has been changed, and what runs have cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from sse_starlette import EventSourceResponse
from starlette.responses import Response

from ao_runner.store.run_figures import NEWEST_RUNS, EndedRun
from ao_runner.store.store import Store
from ao_server.context import Context, reads
from ao_server.pages.attention import attention_of
from ao_server.pages.calls import seconds_between
from ao_server.pages.rendering import page
from ao_server.pages.streaming import list_stream

routes = APIRouter(include_in_schema=False)
COUNT_SECONDS: Final = 1.0
ACTIONS_AT_ONCE: Final = 200
ACTIONS_DAYS: Final = 90
"""For how long actions are kept."""


@dataclass(frozen=True, slots=True)
class Total:
    """What some runs have used together."""

    label: str
    runs: int
    seconds: float
    cost_usd: float | None
    input_tokens: int
    output_tokens: int


@routes.get("/ui/inbox")
@reads
def inbox(store: Store, request: Request) -> Response:
    """Show the runs that need a person."""
    return page(request, "inbox.html", attention=attention_of(store))


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
    return list_stream(request, context, "_inbox.html", lambda store: {"attention": attention_of(store)})


@routes.get("/ui/actions")
@reads
def actions(store: Store, request: Request, before: Annotated[int | None, Query(ge=1, lt=2**62)] = None) -> Response:
    """Show what clients and pages have changed, newest first."""
    found = store.actions.newest(before, ACTIONS_AT_ONCE + 1)
    older = found[ACTIONS_AT_ONCE - 1].number if len(found) > ACTIONS_AT_ONCE else None
    return page(request, "actions.html", actions=found[:ACTIONS_AT_ONCE], older=older, days=ACTIONS_DAYS)


@routes.get("/ui/usage")
@reads
def usage(store: Store, request: Request) -> Response:
    """Show what the newest runs have used, by day and by agent."""
    return page(request, "usage.html", newest=NEWEST_RUNS, **_usage(store))


@routes.get("/ui/usage/stream")
async def stream_usage(request: Request, context: Context) -> EventSourceResponse:
    """Send what the newest runs have used whenever that changes."""
    return list_stream(request, context, "_usage.html", _usage)


def _usage(store: Store) -> dict[str, Any]:
    ended = store.figures.ended_runs()
    return {
        "total": _total("All", ended),
        "days": _totals(ended, lambda run: run.ended_at[:10])[:31],
        "agents": sorted(_totals(ended, lambda run: run.agent_name), key=lambda one: -one.runs)[:100],
    }


def _totals(runs: Sequence[EndedRun], label_of: Callable[[EndedRun], str]) -> list[Total]:
    """Return a total for each label, in the order of their first runs."""
    grouped: dict[str, list[EndedRun]] = {}
    for run in runs:
        grouped.setdefault(label_of(run), []).append(run)
    return [_total(label, group) for label, group in grouped.items()]


def _total(label: str, runs: Sequence[EndedRun]) -> Total:
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    return Total(
        label=label,
        runs=len(runs),
        seconds=sum(seconds_between(run.started_at, run.ended_at) for run in runs),
        cost_usd=sum(costs) if costs else None,
        input_tokens=sum(run.input_tokens or 0 for run in runs),
        output_tokens=sum(run.output_tokens or 0 for run in runs),
    )

"""The page of costs: what runs have used, by day, agent, model and profile, and what a budget has stopped."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request
from sse_starlette import EventSourceResponse
from starlette.responses import Response

from ao_protocol.errors import ErrorType
from ao_runner.profiles import Profile, ProfileFolderUnreadable, list_profiles
from ao_runner.store.records import timestamp
from ao_runner.store.run_figures import EndedRun
from ao_runner.store.run_filter import NEWEST_RUNS
from ao_runner.store.store import Store
from ao_server.context import Context
from ao_server.pages.calls import seconds_between
from ao_server.pages.chart import Chart, chart_of
from ao_server.pages.filters import TIMES, Filter, ListFilter
from ao_server.pages.rendering import page
from ao_server.pages.streaming import list_stream

routes = APIRouter(include_in_schema=False)
MOST_ROWS: Final = 100
MOST_DAYS: Final = 31


@dataclass(frozen=True, slots=True)
class Total:
    """What some runs have used together."""

    label: str
    runs: int
    seconds: float
    cost_usd: float | None
    input_tokens: int
    output_tokens: int
    stopped: int = 0
    """How many of them ended at a limit of their profile or agent: turns, or cost."""
    budget_usd: float | None = None
    """What one run of the profile may cost."""


@routes.get("/ui/usage")
async def usage(request: Request, context: Context, wanted: Filter) -> Response:
    """Show what the newest runs have used; of the filters of lists, that for the time counts."""
    profiles = _profiles(context.settings.home, context.settings.environ)
    found = await context.access.read(lambda store: _usage(store, wanted, profiles))
    return page(request, "usage.html", newest=NEWEST_RUNS, **found)


@routes.get("/ui/usage/stream")
async def stream_usage(request: Request, context: Context, wanted: Filter) -> EventSourceResponse:
    """Send what the newest runs have used whenever that changes."""
    profiles = _profiles(context.settings.home, context.settings.environ)
    return list_stream(request, context, "_usage.html", lambda store: _usage(store, wanted, profiles))


def _profiles(home: Path, environ: Mapping[str, str]) -> dict[str, Profile]:
    """Return the valid profiles of the server's host, by name, as they are now; the workers page has the others."""
    try:
        return {one.name: one.profile for one in list_profiles(home, environ) if one.profile is not None}
    except ProfileFolderUnreadable:
        return {}


def _usage(store: Store, wanted: ListFilter, profiles: Mapping[str, Profile]) -> dict[str, Any]:
    ended = store.figures.ended_runs(timestamp(store.now() - TIMES[wanted.since][1]) if wanted.since else "")

    def model_of(run: EndedRun) -> str:
        profile = profiles.get(run.profile or "")
        of_profile = (profile.model or profile.config.get("model")) if profile is not None else None
        return str(run.model or of_profile or "")

    def by(label_of: Callable[[EndedRun], str]) -> list[Total]:
        return sorted(_totals(ended, label_of, profiles), key=lambda one: (-(one.cost_usd or 0), -one.runs))[:MOST_ROWS]

    days = sorted(_totals(ended, _day_of), key=lambda one: one.label, reverse=True)
    return {
        "wanted": wanted,
        "times": TIMES,
        "total": _total("All", ended),
        "days": days[:MOST_DAYS],
        "agents": by(lambda run: run.agent_name),
        "models": by(model_of),
        "profiles": by(lambda run: run.profile or ""),
        "chart": _chart(ended),
    }


def _chart(runs: Sequence[EndedRun]) -> Chart | None:
    """Return the costs by day and agent; the tokens, where no run has told its cost."""
    has_costs = any(run.cost_usd for run in runs)
    used: dict[tuple[str, str], float] = {}
    for run in runs:
        tokens = (run.input_tokens or 0) + (run.output_tokens or 0)
        key = _day_of(run), run.agent_name or "no agent"
        used[key] = used.get(key, 0) + ((run.cost_usd or 0) if has_costs else tokens)
    return chart_of(used, "Cost in US dollars" if has_costs else "Tokens", MOST_DAYS)


def _day_of(run: EndedRun) -> str:
    return run.ended_at[:10]


def _totals(
    runs: Sequence[EndedRun], label_of: Callable[[EndedRun], str], profiles: Mapping[str, Profile] | None = None
) -> list[Total]:
    """Return a total for each label, in the order of their first runs."""
    grouped: dict[str, list[EndedRun]] = {}
    for run in runs:
        grouped.setdefault(label_of(run), []).append(run)
    return [_total(label, group, (profiles or {}).get(label)) for label, group in grouped.items()]


def _total(label: str, runs: Sequence[EndedRun], profile: Profile | None = None) -> Total:
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    return Total(
        label=label,
        runs=len(runs),
        seconds=sum(seconds_between(run.started_at, run.ended_at) for run in runs),
        cost_usd=sum(costs) if costs else None,
        input_tokens=sum(run.input_tokens or 0 for run in runs),
        output_tokens=sum(run.output_tokens or 0 for run in runs),
        stopped=sum(run.error_type == ErrorType.LIMIT_EXCEEDED for run in runs),
        budget_usd=profile.limits.max_cost_usd if profile is not None else None,
    )

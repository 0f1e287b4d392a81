"""Pages about the whole: what needs a person, workers and executors, and what runs have cost."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from ao_protocol.documents import Description
from ao_runner.discovery import DescribeFailed, Executor, describe_executor, list_executors
from ao_runner.profiles import list_profiles
from ao_runner.runs.run_request import bare_environment
from ao_runner.store.ownership import EVERY_PROFILE
from ao_runner.store.records import RunLimit
from ao_runner.store.run_figures import NEWEST_RUNS, EndedRun
from ao_runner.store.store import Store
from ao_server.context import Context
from ao_server.pages.attention import attention_of
from ao_server.pages.rendering import page
from ao_server.pages.run_view import seconds_between

routes = APIRouter(include_in_schema=False)
ACTIONS_AT_ONCE: Final = 200
ACTIONS_DAYS: Final = 90
"""For how long actions are kept."""


@dataclass(frozen=True, slots=True)
class ProfileLoad:
    """The open runs of a profile, and what limits them."""

    name: str
    queued: int
    running: int
    since: str | None
    limit: RunLimit | None

    @property
    def state(self) -> str:
        """Whether runs of the profile begin."""
        if self.limit is None:
            return ""
        if self.limit.most == 0:
            return f"paused until {self.limit.until}" if self.limit.until else "paused"
        return f"at most {self.limit.most} at a time"


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
async def inbox(request: Request, context: Context) -> Response:
    """Show the runs that need a person."""
    return page(request, "inbox.html", attention=await context.access.read(attention_of))


@routes.get("/ui/workers")
async def workers(request: Request, context: Context, check: bool = False) -> Response:
    """Show who performs runs, and the executors and profiles of the server's host."""

    def find(store: Store) -> dict[str, Any]:
        holds = Counter(state.owner for state in store.list_states("running"))
        hosting = context.hosting
        profiles = list_profiles(hosting.home, hosting.environ)
        return {
            "owners": store.living_owners(),
            "holds": holds,
            "host": store.host,
            "leases": store.lease_seconds(),
            "loads": _loads(store, [found.name for found in profiles] + list(list_executors())),
            "limits": store.list_limits(),
            "profiles": profiles,
            "executors": [(one, *_described(one, check, hosting.environ)) for one in list_executors().values()],
            "is_checked": check,
        }

    return page(request, "workers.html", **await context.access.read(find))


def _loads(store: Store, names: Sequence[str]) -> list[ProfileLoad]:
    """Return the loads of profiles with open runs, with a limit, with a worker of their own, and of those named."""
    loads = {profile or "": (queued, running, since) for profile, queued, running, since in store.fleet().profiles}
    by_room = sorted(store.list_limits(), key=lambda limit: -limit.most)  # of a limit and a pause, the pause counts
    limits = {limit.name: limit for limit in by_room if limit.kind != "agent"}
    served = {name for owner in store.living_owners().values() for name in owner.serves} - {EVERY_PROFILE}
    return [
        ProfileLoad(name, *loads.get(name, (0, 0, None)), limits.get(name))
        for name in sorted({*loads, *limits, *served, *names})
    ]


def _described(executor: Executor, check: bool, environ: Mapping[str, str]) -> tuple[Description | None, str | None]:
    """Ask an executor to describe itself, if that is wanted: it is a process that takes a moment."""
    if not check:
        return None, None
    try:
        return describe_executor(executor, bare_environment(environ)), None
    except (DescribeFailed, OSError) as error:
        return None, str(error)


@routes.get("/ui/actions")
async def actions(
    request: Request, context: Context, before: Annotated[int | None, Query(ge=1, lt=2**62)] = None
) -> Response:
    """Show what clients and pages have changed, newest first."""
    found = await context.access.read(lambda store: store.list_actions(before, ACTIONS_AT_ONCE + 1))
    older = found[ACTIONS_AT_ONCE - 1].number if len(found) > ACTIONS_AT_ONCE else None
    return page(request, "actions.html", actions=found[:ACTIONS_AT_ONCE], older=older, days=ACTIONS_DAYS)


@routes.get("/ui/usage")
async def usage(request: Request, context: Context) -> Response:
    """Show what the newest runs have used, by day and by agent."""
    ended = await context.access.read(lambda store: store.ended_runs())
    return page(
        request,
        "usage.html",
        total=_total("All", ended),
        days=list(_totals(ended, [run.ended_at[:10] for run in ended]))[:31],
        agents=sorted(_totals(ended, [run.agent_name for run in ended]), key=lambda one: -one.runs)[:100],
        newest=NEWEST_RUNS,
    )


def _totals(runs: Sequence[EndedRun], labels: Sequence[str]) -> Iterator[Total]:
    """Yield a total for each label, in the order of their first runs."""
    grouped: dict[str, list[EndedRun]] = {}
    for run, label in zip(runs, labels, strict=True):
        grouped.setdefault(label, []).append(run)
    for label, group in grouped.items():
        yield _total(label, group)


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

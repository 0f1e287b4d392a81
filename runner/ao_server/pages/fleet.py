"""The page of workers and executors, and the drain of a worker."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.responses import RedirectResponse
from sse_starlette import EventSourceResponse
from starlette.responses import Response

from ao_protocol.documents import Description
from ao_runner.discovery import DescribeFailed, Executor, describe_executor, list_executors
from ao_runner.profiles import list_profiles, profile_folders
from ao_runner.runs.run_request import bare_environment
from ao_runner.store.limit_table import RunLimit
from ao_runner.store.ownership import EVERY_PROFILE, Owner
from ao_runner.store.store import Store
from ao_server.context import Context, ServerContext, reads
from ao_server.pages.rendering import page
from ao_server.pages.streaming import list_stream
from ao_server.problems import refusal

routes = APIRouter(include_in_schema=False)
WorkerId = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,128}$")]


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
class WorkerRow:
    """A process that takes runs from the queue."""

    name: str
    owner: Owner
    runs: int
    lease_seconds: float | None
    is_beside: bool
    """Whether it is the worker beside this server."""
    is_older: bool
    """Whether it is a runner of the older contract."""

    @property
    def can_drain(self) -> bool:
        """Whether it can be told to drain, and was not told."""
        return not self.owner.drains and not self.is_older


@routes.get("/ui/workers")
@reads
def workers(store: Store, request: Request, context: Context, check: bool = False) -> Response:
    """Show who performs runs, and the executors and profiles of the server's host."""
    environ = context.settings.environ
    profiles = list_profiles(context.settings.home, environ)
    executors = [(one, *_described(one, check, environ)) for one in list_executors().values()]
    fleet = _fleet(context, store)
    folder = profile_folders(context.settings.home, environ)[0]
    shown: dict[str, Any] = {"profiles": profiles, "folder": folder, "executors": executors, "is_checked": check}
    return page(request, "workers.html", **shown, **fleet)


@routes.get("/ui/workers/stream")
async def stream_workers(request: Request, context: Context) -> EventSourceResponse:
    """Send who performs runs, and the load, whenever they change."""
    return list_stream(request, context, "_workers.html", lambda store: _fleet(context, store))


def _fleet(context: ServerContext, store: Store) -> dict[str, Any]:
    profiles = list_profiles(context.settings.home, context.settings.environ)
    return {
        "workers": _workers(context, store),
        "host": store.host,
        "is_drained": context.beside.is_drained,
        "loads": _loads(store, [found.name for found in profiles] + list(list_executors())),
        "limits": store.limits.all(),
    }


def _loads(store: Store, names: Sequence[str]) -> list[ProfileLoad]:
    """Return the loads of profiles with open runs, with a limit, with a worker of their own, and of those named.

    What is in use stands first.
    """
    loads = {
        profile or "": (queued, running, since) for profile, queued, running, since in store.workers.fleet().profiles
    }
    by_room = sorted(store.limits.all(), key=lambda limit: -limit.most)  # of a limit and a pause, the pause counts
    limits = {limit.name: limit for limit in by_room if limit.kind != "agent"}
    served = {name for owner in store.workers.living().values() for name in owner.serves} - {EVERY_PROFILE}
    return [
        ProfileLoad(name, *loads.get(name, (0, 0, None)), limits.get(name))
        for name in sorted({*loads, *limits, *served, *names}, key=lambda name: (name not in {*loads, *limits}, name))
    ]


def _described(executor: Executor, check: bool, environ: Mapping[str, str]) -> tuple[Description | None, str | None]:
    """Ask an executor to describe itself, if that is wanted: it is a process that takes a moment."""
    if not check:
        return None, None
    try:
        return describe_executor(executor, bare_environment(environ)), None
    except (DescribeFailed, OSError) as error:
        return None, str(error)


def _workers(context: ServerContext, store: Store) -> list[WorkerRow]:
    holds, leases = Counter(state.owner for state in store.runs.states("running")), store.workers.lease_seconds()
    return [
        WorkerRow(name, owner, holds[name], leases.get(name), context.beside.is_it(owner), context.runners.is_one(name))
        for name, owner in store.workers.living().items()
        if owner.serves
    ]


@routes.get("/ui/workers/{worker_id}/drain")
@reads
def ask_to_drain(store: Store, request: Request, context: Context, worker_id: WorkerId) -> Response:
    """Ask whether a worker is to be drained."""
    return page(request, "worker_drain.html", worker=_found(context, store, worker_id))


@routes.post("/ui/workers/{worker_id}/drain")
async def drain(context: Context, worker_id: WorkerId) -> RedirectResponse:
    """Let a worker finish its runs, take no other ones, and leave."""
    worker = await context.access.read(lambda store: _found(context, store, worker_id))
    if worker.is_older:
        message = f"Runner {worker_id} speaks the older contract, which has no drain; send it away:"
        message += f" DELETE /runners/{quote(worker_id)}"
        raise refusal(HTTPStatus.CONFLICT, "older_runner", message)
    if not await context.access.write(lambda store: store.workers.request_drain(worker_id)):
        raise _gone(worker_id)
    context.access.notify()
    return RedirectResponse("/ui/workers", HTTPStatus.SEE_OTHER)


@routes.post("/ui/workers/start")
async def start(context: Context) -> RedirectResponse:
    """Start the worker beside this server again, if it was drained."""
    context.beside.resume()
    return RedirectResponse("/ui/workers", HTTPStatus.SEE_OTHER)


def _found(context: ServerContext, store: Store, worker_id: str) -> WorkerRow:
    found = next((one for one in _workers(context, store) if one.name == worker_id), None)
    if found is None:
        raise _gone(worker_id)
    return found


def _gone(worker_id: str) -> HTTPException:
    return HTTPException(HTTPStatus.NOT_FOUND, f"There is no worker {worker_id}, or not any more")

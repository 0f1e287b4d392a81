"""What the routes of one server share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Annotated, Concatenate, ParamSpec, TypeVar

from fastapi import Depends, Request

from ao_runner.store.store import Store
from ao_server.beside import WorkerBeside
from ao_server.joined_workers import JoinedWorkers
from ao_server.live import LiveSessions
from ao_server.older.registrations import OlderRunners
from ao_server.receivers import ReceiverPolicy
from ao_server.store_access import StoreAccess
from ao_server.submission import ServerSettings

Asked = ParamSpec("Asked")
Returned = TypeVar("Returned")


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The store, who watches it, what is added to every run, to whom webhooks may send, and its own worker."""

    access: StoreAccess
    live: LiveSessions
    settings: ServerSettings
    workers: JoinedWorkers
    runners: OlderRunners
    receivers: ReceiverPolicy
    beside: WorkerBeside


def context_of(request: Request) -> ServerContext:
    """Return the context of the server that has received a request."""
    context: ServerContext = request.app.state.context
    return context


Context = Annotated[ServerContext, Depends(context_of)]


async def _idle(context: Context) -> frozenset[str]:
    return context.runners.idle


Idle = Annotated[frozenset[str], Depends(_idle)]
"""The sessions for whose next run a process of an older runner waits."""


def reads(
    call: Callable[Concatenate[Store, Asked], Returned],
) -> Callable[Concatenate[ServerContext, Asked], Awaitable[Returned]]:
    """Return the route of a call that only reads the store, in whose place the route takes the server's context."""

    @wraps(call)
    async def route(reader: ServerContext, *args: Asked.args, **kwargs: Asked.kwargs) -> Returned:
        return await reader.access.read(lambda store: call(store, *args, **kwargs))

    store, *others = signature(call).parameters.values()
    reader = store.replace(name="reader", annotation=Context)
    route.__signature__ = signature(call).replace(parameters=[reader, *others])  # type: ignore[attr-defined]  # for FastAPI
    return route  # type: ignore[return-value]  # FastAPI passes `reader` by name

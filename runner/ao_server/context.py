"""What the routes of one server share."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from ao_server.beside import WorkerBeside
from ao_server.joined_workers import JoinedWorkers
from ao_server.live import LiveSessions
from ao_server.older.registrations import OlderRunners
from ao_server.receivers import ReceiverPolicy
from ao_server.store_access import StoreAccess
from ao_server.submission import ServerSettings


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

"""The application: its routes, and the tasks that run beside them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from ao_runner.connections import Application, BoundedServer
from ao_runner.coordinators.http import worker_calls
from ao_runner.errors import RunnerError
from ao_runner.store.records import timestamp
from ao_server.announcements import announce_ends, announce_losses
from ao_server.api import (
    agent_calls,
    batches,
    inputs,
    limits,
    not_served,
    older_sessions,
    run_calls,
    runners,
    schema_calls,
    sessions,
    streams,
    webhooks,
    workers,
)
from ao_server.api.mcp_endpoint import McpEndpoint
from ao_server.beside import WorkerBeside
from ao_server.context import ServerContext
from ao_server.gate import Gate, GatePolicy
from ao_server.joined_workers import JoinedWorkers, tell
from ao_server.live import LiveSessions
from ao_server.notifying import Notifier
from ao_server.older.registrations import OlderRunners
from ao_server.pages import (
    actions,
    agent_pages,
    details,
    editor,
    exports,
    fleet,
    login,
    oversight,
    requests,
    run_dialog,
    run_lists,
    schema_pages,
    webhook_pages,
)
from ao_server.pages.errors import show_errors_as_pages
from ao_server.pages.rendering import serve_static_files
from ao_server.problems import RESPONSES, handle_errors
from ao_server.receivers import ReceiverPolicy
from ao_server.recording import ActionLog, Recording
from ao_server.request_text import StrictBodies
from ao_server.store_access import StoreAccess
from ao_server.submission import ServerSettings
from ao_server.webhook_sending import send_messages

SWEEP_SECONDS: Final = 2.0
ANSWERS_KEPT: Final = timedelta(days=7)
"""How long a request with an Idempotency-Key can be repeated."""
_BEARER: Final = {"type": "http", "scheme": "bearer"}
general = APIRouter(tags=["Health"])


@general.get("/health")
async def health() -> dict[str, Any]:
    """Say that the server is there."""
    return {"status": "healthy", "worker_api": worker_calls.VERSION}


def build_application(
    access: StoreAccess,
    settings: ServerSettings,
    policy: GatePolicy,
    receivers: ReceiverPolicy,
    beside: WorkerBeside,
    notify: Sequence[str] = (),
) -> tuple[FastAPI, Application]:
    """Return the application, and the same behind its gate. The lifespan owns `access`."""
    live, actions_log = LiveSessions(access), ActionLog(access)
    joined, older = JoinedWorkers(access), OlderRunners(access, tell)
    context = ServerContext(access, live, settings, joined, older, receivers, beside)

    mcp = McpEndpoint(live.closing)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with access, actions_log, asyncio.TaskGroup() as group:
            sending = send_messages(access, receivers)
            notifier = Notifier(access, notify, settings.environ)
            endless = (
                live.look(),
                _sweep(context),
                announce_ends(context),
                sending,
                mcp.serve(app),
                announce_losses(context),
                notifier.run(),
            )
            tasks = [group.create_task(one) for one in endless]
            yield
            live.close()
            for task in tasks:
                task.cancel()

    app = FastAPI(
        title="AO server",
        version=version("ao-executor-protocol"),
        description="Agents, runs and sessions of a store.",
        lifespan=lifespan,
        responses=RESPONSES,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
    )
    app.state.context = context
    app.state.policy = policy
    app.state.lists = {}
    for part in (
        general, agent_calls.routes, schema_calls.routes, run_calls.routes, batches.routes, inputs.routes,
        sessions.routes, streams.routes, webhooks.routes, workers.routes, runners.routes, older_sessions.routes,
        limits.routes, not_served.routes, run_lists.routes, details.routes, actions.routes, exports.routes,
        oversight.routes, fleet.routes, requests.routes, login.routes, agent_pages.routes, editor.routes,
        run_dialog.routes, schema_pages.routes, webhook_pages.routes,
    ):  # fmt: skip
        app.include_router(part)
    serve_static_files(app)
    app.add_middleware(Recording, log=actions_log)
    app.add_middleware(StrictBodies)
    app.router.routes.append(mcp.route)
    handle_errors(app)
    _document_tokens(app)
    show_errors_as_pages(app)
    return app, Gate(app, policy)


def _operation_id(route: APIRoute) -> str:
    """Return the name of an operation, as a generated client names its function; a worker's has its prefix."""
    prefix = route.path.split("/")[1]
    return f"{prefix}_{route.name}" if prefix in {"worker", "runner"} else route.name


def _document_tokens(app: FastAPI) -> None:
    """Describe the bearer token in the OpenAPI document. A server without tokens asks for none."""
    described = app.openapi

    def with_tokens() -> dict[str, Any]:
        document = described()
        document.setdefault("components", {})["securitySchemes"] = {"bearer": _BEARER}
        document["security"] = [{"bearer": []}, {}]
        for operation in (one for path in document["paths"].values() for one in path.values()):
            for answer in operation["responses"].values():
                for content in answer.get("content", {}).values():
                    if "$ref" in (schema := content.get("schema", {})):
                        content["schema"] = {"$ref": schema["$ref"]}  # FastAPI merges it with that of a bare object
        return document

    app.openapi = with_tokens  # type: ignore[method-assign]  # as FastAPI documents it


class SignalledServer(BoundedServer):
    """A web server that leaves signals to its caller, and that ends its streams before it waits for its connections.

    Otherwise it would wait for each stream until the grace period is over (sse-starlette#73).
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Change no signal handler."""
        yield

    def stop(self, end_streams: Callable[[], None]) -> None:
        """Answer the requests that are there, and then stop. A second call does not wait for them."""
        end_streams()
        self.force_exit = self.should_exit
        self.should_exit = True


async def _sweep(context: ServerContext) -> None:
    """End the runs of dead workers, also while no worker is there to do it, and forget once an hour what is old."""
    forget_at = 0.0
    while True:
        with suppress(RunnerError):
            await run_calls.sweep(context)
            if time.monotonic() >= forget_at:
                before = timestamp(datetime.now(UTC) - ANSWERS_KEPT)
                await context.access.write(lambda store: store.answers.forget(before))  # noqa: B023  # awaited here
                old = timestamp(datetime.now(UTC) - timedelta(days=oversight.ACTIONS_DAYS))
                await context.access.write(lambda store: store.actions.forget(old))  # noqa: B023  # awaited here
                await context.access.write(lambda store: store.notices.forget(before))  # noqa: B023  # awaited here
                forget_at = time.monotonic() + 3600
        await asyncio.sleep(SWEEP_SECONDS)

"""The application: its routes, and the tasks that run beside them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.gzip import GZipMiddleware

from ao_runner.connections import Application, BoundedServer
from ao_runner.coordinators.http import worker_calls
from ao_runner.errors import RunnerError
from ao_runner.store.records import timestamp
from ao_server.announcements import announce_ends, announce_losses
from ao_server.api import (
    action_calls,
    agent_calls,
    answers,
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
from ao_server.api.answers import Json, Shape
from ao_server.api.mcp_endpoint import McpEndpoint
from ao_server.beside import WorkerBeside
from ao_server.context import ServerContext
from ao_server.gate import Gate, GatePolicy
from ao_server.heads import Heads
from ao_server.joined_workers import JoinedWorkers, tell
from ao_server.live import LiveSessions
from ao_server.notifying import Notifier
from ao_server.older.registrations import OlderRunners
from ao_server.pages import (
    actions,
    agent_pages,
    compare,
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
    usage,
    webhook_pages,
)
from ao_server.pages.errors import show_errors_as_pages
from ao_server.pages.rendering import serve_static_files
from ao_server.problem_documents import PROBLEM
from ao_server.problems import RESPONSES, handle_errors
from ao_server.receivers import ReceiverPolicy
from ao_server.recording import ActionLog, Recording
from ao_server.request_text import StrictBodies, refuse_unknown_parameters
from ao_server.store_access import StoreAccess
from ao_server.submission import ServerSettings
from ao_server.webhook_sending import send_messages

SWEEP_SECONDS: Final = 2.0
ANSWERS_KEPT: Final = timedelta(days=7)
"""How long a request with an Idempotency-Key can be repeated."""
MIN_COMPRESSED_BYTES: Final = 4096
COMPRESS_LEVEL: Final = 5
_BEARER: Final = {"type": "http", "scheme": "bearer"}
general = APIRouter(tags=["Health"])


@general.get("/health")
async def health() -> Annotated[Json, Shape(answers.Health)]:
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
        dependencies=[Depends(refuse_unknown_parameters)],
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
    )
    app.state.context = context
    app.state.policy = policy
    app.state.lists = {}
    app.state.parts = (
        general, agent_calls.routes, schema_calls.routes, run_calls.routes, batches.routes, inputs.routes,
        sessions.routes, streams.routes, webhooks.routes, workers.routes, runners.routes, older_sessions.routes,
        limits.routes, not_served.routes, run_lists.routes, compare.routes, details.routes, actions.routes,
        exports.routes, oversight.routes, fleet.routes, requests.routes, login.routes, agent_pages.routes,
        editor.routes, run_dialog.routes, schema_pages.routes, action_calls.routes, usage.routes, webhook_pages.routes,
    )  # fmt: skip
    for part in app.state.parts:
        app.include_router(part)
    serve_static_files(app)
    app.add_middleware(Recording, log=actions_log)
    app.add_middleware(StrictBodies)
    app.add_middleware(GZipMiddleware, minimum_size=MIN_COMPRESSED_BYTES, compresslevel=COMPRESS_LEVEL)
    app.add_middleware(Heads)
    app.router.routes.append(mcp.route)
    handle_errors(app)
    _complete_document(app)
    show_errors_as_pages(app)
    return app, Gate(app, policy)


def _operation_id(route: APIRoute) -> str:
    """Return the name of an operation, as a generated client names its function; a worker's has its prefix."""
    prefix = route.path.split("/")[1]
    return f"{prefix}_{route.name}" if prefix in {"worker", "runner"} else route.name


def _complete_document(app: FastAPI) -> None:
    """Let the OpenAPI document tell the bearer token, and each schema of an answer by its name alone."""
    described = app.openapi

    @cache
    def complete() -> dict[str, Any]:
        return _with_named_answers(_with_problems(_with_tokens(described())))

    app.openapi = complete  # type: ignore[method-assign]  # as FastAPI documents it


def _with_tokens(document: dict[str, Any]) -> dict[str, Any]:
    """Describe the bearer token. A server without tokens asks for none."""
    document.setdefault("components", {})["securitySchemes"] = {"bearer": _BEARER}
    document["security"] = [{"bearer": []}, {}]
    return document


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    """Describe refusals as problem documents."""
    for operation in (one for path in document["paths"].values() for one in path.values()):
        for status, answer in operation["responses"].items():
            if status >= "4":
                answer["content"] = {PROBLEM: next(iter(answer["content"].values()))}
    return document


def _with_named_answers(document: dict[str, Any]) -> dict[str, Any]:
    """Leave only the reference of an answer's schema, which FastAPI merges with that of a bare object."""
    for operation in (one for path in document["paths"].values() for one in path.values()):
        for answer in operation["responses"].values():
            for content in answer.get("content", {}).values():
                if "$ref" in (schema := content.get("schema", {})):
                    content["schema"] = {"$ref": schema["$ref"]}
    return document


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

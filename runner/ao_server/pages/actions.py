"""Actions of pages: cancel and run again, pause and resume profiles. Each answers a form with a redirect."""

from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Form
from fastapi.responses import RedirectResponse

from ao_runner.runs.submission import NewRun
from ao_runner.store.records import OPEN_STATUSES
from ao_runner.store.store import Store
from ao_server.api.batches import BatchId, repeated_failed
from ao_server.api.limits import MAX_NAME, pause_profile, resume_profile
from ao_server.api.run_calls import RunId, found_run, stopped, submitted
from ao_server.context import Context, ServerContext
from ao_server.pages.rendering import see
from ao_server.problems import refusal
from ao_server.recording import note_targets
from ao_server.submission import repeated

routes = APIRouter(include_in_schema=False)
MOST_AT_ONCE: Final = 100
Profile = Annotated[str, Form(min_length=1, max_length=MAX_NAME, pattern=r"^[^\x00]+$")]
Back = Annotated[str, Form(pattern=r"^/ui/[^\\]*$", max_length=2000)]


@routes.post("/ui/runs/{run_id}/cancel")
async def cancel(context: Context, run_id: RunId, back: Back = "") -> RedirectResponse:
    """Cancel a run."""
    await stopped(context, await context.access.read(lambda store: found_run(store, run_id)))
    return see(back or f"/ui/runs/{quote(run_id, safe='')}", "The run is to stop")


@routes.post("/ui/runs/{run_id}/again")
async def run_again(context: Context, run_id: RunId) -> RedirectResponse:
    """Add a new run that asks the same, and show it."""
    return see(f"/ui/runs/{await _repeated(context, run_id)}", f"Run {run_id} was run again as this one")


@routes.post("/ui/batches/{batch_id}/rerun")
async def rerun_failed(context: Context, batch_id: BatchId) -> RedirectResponse:
    """Add the failed runs of a batch again, and show the batch."""
    await repeated_failed(context, batch_id)
    return see(f"/ui/runs?batch={quote(batch_id)}")


@routes.post("/ui/runs/actions")
async def act_on_many(
    context: Context,
    action: Annotated[str, Form(pattern="^(cancel|again)$")],
    run_id: Annotated[list[str] | None, Form(max_length=MOST_AT_ONCE)] = None,
    back: Back = "/ui/runs",
) -> RedirectResponse:
    """Cancel the chosen runs that have not ended, or repeat those that have."""
    wanted = run_id or []
    states = await context.access.read(lambda store: [found_run(store, one) for one in wanted])
    wants_open = action == "cancel"
    fitting = [state for state in states if (state.run.status in OPEN_STATUSES) is wants_open]
    for state in fitting:
        if wants_open:
            note_targets(state.run.run_id)
            await stopped(context, state)
        else:
            await _repeated(context, state.run.run_id)
    done = f"{_runs(len(fitting))} {'cancelled' if wants_open else 'run again'}"
    left = f"; {_runs(len(states) - len(fitting))} left alone, since they {'have ended' if wants_open else 'go on'}"
    said = done + (left if len(fitting) < len(states) else "")
    return see(back, said if states else "No run was chosen, so nothing was done")


@routes.post("/ui/workers/pause")
async def pause(context: Context, profile: Profile) -> RedirectResponse:
    """Let no other run of a profile begin."""
    note_targets(profile)
    await pause_profile(context, profile)
    return see("/ui/workers")


@routes.post("/ui/workers/resume")
async def end_pause(context: Context, profile: Profile) -> RedirectResponse:
    """Let runs of a profile begin again."""
    note_targets(profile)
    await resume_profile(context, profile)
    return see("/ui/workers")


async def _repeated(context: ServerContext, run_id: str) -> str:
    """Add a run that asks the same as another one, and return its id."""

    def find(store: Store) -> NewRun:
        if found_run(store, run_id).run.status in OPEN_STATUSES:
            message = f"Run {run_id} has not ended; cancel it first"
            raise refusal(HTTPStatus.CONFLICT, "run_open", message)
        return repeated(store, run_id, context.settings)

    added = await submitted(context, [await context.access.read(find)])
    return str(added[0]["run_id"])


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"

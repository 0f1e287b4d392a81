"""Actions of pages: cancel and run again, pause and resume profiles. Each answers a form with a redirect."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Form
from fastapi.responses import RedirectResponse

from ao_protocol.wire import JsonObject
from ao_runner.runs.submission import NewRun
from ao_runner.store.failure_table import LATELY
from ao_runner.store.records import OPEN_STATUSES, timestamp
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
Note = Annotated[str, Form(max_length=500, pattern=r"^[^\x00]*$")]
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
    action: Annotated[str, Form(pattern="^(cancel|again|aside)$")],
    run_id: Annotated[list[str] | None, Form(max_length=MOST_AT_ONCE)] = None,
    note: Note = "",
    back: Back = "/ui/runs",
) -> RedirectResponse:
    """Cancel the chosen runs that have not ended, repeat those that have, or set those aside that have failed."""
    wanted = run_id or []
    states = await context.access.read(lambda store: [found_run(store, one) for one in wanted])
    if action == "aside" and states:
        failed = [state.run.run_id for state in states if state.run.status == "failed"]
        left = f"; {_runs(len(states) - len(failed))} left alone, since they have not failed"
        said = await _set_aside(context, failed, note) if failed else "Nothing set aside"
        return see(back, said + (left if len(failed) < len(states) else ""))
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


@routes.post("/ui/inbox/actions")
async def act_on_entries(
    context: Context,
    action: Annotated[str, Form(pattern="^(again|aside|back)$")],
    run_id: Annotated[list[str] | None, Form(max_length=MOST_AT_ONCE)] = None,
    note: Note = "",
) -> RedirectResponse:
    """Repeat the runs of the chosen entries of the inbox, set the entries aside, or take them back.

    An entry is named by the newest run that somebody saw there, so that later ones are left alone.
    """

    def find(store: Store) -> list[str]:
        since = timestamp(store.now() - LATELY)
        found: list[str] = []
        for one in dict.fromkeys(run_id or []):
            alike = store.failures.alike(one, since, are_aside=action == "back")
            # An end of which somebody was not told is no failure, and stands alone.
            alone = [found_run(store, one).run.run_id] if action == "aside" else []
            found += alike or alone
        return found

    wanted = await context.access.read(find)
    if not wanted:
        return see("/ui/inbox", "No run was chosen, so nothing was done")
    if action != "again":
        said = await _set_aside(context, wanted, note, is_back=action == "back")
        return see("/ui/inbox", said)
    some = wanted[:MOST_AT_ONCE]
    for one in some:
        await _repeated(context, one)
    left = f"; {_runs(len(wanted) - len(some))} left for the next time" if len(some) < len(wanted) else ""
    return see("/ui/inbox", f"{_runs(len(some))} run again{left}")


async def _set_aside(context: ServerContext, run_ids: Sequence[str], note: str, *, is_back: bool = False) -> str:
    """Set runs aside, or take them back, and return what was done."""
    note_targets(*run_ids)
    aside: JsonObject | None = None if is_back else {"note": note.strip(), "at": timestamp()}
    await context.access.write(lambda store: store.failures.set_aside(run_ids, aside))
    context.access.notify()
    return f"{_runs(len(run_ids))} {'taken back' if is_back else 'set aside'}"


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

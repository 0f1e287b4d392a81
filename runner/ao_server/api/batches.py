"""Batches: runs that were added together, how they have ended, and those that failed again."""

from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Path, Response

from ao_protocol.framing import MAX_IDENTIFIER_CHARACTERS
from ao_protocol.wire import JsonObject
from ao_runner.runs.batches import failed_runs, find_batch, results_of
from ao_runner.runs.submission import NewRun
from ao_runner.store.brief_fields import brief
from ao_runner.store.store import Store
from ao_server.api import answers
from ao_server.api.answers import Json, Shape
from ao_server.api.run_calls import submitted
from ao_server.context import Context, ServerContext, reads
from ao_server.request_text import Segment
from ao_server.shapes import STATUSES
from ao_server.submission import repeated

routes = APIRouter(prefix="/batches", tags=["Runs"])
BatchId = Annotated[str, Path(max_length=MAX_IDENTIFIER_CHARACTERS), Segment]


@routes.get("/{batch_id}")
@reads
def get_batch(store: Store, batch_id: BatchId) -> Annotated[Json, Shape(answers.BatchStatus)]:
    """Return the number of runs of a batch by status. Runs that were run again count once."""
    counts = store.runs.count_batch(find_batch(store, batch_id))
    return {
        "batch_id": batch_id,
        "runs": sum(counts.values()),
        "statuses": {names.run: counts.get(status, 0) for status, names in STATUSES.items()},
    }


@routes.get("/{batch_id}/results")
@reads
def get_results(store: Store, batch_id: BatchId) -> Annotated[Json, Shape(answers.BatchResults)]:
    """Return what each run of a batch has come to, in the order of the batch."""
    rows: Any = results_of(store, find_batch(store, batch_id))
    return {"results": [brief(row | {"status": STATUSES[row["status"]].run}) for row in rows]}


@routes.post("/{batch_id}/rerun", status_code=HTTPStatus.CREATED)
async def rerun_failed(
    context: Context, response: Response, batch_id: BatchId
) -> Annotated[Json, Shape(answers.CreatedBatch)]:
    """Add the failed runs of a batch again, in the same batch."""
    response.headers["Location"] = f"/batches/{quote(batch_id, safe='')}"
    return {"batch_id": batch_id, "runs": await repeated_failed(context, batch_id)}


async def repeated_failed(context: ServerContext, batch_id: str) -> list[JsonObject]:
    """Queue the failed runs of a batch again; see `submitted`."""

    def find(store: Store) -> list[NewRun]:
        failed = failed_runs(store, find_batch(store, batch_id))
        return [repeated(store, run.run_id, context.settings) for run in failed]

    return await submitted(context, await context.access.read(find))

"""Requests of runs to a person: list them, and answer one. The first answer counts."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from ao_protocol.wire import JsonObject
from ao_runner.runs.answering import Answered, AnsweredBefore, AnswerRefused, give_answer
from ao_runner.store.brief_fields import brief
from ao_runner.store.input_table import StoredRequest
from ao_runner.store.store import Store
from ao_server.api import answers
from ao_server.api.answers import Json, Shape
from ao_server.api.run_calls import RunId, found_run
from ao_server.context import Context, ServerContext, reads
from ao_server.problems import Told, refusal
from ao_server.recording import note_targets
from ao_server.request_text import Segment
from ao_server.shapes import shown_request
from ao_server.who import answerer

routes = APIRouter(tags=["Inputs"])
RequestId = Annotated[str, Path(min_length=1, max_length=1000), Segment]


class NewAnswer(BaseModel):
    """An answer: an option of the request, the value that it asks for, or both."""

    model_config = ConfigDict(extra="forbid")

    option_id: str | None = Field(None, min_length=1)
    value: JsonValue = None


@routes.get("/inputs")
@reads
def list_inputs(store: Store) -> Annotated[Json, Shape(answers.InputRequests)]:
    """List the requests that wait for a person, oldest first."""
    return {"inputs": [brief(shown_request(one)) for one in store.inputs.waiting()]}


@routes.get("/runs/{run_id}/inputs")
@reads
def list_inputs_of_run(store: Store, run_id: RunId) -> Annotated[Json, Shape(answers.InputRequests)]:
    """List all requests of a run, with how they were resolved and by whom."""
    found_run(store, run_id)
    return {"inputs": [shown_request(one) for one in store.inputs.of_run(run_id)]}


@routes.post("/runs/{run_id}/inputs/{request_id:path}")
async def answer_input(
    context: Context, run_id: RunId, request_id: RequestId, answer: NewAnswer
) -> Annotated[Json, Shape(answers.AnsweredInput)]:
    """Answer a request. 409 if another answer was first. The answer to a parked run queues one that continues it."""
    answered = await answered_with(context, run_id, request_id, answer.model_dump(exclude_none=True))
    return {"request_id": request_id, "outcome": answered.outcome, "next_run_id": answered.next_run_id}


async def answered_with(context: ServerContext, run_id: str, request_id: str, answer: JsonObject) -> Answered:
    """Give an answer to a request.

    Raises:
        HTTPException: There is no such request, the answer does not fit, or another one was first.
    """
    by = answerer()
    try:
        answered = await context.access.write(
            lambda store: give_answer(store, found_request(store, run_id, request_id), answer, by)
        )
    except AnswerRefused as error:
        raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_answer", str(error)) from error
    except AnsweredBefore as error:
        first = error.request.answered_by
        raise refusal(HTTPStatus.CONFLICT, "not_waiting", str(error), answered_by=first) from error
    context.access.notify()
    if answered.next_run_id is not None:
        note_targets(answered.next_run_id)
    return answered


def found_request(store: Store, run_id: str, request_id: str) -> StoredRequest:
    """Return the request of a run with exactly this id.

    Raises:
        HTTPException: There is none.
    """
    for one in store.inputs.of_run(run_id):
        if one.request_id == request_id:
            return one
    raise Told(HTTPStatus.NOT_FOUND, "request_not_found", "Request not found")

"""Requests of runs to a person on pages: what is asked, and the form that answers."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Form
from fastapi.responses import RedirectResponse

from ao_protocol.input_answers import InvalidAnswer, options_of
from ao_protocol.short_text import Excerpt
from ao_protocol.wire import JsonObject
from ao_runner.runs.answering import input_of, value_from
from ao_runner.store.input_table import StoredRequest
from ao_runner.store.store import Store
from ao_server.api.inputs import RequestId, answered_with, found_request
from ao_server.api.run_calls import RunId
from ao_server.context import Context
from ao_server.pages.actions import Back
from ao_server.pages.rendering import see
from ao_server.pages.timeline import cut, pretty
from ao_server.problems import refusal
from ao_server.recording import note_targets

routes = APIRouter(include_in_schema=False)
MAX_VALUE: Final = 100_000
MAX_INPUT: Final = 50_000


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request on a page."""

    request: StoredRequest

    @property
    def address(self) -> str:
        """Where its answer is posted."""
        return f"/ui/runs/{quote(self.request.run_id, safe='')}/inputs/{quote(self.request.request_id, safe='')}"

    @property
    def title(self) -> str:
        """What is asked, in a line."""
        return cut(str(self.request.fields.get("title", ""))).text

    @property
    def input(self) -> Excerpt:
        """The exact input of the tool that waits. It is whole but for a very long one, since a person allows it."""
        text = "\n".join(input_of(self.request.fields.get("tool_input")))
        return Excerpt(text[:MAX_INPUT], max(0, len(text) - MAX_INPUT))

    @property
    def options(self) -> list[tuple[str, str, str]]:
        """The id, the label and the effect of each option."""
        return [(name, one["label"], one["effect"]) for name, one in options_of(self.request.fields).items()]

    @property
    def schema(self) -> Excerpt | None:
        """The schema of the value; None if the request takes none."""
        schema = self.request.fields.get("schema")
        return None if schema is None else pretty(schema)

    @property
    def state(self) -> str:
        """How it was resolved and by whom."""
        request = self.request
        chosen = (request.answer or {}).get("option_id")
        labels = {name: label for name, label, _ in self.options}
        parts = [request.outcome or ("answered" if request.answer else "open")]
        parts += [f"\u201c{labels.get(str(chosen), str(chosen))}\u201d"] if chosen is not None else []
        parts += [f"by {request.answered_by}"] if request.answered_by else []
        return " ".join(parts)


def waiting_of(store: Store, run_id: str) -> list[RequestView]:
    """Return the requests of a run that wait for a person."""
    return [RequestView(one) for one in store.inputs.of_run(run_id) if one.is_waiting]


@routes.post("/ui/runs/{run_id}/inputs/{request_id:path}")
async def answer(
    context: Context,
    run_id: RunId,
    request_id: RequestId,
    option_id: Annotated[str, Form()] = "",
    value: Annotated[str, Form(max_length=MAX_VALUE)] = "",
    back: Back = "",
) -> RedirectResponse:
    """Answer a request with an option, with a value, or with both."""
    given: JsonObject = {"option_id": option_id} if option_id else {}
    if value:
        request: Any = await context.access.read(lambda store: found_request(store, run_id, request_id))
        try:
            given["value"] = value_from(request.fields.get("schema"), value.replace("\r\n", "\n"))
        except InvalidAnswer as error:
            raise refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid_answer", str(error)) from error
    note_targets(run_id)
    answered = await answered_with(context, run_id, request_id, given)
    next_run = answered.next_run_id
    goes_on = f"the session goes on in run {next_run}" if next_run else f"run {run_id} goes on"
    return see(back or f"/ui/runs/{quote(run_id, safe='')}", f"Answered: {goes_on}")

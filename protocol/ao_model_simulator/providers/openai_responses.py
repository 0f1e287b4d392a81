"""OpenAI's Responses API, `POST /v1/responses`.

Rules of the stream: every event has a type and a `sequence_number` from 0. `response.created` and
`response.in_progress`; per output item `output_item.added`, the pieces of its text with a `done` after them, and
`output_item.done`; `response.completed`, or `response.incomplete` with the reason.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from pydantic import JsonValue

from ao_model_simulator.given_answer import CREATED, GivenAnswer
from ao_model_simulator.json_text import json_text
from ao_model_simulator.model_error import ModelError
from ao_model_simulator.prompt import Prompt
from ao_model_simulator.providers.openai_wire import STREAM_TYPE, openai_error, token_details
from ao_model_simulator.providers.responses_input import read_responses_prompt
from ao_model_simulator.providers.responses_items import OutputItem, output_items
from ao_model_simulator.script import StopReason
from ao_model_simulator.stream_event import Delta, Marker, StreamEvent, split_text

ROUTE: Final = "/v1/responses"
BROKEN_EVENT: Final = b'event: response.output_text.delta\ndata: {"type":"response.output_text.del\n\n'
INCOMPLETE_REASONS: Final[dict[StopReason, str]] = {
    "max_tokens": "max_output_tokens",
    "model_context_window_exceeded": "max_output_tokens",
    "refusal": "content_filter",
}
ECHOED: Final[dict[str, JsonValue]] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
}
"""What an answer repeats of its request, and what it says when the request did not."""


class OpenAIResponses:
    """One output item per content block. Any `previous_response_id` is taken for known."""

    kind = "openai-responses"
    title = "the Responses API"
    required_fields = ("model", "input")
    request_id_header = "x-request-id"

    def serves(self, method: str, route: str) -> bool:
        """Return whether this asks a model for an answer."""
        return (method, route) == ("POST", ROUTE)

    def read_prompt(self, path: str, fields: Mapping[str, Any]) -> Prompt:
        """Return what was asked."""
        return read_responses_prompt(fields)

    def body(self, given: GivenAnswer) -> dict[str, JsonValue]:
        """Return the document of an answer that is not streamed."""
        reason = _incomplete_reason(given)
        usage = given.answer.usage
        of_input, of_output = token_details(usage)
        counts: JsonValue = {
            "input_tokens": usage.all_input_tokens,
            "input_tokens_details": of_input,
            "output_tokens": usage.output_tokens,
            "output_tokens_details": of_output,
            "total_tokens": usage.all_input_tokens + usage.output_tokens,
        }
        return _in_progress(given) | {
            "status": "completed" if reason is None else "incomplete",
            "incomplete_details": None if reason is None else {"reason": reason},
            "output": [item.document for item in output_items(given, is_complete=reason is None)],
            "usage": counts,
        }

    def stream_type(self, given: GivenAnswer) -> str:
        """Return the content type of a stream."""
        return STREAM_TYPE

    def stream(self, given: GivenAnswer) -> Iterator[StreamEvent]:
        """Yield the events of a whole, sound stream."""
        reason = _incomplete_reason(given)
        writer = _EventWriter()
        yield Marker(writer.write("response.created", {"response": _in_progress(given)}))
        yield Marker(writer.write("response.in_progress", {"response": _in_progress(given)}))
        for index, item in enumerate(output_items(given, is_complete=reason is None)):
            yield from _item_events(writer, index, item, given.answer.chunk_chars)
        ending = "response.completed" if reason is None else "response.incomplete"
        yield Marker(writer.write(ending, {"response": self.body(given)}))

    def broken_event(self, given: GivenAnswer, sent: int) -> bytes:
        """Return an event whose data is no JSON."""
        return BROKEN_EVENT

    def error_event(self, given: GivenAnswer, error: ModelError, sent: int) -> bytes:
        """Return an error inside a stream.

        Nested, as the API sends it, where its reference shows the members of the error beside the type.
        """
        return _encode("error", sent, {"error": openai_error(error)})

    def error_body(self, error: ModelError, path: str) -> JsonValue:
        """Return the document of an error."""
        return {"error": openai_error(error)}


@dataclass(frozen=True, slots=True)
class _EventWriter:
    """Numbers the events in the order in which they are made."""

    _numbers: Iterator[int] = field(default_factory=count)

    def write(self, type_: str, members: Mapping[str, JsonValue]) -> bytes:
        return _encode(type_, next(self._numbers), members)

    def delta(self, type_: str, members: Mapping[str, JsonValue], piece: str) -> Delta:
        number = next(self._numbers)
        return Delta(piece, lambda piece: _encode(type_, number, {**members, "delta": piece}))


def _item_events(writer: _EventWriter, index: int, item: OutputItem, chunk_chars: int) -> Iterator[StreamEvent]:
    place: dict[str, JsonValue] = {"output_index": index}
    inside: dict[str, JsonValue] = {"item_id": item.document["id"], **place, **item.position}
    yield Marker(writer.write("response.output_item.added", {**place, "item": item.silent}))
    if item.part is not None:
        name, part = item.part
        yield Marker(writer.write(f"{name}.added", {**inside, "part": part | {"text": ""}}))
    for piece in split_text(item.text, chunk_chars):
        yield writer.delta(f"{item.text_event}.delta", {**inside, **item.extra}, piece)
    ending = {**inside, **item.extra, item.text_field: item.text}
    yield Marker(writer.write(f"{item.text_event}.done", ending), closes_content=True)
    if item.part is not None:
        yield Marker(writer.write(f"{name}.done", {**inside, "part": part}))
    yield Marker(writer.write("response.output_item.done", {**place, "item": item.document}))


def _in_progress(given: GivenAnswer) -> dict[str, JsonValue]:
    """Return the response before it has any output."""
    return {
        **{name: given.fields.get(name, default) for name, default in ECHOED.items()},
        "id": f"resp_{given.id}",
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": given.model,
        "output": [],
        "usage": None,
    }


def _incomplete_reason(given: GivenAnswer) -> str | None:
    return INCOMPLETE_REASONS.get(given.answer.effective_stop_reason)


def _encode(type_: str, number: int, members: Mapping[str, JsonValue]) -> bytes:
    document = {"type": type_, "sequence_number": number, **members}
    return f"event: {type_}\ndata: {json_text(document)}\n\n".encode()

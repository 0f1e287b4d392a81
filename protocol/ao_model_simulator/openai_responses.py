"""OpenAI's Responses API, `POST /v1/responses`.

Rules of the stream: every event has a type and a `sequence_number` from 0. `response.created` and
`response.in_progress`; per output item `output_item.added`, the pieces of its text with a `done` after them, and
`output_item.done`; `response.completed`, or `response.incomplete` with the reason.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, assert_never

from pydantic import JsonValue

from ao_model_simulator.openai_chat import STREAM_TYPE, openai_error, token_details
from ao_model_simulator.provider import (
    CREATED,
    Delta,
    GivenAnswer,
    Marker,
    ModelError,
    Prompt,
    StreamEvent,
    join_by_role,
    json_text,
    read_object,
    read_objects,
    read_string,
    read_texts,
    split_text,
    text_block,
    tool_definition,
    tool_result_block,
    tool_use_block,
)
from ao_model_simulator.script import ContentBlock, StopReason, TextBlock, ThinkingBlock, ToolUseBlock

TEXT_TYPES: Final = ("input_text", "output_text", "text")
SYSTEM_ROLES: Final = ("system", "developer")


def read_responses_prompt(fields: Mapping[str, Any]) -> Prompt:
    """Return what was asked in this request; what `previous_response_id` stands for is not in it."""
    given = fields.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else read_objects(given)
    instructions = read_texts(fields.get("instructions"))
    system = [text for item in items if _is_system(item) for text in read_texts(item.get("content"), TEXT_TYPES)]
    return Prompt(
        model=read_string(fields.get("model")),
        wants_stream=fields.get("stream") is True,
        system_blocks=[*instructions, *system],
        messages=join_by_role(_read_item(item) for item in items if not _is_system(item)),
        tools=[_read_tool(tool) for tool in read_objects(fields.get("tools"))],
        response_schema=read_object(read_object(fields.get("text")).get("format")).get("schema"),
    )


def _is_system(item: Mapping[str, Any]) -> bool:
    return item.get("role") in SYSTEM_ROLES


def _read_item(item: Mapping[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    match item.get("type", "message"):
        case "message":
            return str(item.get("role")), _read_content(item.get("content"))
        case "function_call":
            return "assistant", [tool_use_block(item.get("call_id"), item.get("name"), item.get("arguments"))]
        case "function_call_output":
            output = item.get("output")
            texts = read_texts(output, TEXT_TYPES) or [json.dumps(output)]
            return "user", [tool_result_block(item.get("call_id"), texts)]
        case "reasoning":
            texts = read_texts(item.get("summary"), ("summary_text",))
            return "assistant", [{"type": "thinking", "thinking": text} for text in texts]
        case kind:
            return "user" if str(kind).endswith("_output") else "assistant", [item]


def _read_content(content: object) -> list[Mapping[str, Any]]:
    others = [part for part in read_objects(content) if part.get("type") not in TEXT_TYPES]
    return [*others, *(text_block(text) for text in read_texts(content, TEXT_TYPES))]


def _read_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    name = tool.get("name") or tool.get("type")
    return tool_definition(name, tool.get("description"), tool.get("parameters"))


JsonObject = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class OutputItem:
    """An item of the output, whole, and how its text is streamed.

    `text_event` is the name of the text's events, `text_field` the member of the last of them that holds it all, and
    `position` the place of the text in the item. `part` is what holds the text, with the name of its events; None
    where the item holds it itself. `silent` is the item before it says anything, `extra` what the text's events hold.
    """

    document: JsonObject
    silent: JsonObject
    text: str
    text_event: str
    text_field: str = "text"
    position: JsonObject = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)
    part: tuple[str, JsonObject] | None = None


def output_items(given: GivenAnswer, *, is_complete: bool) -> list[OutputItem]:
    """Return the items of the answer; when it is not complete, its last item is not either."""
    blocks = given.answer.blocks
    last = len(blocks) - 1
    return [
        _output_item(given, index, block, "completed" if is_complete or index < last else "incomplete")
        for index, block in enumerate(blocks)
    ]


def _output_item(given: GivenAnswer, index: int, block: ContentBlock, status: str) -> OutputItem:
    place = f"{given.id}_{index}"
    part: JsonObject
    match block:
        case TextBlock(text=text):
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            document: JsonObject = {"id": f"msg_{place}", "type": "message", "status": status, "role": "assistant"}
            return OutputItem(
                document | {"content": [part]},
                document | {"content": [], "status": "in_progress"},
                text,
                "response.output_text",
                position={"content_index": 0},
                extra={"logprobs": []},
                part=("response.content_part", part),
            )
        case ThinkingBlock(thinking=text):
            part = {"type": "summary_text", "text": text}
            document = {"id": f"rs_{place}", "type": "reasoning"}
            return OutputItem(
                document | {"summary": [part]},
                document | {"summary": []},
                text,
                "response.reasoning_summary_text",
                position={"summary_index": 0},
                part=("response.reasoning_summary_part", part),
            )
        case ToolUseBlock():
            text = json.dumps(block.input)
            call_id = given.tool_call_id("call", index, block)
            document = {"id": f"fc_{place}", "type": "function_call", "call_id": call_id, "name": block.name}
            return OutputItem(
                document | {"arguments": text, "status": status},
                document | {"arguments": "", "status": "in_progress"},
                text,
                "response.function_call_arguments",
                text_field="arguments",
            )
        case _:
            assert_never(block)


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

"""The Anthropic Messages API, `POST /v1/messages`.

Rules of the stream: `message_start`; per content block `content_block_start`, deltas, `content_block_stop`;
`message_delta` with the stop reason and the usage; `message_stop`. `ping` may occur anywhere.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, assert_never

from pydantic import JsonValue

from ao_model_simulator import error_words
from ao_model_simulator.provider import (
    TYPE_OF_STATUS,
    Delta,
    GivenAnswer,
    Marker,
    ModelError,
    Prompt,
    Provider,
    StreamEvent,
    json_text,
    read_object,
    read_objects,
    read_string,
    read_texts,
    split_text,
)
from ao_model_simulator.refusals import anthropic_refusals
from ao_model_simulator.script import ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock


class AnthropicMessages(Provider):
    """The Anthropic Messages API, whose vocabulary scripts use."""

    kind = "anthropic"
    title = "the Messages API"
    required_fields = ("model", "max_tokens", "messages")
    request_id_header = "request-id"
    route = "/v1/messages"
    words_of_status = error_words.ANTHROPIC
    broken = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n'

    def read_prompt(self, path: str, fields: Mapping[str, Any]) -> Prompt:
        """Return the prompt of a request. Messages and tools remain as they were sent."""
        output_format = read_object(read_object(fields.get("output_config")).get("format"))
        return Prompt(
            model=read_string(fields.get("model")),
            wants_stream=fields.get("stream") is True,
            system_blocks=read_texts(fields.get("system")),
            messages=read_objects(fields.get("messages")),
            tools=read_objects(fields.get("tools")),
            response_schema=output_format.get("schema"),
        )

    def refusals(self, path: str, fields: Mapping[str, Any]) -> Iterator[ModelError]:
        """Yield what the Messages API refuses."""
        return anthropic_refusals(fields)

    def body(self, given: GivenAnswer) -> dict[str, JsonValue]:
        """Return the document of an answer that is not streamed."""
        return {
            "id": f"msg_{given.id}",
            "type": "message",
            "role": "assistant",
            "model": given.model,
            "content": [_block_json(given, n, block) for n, block in enumerate(given.answer.blocks)],
            "stop_reason": given.answer.effective_stop_reason,
            "stop_sequence": None,
            "usage": _usage(given),
        }

    def stream(self, given: GivenAnswer) -> Iterator[StreamEvent]:
        """Yield the events of a complete stream without faults."""
        usage = _usage(given)
        opening = self.body(given) | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
        yield Marker(_encode({"type": "message_start", "message": opening}))
        yield Marker(_encode({"type": "ping"}))
        for index, block in enumerate(given.answer.blocks):
            yield from _block_events(given, index, block)
        delta: JsonValue = {"stop_reason": given.answer.effective_stop_reason, "stop_sequence": None}
        yield Marker(_encode({"type": "message_delta", "delta": delta, "usage": usage}))
        yield Marker(_encode({"type": "message_stop"}))

    def error_event(self, given: GivenAnswer, error: ModelError, sent: int) -> bytes:
        """Return an error inside a stream."""
        return _encode(self.error_body(error, given.path))

    def error_body(self, error: ModelError, path: str) -> dict[str, JsonValue]:
        """Return the document of an error. If the script gives no type, the status determines it."""
        fallback = "invalid_request_error" if error.status < 500 else "api_error"
        type_ = error.type or TYPE_OF_STATUS.get(error.status, fallback)
        return {"type": "error", "error": {"type": type_, "message": error.message}}


def _usage(given: GivenAnswer) -> dict[str, JsonValue]:
    usage: dict[str, JsonValue] = given.answer.usage.model_dump(mode="json")
    thinking_tokens = usage.pop("reasoning_tokens")
    return usage | ({"output_tokens_details": {"thinking_tokens": thinking_tokens}} if thinking_tokens else {})


def _encode(document: Mapping[str, JsonValue]) -> bytes:
    return f"event: {document['type']}\ndata: {json_text(document)}\n\n".encode()


def _block_json(given: GivenAnswer, index: int, block: ContentBlock) -> dict[str, JsonValue]:
    document: dict[str, JsonValue] = block.model_dump(mode="json")
    if isinstance(block, ToolUseBlock):
        document["id"] = given.tool_call_id("toolu", index, block)
    return document


def _block_events(given: GivenAnswer, index: int, block: ContentBlock) -> Iterator[StreamEvent]:
    empty: dict[str, JsonValue]
    texts: list[tuple[str, str, str]]
    match block:
        case TextBlock(text=text):
            empty = {"text": ""}
            texts = [("text_delta", "text", text)]
        case ThinkingBlock(thinking=thinking, signature=signature):
            empty = {"thinking": "", "signature": ""}
            texts = [("thinking_delta", "thinking", thinking), ("signature_delta", "signature", signature)]
        case ToolUseBlock(input=arguments):
            empty = {"input": {}}
            texts = [("input_json_delta", "partial_json", json.dumps(arguments))]
        case _:
            assert_never(block)
    opening: JsonValue = _block_json(given, index, block) | empty
    yield Marker(_encode({"type": "content_block_start", "index": index, "content_block": opening}))
    for type_, field, text in texts:
        for piece in split_text(text, given.answer.chunk_chars):
            yield Delta(piece, partial(_encode_delta, index, type_, field))
    yield Marker(_encode({"type": "content_block_stop", "index": index}), closes_content=True)


def _encode_delta(index: int, type_: str, field: str, piece: str) -> bytes:
    return _encode({"type": "content_block_delta", "index": index, "delta": {"type": type_, field: piece}})

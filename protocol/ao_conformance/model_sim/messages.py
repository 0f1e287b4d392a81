"""An answer in the words of the Anthropic Messages API: one JSON body, or the events of a stream.

Rules of the stream: `message_start`; per content block `content_block_start`, deltas, `content_block_stop`;
`message_delta` with the stop reason and the usage; `message_stop`. `ping` may come anywhere.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from pydantic import JsonValue

from ao_conformance.model_sim.script import Answer, ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock

ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class Message:
    """An answer with the identity that it got when it was given."""

    id: str
    model: str
    answer: Answer

    def block_json(self, index: int, block: ContentBlock) -> dict[str, JsonValue]:
        """Return a content block with its id filled in."""
        document: dict[str, JsonValue] = block.model_dump(mode="json")
        if isinstance(block, ToolUseBlock) and block.id is None:
            document["id"] = f"toolu_{self.id.removeprefix('msg_')}_{index}"
        return document

    def as_json(self) -> dict[str, JsonValue]:
        """Return the body of an answer that is not streamed."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": [self.block_json(n, block) for n, block in enumerate(self.answer.blocks)],
            "stop_reason": self.answer.effective_stop_reason,
            "stop_sequence": None,
            "usage": self.answer.usage.model_dump(mode="json"),
        }


@dataclass(frozen=True, slots=True)
class Marker:
    """An event of the stream that carries no characters of the content."""

    data: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Delta:
    """An event of the stream that carries a piece of the content."""

    index: int
    type: str
    field: str
    piece: str


StreamEvent = Marker | Delta


def stream_events(message: Message) -> Iterator[StreamEvent]:
    """Yield the events of a whole, sound stream."""
    usage = message.answer.usage.model_dump(mode="json")
    opening = message.as_json() | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    yield Marker({"type": "message_start", "message": opening})
    yield Marker({"type": "ping"})
    for index, block in enumerate(message.answer.blocks):
        yield from _block_events(message, index, block)
    delta: JsonValue = {"stop_reason": message.answer.effective_stop_reason, "stop_sequence": None}
    yield Marker({"type": "message_delta", "delta": delta, "usage": usage})
    yield Marker({"type": "message_stop"})


def encode_event(event: StreamEvent) -> bytes:
    """Return the event as server-sent event. ASCII only, so that a lone surrogate can be told too."""
    match event:
        case Marker(data):
            document = data
        case Delta(index, type_, field, piece):
            document = {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": type_, field: piece},
            }
        case _:
            assert_never(event)
    return f"event: {document['type']}\ndata: {json.dumps(document)}\n\n".encode()


def error_json(status: int, type_: str | None, message: str) -> dict[str, JsonValue]:
    """Return the API's error document; the type follows from the status when none is given."""
    fallback = "invalid_request_error" if status < 500 else "api_error"
    error: JsonValue = {"type": type_ or ERROR_TYPES.get(status, fallback), "message": message}
    return {"type": "error", "error": error}


def count_content_chars(answer: Answer) -> int:
    """Return how many characters the deltas of the streamed answer carry, signatures included."""
    return sum(len(text) for block in answer.blocks for _, _, text in _delta_texts(block))


def _block_events(message: Message, index: int, block: ContentBlock) -> Iterator[StreamEvent]:
    empty: dict[str, JsonValue]
    match block:
        case TextBlock():
            empty = {"text": ""}
        case ThinkingBlock():
            empty = {"thinking": "", "signature": ""}
        case ToolUseBlock():
            empty = {"input": {}}
        case _:
            assert_never(block)
    opening: JsonValue = message.block_json(index, block) | empty
    yield Marker({"type": "content_block_start", "index": index, "content_block": opening})
    size = message.answer.chunk_chars
    for type_, field, text in _delta_texts(block):
        for start in range(0, len(text), size):
            yield Delta(index, type_, field, text[start : start + size])
    yield Marker({"type": "content_block_stop", "index": index})


def _delta_texts(block: ContentBlock) -> list[tuple[str, str, str]]:
    match block:
        case TextBlock(text=text):
            return [("text_delta", "text", text)]
        case ThinkingBlock(thinking=thinking, signature=signature):
            return [("thinking_delta", "thinking", thinking), ("signature_delta", "signature", signature)]
        case ToolUseBlock(input=arguments):
            return [("input_json_delta", "partial_json", json.dumps(arguments))]
        case _:
            assert_never(block)

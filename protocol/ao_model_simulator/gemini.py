"""Google's Gemini API, `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`.

Rules of the stream: complete documents of the same form, each with a piece of the text; the last one has the finish
reason. With `alt=sse` they are server-sent events, otherwise the elements of one JSON array. A function call is never
cut into pieces.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs

from pydantic import JsonValue

from ao_model_simulator import error_words
from ao_model_simulator.provider import (
    Delta,
    GivenAnswer,
    Marker,
    ModelError,
    Prompt,
    Provider,
    StreamEvent,
    join_by_role,
    json_text,
    read_object,
    read_objects,
    read_string,
    split_text,
    text_block,
    tool_definition,
    tool_result_block,
    tool_use_block,
)
from ao_model_simulator.refusals import gemini_name_refusal, gemini_schema_refusals, gemini_turn_refusals
from ao_model_simulator.script import ContentBlock, StopReason, TextBlock, ThinkingBlock, ToolUseBlock

ROUTE: Final = re.compile(r"/v1(?:beta|alpha)?/(?:models|tunedModels)/(?P<model>[^/:]+):(?P<verb>\w+)")
STREAM_VERB: Final = "streamGenerateContent"
VERBS: Final = ("generateContent", STREAM_VERB)
FINISH_REASONS: Final[dict[StopReason, str]] = {
    "max_tokens": "MAX_TOKENS",
    "model_context_window_exceeded": "MAX_TOKENS",
    "refusal": "SAFETY",
}
STATUS_NAMES: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}
RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"


class Gemini(Provider):
    """The Gemini API: one candidate, and the model in the path."""

    kind = "gemini"
    title = "the Gemini API"
    required_fields = ("contents",)
    words_of_status = error_words.GEMINI

    def serves(self, method: str, route: str) -> bool:
        """Return whether a request asks a model for an answer."""
        found = ROUTE.fullmatch(route)
        return method == "POST" and found is not None and found["verb"] in VERBS

    def read_prompt(self, path: str, fields: Mapping[str, Any]) -> Prompt:
        """Return the prompt of a request. The model's name has no `models/`."""
        found = ROUTE.fullmatch(path.partition("?")[0])
        config = read_object(_member(fields, "generationConfig"))
        declarations = [
            declaration
            for tool in read_objects(fields.get("tools"))
            for declaration in read_objects(_member(tool, "functionDeclarations"))
        ]
        return Prompt(
            model=None if found is None else found["model"],
            wants_stream=found is not None and found["verb"] == STREAM_VERB,
            system_blocks=_part_texts(read_object(_member(fields, "systemInstruction"))),
            messages=join_by_role(_read_content(content) for content in read_objects(fields.get("contents"))),
            tools=[_read_declaration(declaration) for declaration in declarations],
            response_schema=_member(config, "responseJsonSchema") or _member(config, "responseSchema"),
        )

    def refusals(self, path: str, fields: Mapping[str, Any]) -> Iterator[ModelError]:
        """Yield what the Gemini API refuses."""
        for index, tool in enumerate(read_objects(fields.get("tools"))):
            for number, declaration in enumerate(read_objects(_member(tool, "functionDeclarations"))):
                place = f"tools[{index}].function_declarations[{number}]"
                yield from gemini_name_refusal(declaration.get("name"), place)
                yield from gemini_schema_refusals(declaration.get("parameters"), f"{place}.parameters")
        config = read_object(_member(fields, "generationConfig"))
        yield from gemini_schema_refusals(_member(config, "responseSchema"), "generation_config.response_schema")
        turns = [read_objects(content.get("parts")) for content in read_objects(fields.get("contents"))]
        kinds = ("functionCall", "functionResponse")
        counts = [[sum(bool(_member(part, kind)) for part in parts) for kind in kinds] for parts in turns]
        yield from gemini_turn_refusals([(calls, results) for calls, results in counts])

    def body(self, given: GivenAnswer) -> JsonValue:
        """Return the document of an answer that is not streamed."""
        return _document(given, [_part(given, n) for n in range(len(given.answer.blocks))], is_last=True)

    def stream_type(self, given: GivenAnswer) -> str:
        """Return the content type of a stream."""
        return "text/event-stream" if _is_sse(given.path) else "application/json; charset=UTF-8"

    def stream(self, given: GivenAnswer) -> Iterator[StreamEvent]:
        """Yield the events of a complete stream without faults."""
        sent = 0
        for index, block in enumerate(given.answer.blocks):
            is_call = isinstance(block, ToolUseBlock)
            text = _text_of(block)
            for piece in [text] if is_call else split_text(text, given.answer.chunk_chars):
                yield Delta(piece, partial(_encode_part, given, index, sent), is_divisible=not is_call)
                sent += 1
        ending = _document(given, [{"text": ""}], is_last=True)
        yield Marker(_frame(given.path, ending, sent), closes_content=True)
        if not _is_sse(given.path):
            yield Marker(b"]")

    def broken_event(self, given: GivenAnswer, sent: int) -> bytes:
        """Return an event whose data is not JSON."""
        broken = '{"candidates": [{"conte'
        return (f"data: {broken}\r\n\r\n" if _is_sse(given.path) else _separator(sent) + broken).encode()

    def error_event(self, given: GivenAnswer, error: ModelError, sent: int) -> bytes:
        """Return an error inside a stream, and the end of the stream."""
        return _frame(given.path, {"error": _error(error)}, sent) + (b"" if _is_sse(given.path) else b"]")

    def error_body(self, error: ModelError, path: str) -> JsonValue:
        """Return the document of an error. If the stream is an array, the error is its element."""
        document: JsonValue = {"error": _error(error)}
        is_array = path.partition("?")[0].endswith(STREAM_VERB) and not _is_sse(path)
        return [document] if is_array else document


def _member(fields: Mapping[str, Any], name: str) -> JsonValue:
    """Return a member, which JSON of protocol buffers may name in camel case or in snake case."""
    snake = re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
    value: JsonValue = fields.get(name, fields.get(snake))
    return value


def _part_texts(content: Mapping[str, Any]) -> list[str]:
    texts = [part.get("text") for part in read_objects(content.get("parts")) if not part.get("thought")]
    return [text for text in texts if isinstance(text, str)]


def _read_content(content: Mapping[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    role = "assistant" if content.get("role") == "model" else "user"
    return role, [_read_part(part) for part in read_objects(content.get("parts"))]


def _read_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if call := read_object(_member(part, "functionCall")):
        return tool_use_block(call.get("id"), call.get("name"), call.get("args", {}))
    if result := read_object(_member(part, "functionResponse")):
        return tool_result_block(result.get("id") or result.get("name"), [_response_text(result.get("response"))])
    text = read_string(part.get("text"))
    if text is None:
        return part
    return {"type": "thinking", "thinking": text} if part.get("thought") else text_block(text)


def _response_text(response: object) -> str:
    """Return the output of a tool. Clients wrap it into an object with one member, such as `result`."""
    if isinstance(response, dict) and len(response) == 1:
        (response,) = response.values()
    return response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)


def _read_declaration(declaration: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = _member(declaration, "parametersJsonSchema") or _member(declaration, "parameters")
    return tool_definition(declaration.get("name"), declaration.get("description"), schema)


def _part(given: GivenAnswer, index: int, piece: str | None = None) -> dict[str, JsonValue]:
    """Return the part for a content block, or for a piece of its text."""
    block = given.answer.blocks[index]
    if isinstance(block, ToolUseBlock):
        call_id = given.tool_call_id("call", index, block)
        return {"functionCall": {"id": call_id, "name": block.name, "args": block.input}}
    part: dict[str, JsonValue] = {"text": _text_of(block) if piece is None else piece}
    return part | {"thought": True} if isinstance(block, ThinkingBlock) else part


def _text_of(block: ContentBlock) -> str:
    match block:
        case TextBlock(text=text) | ThinkingBlock(thinking=text):
            return text
        case ToolUseBlock(input=arguments):
            return json.dumps(arguments)


def _encode_part(given: GivenAnswer, index: int, sent: int, piece: str) -> bytes:
    return _frame(given.path, _document(given, [_part(given, index, piece)], is_last=False), sent)


def _document(given: GivenAnswer, parts: Sequence[dict[str, JsonValue]], *, is_last: bool) -> dict[str, JsonValue]:
    candidate: dict[str, JsonValue] = {"content": {"parts": [*parts], "role": "model"}, "index": 0}
    if is_last:
        candidate["finishReason"] = FINISH_REASONS.get(given.answer.effective_stop_reason, "STOP")
    usage = given.answer.usage
    counts: dict[str, JsonValue] = {
        "promptTokenCount": usage.all_input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.all_input_tokens + usage.output_tokens,
    }
    if usage.reasoning_tokens:
        counts["thoughtsTokenCount"] = usage.reasoning_tokens
    if usage.cache_read_input_tokens:
        counts["cachedContentTokenCount"] = usage.cache_read_input_tokens
    return {
        "candidates": [candidate],
        "usageMetadata": counts,
        "modelVersion": given.model,
        "responseId": f"resp-{given.id}",
    }


def _error(error: ModelError) -> dict[str, JsonValue]:
    fallback = "INVALID_ARGUMENT" if error.meant_status < 500 else "INTERNAL"
    status = error.own_type or STATUS_NAMES.get(error.meant_status, fallback)
    document: dict[str, JsonValue] = {"code": error.status, "message": error.message, "status": status}
    if error.retry_after is not None:
        document["details"] = [{"@type": RETRY_INFO, "retryDelay": f"{error.retry_after}s"}]
    return document


def _is_sse(path: str) -> bool:
    return parse_qs(path.partition("?")[2]).get("alt") == ["sse"]


def _frame(path: str, document: Mapping[str, JsonValue], sent: int) -> bytes:
    text = json_text(document)
    if _is_sse(path):
        return f"data: {text}\r\n\r\n".encode()
    return f"{_separator(sent)}{text}".encode()


def _separator(sent: int) -> str:
    """Return the text before an element of the array."""
    return "[" if sent == 0 else ",\r\n"

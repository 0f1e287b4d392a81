"""OpenAI's Chat Completions API, `POST /v1/chat/completions`.

Rules of the stream: chunks with a `delta` each, the first with the role, the last with the finish reason; then, if
asked for, one with the usage and no choice; then `[DONE]`. A tool call begins with its name and goes on with pieces of
its arguments.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import JsonValue

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
from ao_model_simulator.script import StopReason, TextBlock, ThinkingBlock, ToolUseBlock, Usage

STREAM_TYPE: Final = "text/event-stream; charset=utf-8"
TYPE_AND_CODE: Final[dict[int, tuple[str, str | None]]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("service_unavailable_error", "server_is_overloaded"),
    529: ("service_unavailable_error", "server_is_overloaded"),
}


def openai_error(error: ModelError) -> dict[str, JsonValue]:
    """Return the `error` object. A type that only the script knows goes out as the code."""
    fallback = "invalid_request_error" if error.meant_status < 500 else "server_error"
    type_, code = TYPE_AND_CODE.get(error.meant_status, (fallback, None))
    if error.own_type == "insufficient_quota":
        type_ = error.own_type
    return {"message": error.message, "type": type_, "param": None, "code": error.own_type or code}


def token_details(usage: Usage) -> tuple[JsonValue, JsonValue]:
    """Return the details of the input's and of the output's tokens."""
    cache: JsonValue = {
        "cached_tokens": usage.cache_read_input_tokens,
        "cache_write_tokens": usage.cache_creation_input_tokens,
    }
    return cache, {"reasoning_tokens": 0}


ROUTE: Final = "/v1/chat/completions"
SYSTEM_ROLES: Final = ("system", "developer")
TOOL_ROLES: Final = ("tool", "function")
DONE: Final = b"data: [DONE]\n\n"
BROKEN_EVENT: Final = b'data: {"id":"chatcmpl","object":"chat.completion.chu\n\n'
FINISH_REASONS: Final[dict[StopReason, str]] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "stop",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}


class OpenAIChat:
    """One choice, one text; thinking goes out as `reasoning_content`, which compatible servers send."""

    kind = "openai-chat"
    title = "the Chat Completions API"
    required_fields = ("model", "messages")
    request_id_header = "x-request-id"

    def serves(self, method: str, route: str) -> bool:
        """Return whether this asks a model for an answer."""
        return (method, route) == ("POST", ROUTE)

    def read_prompt(self, path: str, fields: Mapping[str, Any]) -> Prompt:
        """Return what was asked. Messages of the system, wherever they stand, are the system prompt."""
        sent = read_objects(fields.get("messages"))
        system = [message for message in sent if _is_system(message)]
        response_format = read_object(fields.get("response_format"))
        return Prompt(
            model=read_string(fields.get("model")),
            wants_stream=fields.get("stream") is True,
            system_blocks=[text for message in system for text in read_texts(message.get("content"))],
            messages=join_by_role(_read_message(message) for message in sent if not _is_system(message)),
            tools=[_read_tool(tool) for tool in read_objects(fields.get("tools"))],
            response_schema=read_object(response_format.get("json_schema")).get("schema"),
        )

    def body(self, given: GivenAnswer) -> JsonValue:
        """Return the document of an answer that is not streamed."""
        message: dict[str, JsonValue] = {"role": "assistant", "content": given.text, "refusal": None, "annotations": []}
        if given.thinking:
            message["reasoning_content"] = given.thinking
        if given.tool_uses:
            message["tool_calls"] = [
                _tool_call(given, index, block, json.dumps(block.input)) for index, block in given.tool_uses
            ]
        choice: JsonValue = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(given)}
        return {
            "id": f"chatcmpl-{given.id}",
            "object": "chat.completion",
            "created": CREATED,
            "model": given.model,
            "choices": [choice],
            "usage": _usage(given),
            "service_tier": "default",
            "system_fingerprint": None,
        }

    def stream_type(self, given: GivenAnswer) -> str:
        """Return the content type of a stream."""
        return STREAM_TYPE

    def stream(self, given: GivenAnswer) -> Iterator[StreamEvent]:
        """Yield the events of a whole, sound stream."""
        yield Marker(_chunk(given, {"role": "assistant", "content": "", "refusal": None}))
        calls = 0
        for index, block in enumerate(given.answer.blocks):
            if isinstance(block, ToolUseBlock):
                yield from _tool_call_events(given, calls, index, block)
                calls += 1
            elif isinstance(block, TextBlock):
                yield from _text_events(given, "content", block.text)
            elif isinstance(block, ThinkingBlock):
                yield from _text_events(given, "reasoning_content", block.thinking)
        yield Marker(_chunk(given, {}, _finish_reason(given)), closes_content=True)
        if _includes_usage(given):
            yield Marker(_encode(_chunk_json(given) | {"choices": [], "usage": _usage(given)}))
        yield Marker(DONE)

    def broken_event(self, given: GivenAnswer, sent: int) -> bytes:
        """Return an event whose data is no JSON."""
        return BROKEN_EVENT

    def error_event(self, given: GivenAnswer, error: ModelError, sent: int) -> bytes:
        """Return an error inside a stream: an event that has an `error` and no choices."""
        return _encode({"error": openai_error(error)})

    def error_body(self, error: ModelError, path: str) -> JsonValue:
        """Return the document of an error."""
        return {"error": openai_error(error)}


def _is_system(message: Mapping[str, Any]) -> bool:
    return message.get("role") in SYSTEM_ROLES


def _read_message(message: Mapping[str, Any]) -> tuple[str, list[Mapping[str, Any]]]:
    role, content = message.get("role"), message.get("content")
    texts = read_texts(content)
    if role in TOOL_ROLES:
        return "user", [tool_result_block(message.get("tool_call_id"), texts)]
    others = [block for block in read_objects(content) if block.get("type") != "text"]
    blocks: list[Mapping[str, Any]] = [*others, *(text_block(text) for text in texts)]
    for call in read_objects(message.get("tool_calls")):
        function = read_object(call.get("function"))
        blocks.append(tool_use_block(call.get("id"), function.get("name"), function.get("arguments")))
    return str(role), blocks


def _read_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    definition = read_object(tool.get(str(tool.get("type"))))
    return tool_definition(definition.get("name"), definition.get("description"), definition.get("parameters"))


def _finish_reason(given: GivenAnswer) -> str:
    return FINISH_REASONS[given.answer.effective_stop_reason]


def _usage(given: GivenAnswer) -> JsonValue:
    usage = given.answer.usage
    of_prompt, of_completion = token_details(usage)
    return {
        "prompt_tokens": usage.all_input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.all_input_tokens + usage.output_tokens,
        "prompt_tokens_details": of_prompt,
        "completion_tokens_details": of_completion,
    }


def _includes_usage(given: GivenAnswer) -> bool:
    return read_object(given.fields.get("stream_options")).get("include_usage") is True


def _tool_call(given: GivenAnswer, index: int, block: ToolUseBlock, arguments: str) -> dict[str, JsonValue]:
    function: JsonValue = {"name": block.name, "arguments": arguments}
    return {"id": given.tool_call_id("call", index, block), "type": "function", "function": function}


def _text_events(given: GivenAnswer, field: str, text: str) -> Iterator[Delta]:
    for piece in split_text(text, given.answer.chunk_chars):
        yield Delta(piece, lambda piece: _chunk(given, {field: piece}))


def _tool_call_events(given: GivenAnswer, number: int, index: int, block: ToolUseBlock) -> Iterator[StreamEvent]:
    yield Marker(_chunk(given, {"tool_calls": [{"index": number, **_tool_call(given, index, block, "")}]}))
    for piece in split_text(json.dumps(block.input), given.answer.chunk_chars):
        yield Delta(
            piece,
            lambda piece: _chunk(given, {"tool_calls": [{"index": number, "function": {"arguments": piece}}]}),
        )


def _chunk_json(given: GivenAnswer) -> dict[str, JsonValue]:
    document: dict[str, JsonValue] = {
        "id": f"chatcmpl-{given.id}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": given.model,
        "service_tier": "default",
        "system_fingerprint": None,
    }
    return document | {"usage": None} if _includes_usage(given) else document


def _chunk(given: GivenAnswer, delta: dict[str, JsonValue], finish_reason: str | None = None) -> bytes:
    choice: JsonValue = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _encode(_chunk_json(given) | {"choices": [choice]})


def _encode(document: Mapping[str, JsonValue]) -> bytes:
    return f"data: {json_text(document)}\n\n".encode()

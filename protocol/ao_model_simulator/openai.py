"""OpenAI's Chat Completions API, `POST /v1/chat/completions`, and its Responses API, `POST /v1/responses`.

A stream of completions: chunks with a `delta` each, the first with the role, the last with the finish reason; then, if
requested, one with the usage and no choice; then `[DONE]`. A tool call is its name, then pieces of its arguments.

A stream of responses: every event has a type and a `sequence_number` from 0. `response.created` and
`response.in_progress`; per output item `output_item.added`, the pieces of its text with a `done` after them, and
`output_item.done`; `response.completed`, or `response.incomplete` with the reason.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final, assert_never

from pydantic import JsonValue

from ao_model_simulator import error_words
from ao_model_simulator.provider import (
    CREATED,
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
    read_texts,
    split_text,
    text_block,
    tool_definition,
    tool_result_block,
    tool_use_block,
)
from ao_model_simulator.refusals import chat_turn_refusals, openai_tool_refusals, response_format_refusals, unpaired
from ao_model_simulator.script import ContentBlock, StopReason, TextBlock, ThinkingBlock, ToolUseBlock

JsonObject = dict[str, JsonValue]

SYSTEM_ROLES: Final = ("system", "developer")
TOOL_ROLES: Final = ("tool", "function")
TEXT_TYPES: Final = ("input_text", "output_text", "text")
TYPE_AND_CODE: Final[dict[int, tuple[str, str | None]]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("service_unavailable_error", "server_is_overloaded"),
    529: ("service_unavailable_error", "server_is_overloaded"),
}


class _OpenAI(Provider):
    """The common part of both APIs: the form of errors."""

    words_of_status = error_words.OPENAI

    def error_body(self, error: ModelError, path: str) -> JsonValue:
        """Return the document of an error."""
        return {"error": _error(error)}


def _error(error: ModelError) -> JsonObject:
    """Return the `error` object. A type that is not in the table becomes the code."""
    fallback = "invalid_request_error" if error.meant_status < 500 else "server_error"
    type_, code = TYPE_AND_CODE.get(error.meant_status, (fallback, None))
    if error.own_type == "insufficient_quota":
        type_ = error.own_type
    return {"message": error.message, "type": type_, "param": error.param, "code": error.code or error.own_type or code}


def _usage(given: GivenAnswer, of_input: str, of_output: str) -> JsonObject:
    """Return the token counts. The APIs have different names for input and output."""
    usage = given.answer.usage
    return {
        f"{of_input}_tokens": usage.all_input_tokens,
        f"{of_input}_tokens_details": {
            "cached_tokens": usage.cache_read_input_tokens,
            "cache_write_tokens": usage.cache_creation_input_tokens,
        },
        f"{of_output}_tokens": usage.output_tokens,
        f"{of_output}_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.all_input_tokens + usage.output_tokens,
    }


def _is_system(message: Mapping[str, Any]) -> bool:
    return message.get("role") in SYSTEM_ROLES


FINISH_REASONS: Final[dict[StopReason, str]] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "stop",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}


class OpenAIChat(_OpenAI):
    """The Chat Completions API: one choice and one text. Thinking is `reasoning_content`, as in compatible servers."""

    kind = "openai-chat"
    title = "the Chat Completions API"
    required_fields = ("model", "messages")
    route = "/v1/chat/completions"
    broken = b'data: {"id":"chatcmpl","object":"chat.completion.chu\n\n'

    def read_prompt(self, path: str, fields: Mapping[str, Any]) -> Prompt:
        """Return the prompt of a request. System messages, at any position, are the system prompt."""
        sent = read_objects(fields.get("messages"))
        system = [message for message in sent if _is_system(message)]
        response_format = read_object(fields.get("response_format"))
        return Prompt(
            model=read_string(fields.get("model")),
            wants_stream=fields.get("stream") is True,
            system_blocks=[text for message in system for text in read_texts(message.get("content"))],
            messages=join_by_role(_read_message(message) for message in sent if not _is_system(message)),
            tools=[_read_chat_tool(tool) for tool in read_objects(fields.get("tools"))],
            response_schema=read_object(response_format.get("json_schema")).get("schema"),
        )

    def refusals(self, path: str, fields: Mapping[str, Any]) -> Iterator[ModelError]:
        """Yield what the Chat Completions API refuses. For calls without results see QwenLM/qwen-code#606."""
        wanted = read_object(read_object(fields.get("response_format")).get("json_schema"))
        if wanted.get("strict") is True:
            yield from response_format_refusals(wanted.get("name"), wanted.get("schema"), "response_format", None)
        tools = enumerate(read_objects(fields.get("tools")))
        yield from openai_tool_refusals(
            [
                (f"tools[{index}].function", read_object(tool.get("function")))
                for index, tool in tools
                if tool.get("type") == "function"
            ]
        )
        yield from chat_turn_refusals(read_objects(fields.get("messages")))

    def body(self, given: GivenAnswer) -> JsonValue:
        """Return the document of an answer that is not streamed."""
        blocks = given.answer.blocks
        texts = [block.text for block in blocks if isinstance(block, TextBlock)]
        text = "".join(texts) if texts else None
        message: JsonObject = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
        if thinking := "".join(block.thinking for block in blocks if isinstance(block, ThinkingBlock)):
            message["reasoning_content"] = thinking
        calls = [_tool_call(given, n, block) for n, block in enumerate(blocks) if isinstance(block, ToolUseBlock)]
        if calls:
            message["tool_calls"] = [*calls]
        reason = FINISH_REASONS[given.answer.effective_stop_reason]
        choice: JsonValue = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        document = _chat_document(given, "chat.completion")
        return document | {"choices": [choice], "usage": _usage(given, "prompt", "completion")}

    def stream(self, given: GivenAnswer) -> Iterator[StreamEvent]:
        """Yield the events of a complete stream without faults."""
        yield Marker(_chunk(given, {"role": "assistant", "content": "", "refusal": None}))
        calls = 0
        for index, block in enumerate(given.answer.blocks):
            match block:
                case TextBlock(text=text):
                    encode = partial(_encode_text, given, "content")
                case ThinkingBlock(thinking=text):
                    encode = partial(_encode_text, given, "reasoning_content")
                case ToolUseBlock(input=arguments):
                    call = {"index": calls, **_tool_call(given, index, block, "")}
                    yield Marker(_chunk(given, {"tool_calls": [call]}))
                    text, encode = json.dumps(arguments), partial(_encode_arguments, given, calls)
                    calls += 1
                case _:
                    assert_never(block)
            for piece in split_text(text, given.answer.chunk_chars):
                yield Delta(piece, encode)
        reason = FINISH_REASONS[given.answer.effective_stop_reason]
        yield Marker(_chunk(given, {}, reason), closes_content=True)
        if _includes_usage(given):
            usage = _usage(given, "prompt", "completion")
            yield Marker(_encode_chunk(_chunk_document(given) | {"choices": [], "usage": usage}))
        yield Marker(b"data: [DONE]\n\n")

    def error_event(self, given: GivenAnswer, error: ModelError, sent: int) -> bytes:
        """Return an error inside a stream: an event with an `error` and without choices."""
        return _encode_chunk({"error": _error(error)})


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


def _read_chat_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    definition = read_object(tool.get(str(tool.get("type"))))
    return tool_definition(definition.get("name"), definition.get("description"), definition.get("parameters"))


def _includes_usage(given: GivenAnswer) -> bool:
    return read_object(given.fields.get("stream_options")).get("include_usage") is True


def _tool_call(given: GivenAnswer, index: int, block: ToolUseBlock, arguments: str | None = None) -> JsonObject:
    text = json.dumps(block.input) if arguments is None else arguments
    function: JsonValue = {"name": block.name, "arguments": text}
    return {"id": given.tool_call_id("call", index, block), "type": "function", "function": function}


def _chat_document(given: GivenAnswer, kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-{given.id}",
        "object": kind,
        "created": CREATED,
        "model": given.model,
        "service_tier": "default",
        "system_fingerprint": None,
    }


def _chunk_document(given: GivenAnswer) -> JsonObject:
    document = _chat_document(given, "chat.completion.chunk")
    return document | {"usage": None} if _includes_usage(given) else document


def _chunk(given: GivenAnswer, delta: JsonObject, finish_reason: str | None = None) -> bytes:
    choice: JsonValue = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _encode_chunk(_chunk_document(given) | {"choices": [choice]})


def _encode_text(given: GivenAnswer, member: str, piece: str) -> bytes:
    return _chunk(given, {member: piece})


def _encode_arguments(given: GivenAnswer, number: int, piece: str) -> bytes:
    return _chunk(given, {"tool_calls": [{"index": number, "function": {"arguments": piece}}]})


def _encode_chunk(document: Mapping[str, JsonValue]) -> bytes:
    return f"data: {json_text(document)}\n\n".encode()


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
"""The members that an answer repeats from its request, with their defaults."""


class OpenAIResponses(_OpenAI):
    """The Responses API: one output item per content block. Any `previous_response_id` is accepted."""

    kind = "openai-responses"
    title = "the Responses API"
    required_fields = ("model", "input")
    route = "/v1/responses"
    broken = b'event: response.output_text.delta\ndata: {"type":"response.output_text.del\n\n'

    def read_prompt(self, path: str, fields: Mapping[str, Any]) -> Prompt:
        """Return the prompt of this request, without the conversation of `previous_response_id`."""
        sent = fields.get("input")
        items = [{"role": "user", "content": sent}] if isinstance(sent, str) else read_objects(sent)
        instructions = read_texts(fields.get("instructions"))
        system = [text for item in items if _is_system(item) for text in read_texts(item.get("content"), TEXT_TYPES)]
        return Prompt(
            model=read_string(fields.get("model")),
            wants_stream=fields.get("stream") is True,
            system_blocks=[*instructions, *system],
            messages=join_by_role(_read_item(item) for item in items if not _is_system(item)),
            tools=[
                tool_definition(tool.get("name") or tool.get("type"), tool.get("description"), tool.get("parameters"))
                for tool in _tools_by_whole_name(fields)
            ],
            response_schema=read_object(read_object(fields.get("text")).get("format")).get("schema"),
        )

    def refusals(self, path: str, fields: Mapping[str, Any]) -> Iterator[ModelError]:
        """Yield what the Responses API refuses. For results without calls see continuedev/continue#10092."""
        wanted = read_object(read_object(fields.get("text")).get("format"))
        if wanted.get("strict") is True:
            code, param = "invalid_json_schema", "text.format.schema"
            yield from response_format_refusals(wanted.get("name"), wanted.get("schema"), param, code)
        offered = enumerate(read_objects(fields.get("tools")))
        yield from openai_tool_refusals(
            [(f"tools[{index}]", tool) for index, tool in offered if tool.get("type") == "function"]
        )
        items = read_objects(fields.get("input"))
        calls, results = (
            [str(item.get("call_id")) for item in items if item.get("type") == kind]
            for kind in ("function_call", "function_call_output")
        )
        open_calls, orphans = unpaired(calls, results)
        yield from (ModelError(400, f"No tool output found for function call {x}.", param="input") for x in open_calls)
        if fields.get("previous_response_id") is None:
            words = "No tool call found for function call output with call_id"
            yield from (ModelError(400, f"{words} {x}.", param="input") for x in orphans)

    def body(self, given: GivenAnswer) -> JsonObject:
        """Return the document of an answer that is not streamed."""
        reason = _incomplete_reason(given)
        return _in_progress(given) | {
            "status": "completed" if reason is None else "incomplete",
            "incomplete_details": None if reason is None else {"reason": reason},
            "output": [item.document for item in _output_items(given)],
            "usage": _usage(given, "input", "output"),
        }

    def stream(self, given: GivenAnswer) -> Iterator[StreamEvent]:
        """Yield the events of a complete stream without faults."""
        numbers = count()
        for type_ in ("response.created", "response.in_progress"):
            yield Marker(_encode(type_, next(numbers), {"response": _in_progress(given)}))
        for index, item in enumerate(_output_items(given)):
            yield from _item_events(numbers, index, item, given.answer.chunk_chars)
        ending = "response.completed" if _incomplete_reason(given) is None else "response.incomplete"
        yield Marker(_encode(ending, next(numbers), {"response": self.body(given)}))

    def error_event(self, given: GivenAnswer, error: ModelError, sent: int) -> bytes:
        """Return an error inside a stream.

        The error is nested, as the API sends it. The reference of the API shows its members beside the type.
        """
        return _encode("error", sent, {"error": _error(error)})


def _read_item(item: Mapping[str, Any]) -> tuple[str, Sequence[Mapping[str, Any]]]:
    match item.get("type", "message"):
        case "message":
            content = item.get("content")
            others = [part for part in read_objects(content) if part.get("type") not in TEXT_TYPES]
            return str(item.get("role")), [*others, *map(text_block, read_texts(content, TEXT_TYPES))]
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


@dataclass(frozen=True, slots=True)
class OutputItem:
    """An item of the output, and how its text is streamed.

    `holder` is the member of the document that has the text, alone or in its only part. `text_event` is the name of the
    text's events. `part` has the name of the part's events and the part; it is None if the item itself holds the text.
    """

    document: JsonObject
    text: str
    holder: str
    text_event: str
    part: tuple[str, JsonObject] | None = None


def _output_items(given: GivenAnswer) -> list[OutputItem]:
    """Return the items of the answer. If the answer is incomplete, its last item is incomplete."""
    last = "completed" if _incomplete_reason(given) is None else "incomplete"
    blocks = given.answer.blocks
    return [
        _output_item(given, index, block, last if index == len(blocks) - 1 else "completed")
        for index, block in enumerate(blocks)
    ]


def _output_item(given: GivenAnswer, index: int, block: ContentBlock, status: str) -> OutputItem:
    place = f"{given.id}_{index}"
    match block:
        case TextBlock(text=text):
            part: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            document: JsonObject = {"id": f"msg_{place}", "type": "message", "status": status, "role": "assistant"}
            holder, text_event, part_event = "content", "response.output_text", "response.content_part"
        case ThinkingBlock(thinking=text):
            part = {"type": "summary_text", "text": text}
            document = {"id": f"rs_{place}", "type": "reasoning"}
            holder, text_event = "summary", "response.reasoning_summary_text"
            part_event = "response.reasoning_summary_part"
        case ToolUseBlock():
            text = json.dumps(block.input)
            call_id = given.tool_call_id("call", index, block)
            document = {"id": f"fc_{place}", "type": "function_call", "call_id": call_id, **_called(given, block.name)}
            document |= {"arguments": text, "status": status}
            return OutputItem(document, text, "arguments", "response.function_call_arguments")
        case _:
            assert_never(block)
    return OutputItem(document | {holder: [part]}, text, holder, text_event, (part_event, part))


def _offered_tools(fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the tools of a request: a client may also send them as an item of the input."""
    yield from read_objects(fields.get("tools"))
    if isinstance(items := fields.get("input"), list):
        for item in read_objects(items):
            if item.get("type") == "additional_tools":
                yield from read_objects(item.get("tools"))


def _tools_by_whole_name(fields: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the tools of a request, and behind a namespace `a` its tools: `a__b` for `b`."""
    for tool in _offered_tools(fields):
        yield tool
        for inner in read_objects(tool.get("tools")):
            yield {**inner, "name": f"{tool.get('name')}__{inner.get('name')}"}


def _called(given: GivenAnswer, name: str) -> JsonObject:
    """Return the name of a called tool. `mcp__a__b` is the tool `b`, if the request has it in a namespace `mcp__a`."""
    for tool in _offered_tools(given.fields):
        namespace = f"{tool.get('name')}__"
        if tool.get("type") == "namespace" and name.startswith(namespace):
            return {"name": name.removeprefix(namespace), "namespace": str(tool["name"])}
    return {"name": name}


def _item_events(numbers: Iterator[int], index: int, item: OutputItem, chunk_chars: int) -> Iterator[StreamEvent]:
    def marker(type_: str, members: Mapping[str, JsonValue], *, closes_content: bool = False) -> Marker:
        return Marker(_encode(type_, next(numbers), members), closes_content)

    place: JsonObject = {"output_index": index}
    inside: JsonObject = {"item_id": item.document["id"], **place}
    begun: JsonObject = {**item.document, item.holder: ""}
    if "status" in begun:
        begun["status"] = "in_progress"
    if item.part is not None:
        inside[f"{item.holder}_index"] = 0
        begun[item.holder] = []
    yield marker("response.output_item.added", {**place, "item": begun})
    if item.part is not None:
        name, part = item.part
        yield marker(f"{name}.added", {**inside, "part": part | {"text": ""}})
    of_text = inside | {"logprobs": []} if item.holder == "content" else inside
    for piece in split_text(item.text, chunk_chars):
        yield Delta(piece, partial(_encode_delta, f"{item.text_event}.delta", next(numbers), of_text))
    ending = {**of_text, "text" if item.part else item.holder: item.text}
    yield marker(f"{item.text_event}.done", ending, closes_content=True)
    if item.part is not None:
        yield marker(f"{name}.done", {**inside, "part": part})
    yield marker("response.output_item.done", {**place, "item": item.document})


def _in_progress(given: GivenAnswer) -> dict[str, JsonValue]:
    """Return the response before it has output."""
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


def _encode_delta(type_: str, number: int, members: Mapping[str, JsonValue], piece: str) -> bytes:
    return _encode(type_, number, {**members, "delta": piece})

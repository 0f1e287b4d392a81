"""How each API words the same answers, sound and faulty."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_model_simulator.anthropic_messages import AnthropicMessages
from ao_model_simulator.gemini import Gemini
from ao_model_simulator.openai import OpenAIChat, OpenAIResponses
from ao_model_simulator.provider import GivenAnswer, Provider
from ao_model_simulator.replies import Cut, Pause, Reply, Send, Stall, answer_reply
from ao_model_simulator.script import Answer

ANTHROPIC, CHAT, RESPONSES, GEMINI = AnthropicMessages(), OpenAIChat(), OpenAIResponses(), Gemini()
SSE_PATH = "/v1beta/models/g:streamGenerateContent?alt=sse"
ARRAY_PATH = "/v1beta/models/g:streamGenerateContent"
ALL: list[Provider] = [ANTHROPIC, CHAT, RESPONSES, GEMINI]
BASH = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}, "id": "call_a"}
EACH = pytest.mark.parametrize("provider", ALL, ids=[provider.kind for provider in ALL])


def reply_to(provider: Provider, stream: bool, answer: dict[str, Any], path: str = SSE_PATH, **fields: Any) -> Reply:
    turn = GivenAnswer("1", "m", Answer.model_validate(answer), path, fields)
    reply = answer_reply(provider, turn, stream=stream)
    return replace(reply, steps=tuple(reply.steps))


def payload_of(reply: Reply) -> bytes:
    return b"".join(step.payload for step in reply.steps if isinstance(step, Send))


def body_of(provider: Provider, **answer: Any) -> Any:
    return json.loads(payload_of(reply_to(provider, False, answer)))


def datas_of(reply: Reply) -> list[Any]:
    lines = payload_of(reply).decode().split("\n")
    datas = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(data) for data in datas if data != "[DONE]"]


def pieces_of(provider: Provider, datas: list[Any]) -> list[str]:
    """The text in a stream, piece by piece."""
    if provider is ANTHROPIC:
        return [data["delta"]["text"] for data in datas if data["type"] == "content_block_delta"]
    if provider is CHAT:
        deltas = [choice["delta"] for data in datas for choice in data["choices"]]
        return [delta["content"] for delta in deltas if delta.get("content")]
    if provider is RESPONSES:
        return [data["delta"] for data in datas if data["type"] == "response.output_text.delta"]
    texts = [part["text"] for data in datas for part in data["candidates"][0]["content"]["parts"]]
    return [text for text in texts if text]


USAGE = {"input_tokens": 100, "output_tokens": 50, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def test_a_message_is_one_document() -> None:
    assert body_of(ANTHROPIC, json={"a": "ü"}, stop_reason="max_tokens", usage={"output_tokens": 7}) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": '{"a": "ü"}'}],
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "usage": USAGE | {"output_tokens": 7},
    }
    assert body_of(ANTHROPIC, json=None)["content"] == [{"type": "text", "text": "null"}]
    thought = body_of(ANTHROPIC, json=None, usage={"reasoning_tokens": 3})["usage"]
    assert thought == USAGE | {"output_tokens_details": {"thinking_tokens": 3}}


def test_a_streamed_message_is_a_sound_stream() -> None:
    reply = reply_to(ANTHROPIC, True, {"text": "Hello.", "chunk_chars": 4})
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    start = {"stop_reason": None, "stop_sequence": None, "usage": USAGE | {"output_tokens": 1}}
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert datas_of(reply) == [
        {"type": "message_start", "message": message | start},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hell"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "o."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": USAGE},
        {"type": "message_stop"},
    ]
    assert list(reply.steps)[-1] == Send(b'event: message_stop\ndata: {"type": "message_stop"}\n\n')


def test_thinking_and_a_tool_use_are_streamed_in_messages() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}
    events = datas_of(reply_to(ANTHROPIC, True, {"content": [thinking, call]}))
    assert [event["delta"] for event in events if "delta" in event] == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
        {"type": "input_json_delta", "partial_json": '{"command": "ls"}'},
        {"stop_reason": "tool_use", "stop_sequence": None},
    ]
    assert events[6]["content_block"] == {"type": "tool_use", "name": "Bash", "input": {}, "id": "toolu_1_1"}


def test_a_stall_sends_nothing_and_delays_come_before_everything_and_after_each_piece() -> None:
    assert list(reply_to(ANTHROPIC, True, {"stall": True}).steps) == [Stall()]
    reply = reply_to(
        ANTHROPIC, True, {"text": "abcd", "chunk_chars": 2, "delay_seconds": 9, "chunk_delay_seconds": 0.5}
    )
    assert reply.delay_seconds == 9
    assert [isinstance(step, Pause) for step in reply.steps][3:7] == [False, True, False, True]


def test_a_chat_completion_is_one_document() -> None:
    usage = {"input_tokens": 10, "output_tokens": 3, "cache_read_input_tokens": 5}
    document = body_of(CHAT, content=[{"type": "text", "text": "Hm."}, BASH], usage=usage)
    call = {"id": "call_a", "type": "function", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}
    message = {"role": "assistant", "content": "Hm.", "refusal": None, "annotations": [], "tool_calls": [call]}
    assert document == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1735689600,
        "model": "m",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}],
        "usage": {
            "prompt_tokens": 15,
            "completion_tokens": 3,
            "total_tokens": 18,
            "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        "service_tier": "default",
        "system_fingerprint": None,
    }


def test_a_chat_stream_has_pieces_a_finish_reason_the_usage_and_an_end() -> None:
    answer = {"content": [{"type": "text", "text": "Hello."}, BASH], "chunk_chars": 10}
    reply = reply_to(CHAT, True, answer, stream_options={"include_usage": True})
    *chunks, last = datas_of(reply)
    function = {"name": "Bash", "arguments": ""}
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": "", "refusal": None},
        {"content": "Hello."},
        {"tool_calls": [{"index": 0, "id": "call_a", "type": "function", "function": function}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"command"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ': "ls"}'}}]},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * 5 + ["tool_calls"]
    assert (last["choices"], last["usage"]["total_tokens"], chunks[0]["usage"]) == ([], 150, None)
    assert payload_of(reply).endswith(b"\n\ndata: [DONE]\n\n")


def test_a_chat_stream_tells_its_usage_only_when_asked_to() -> None:
    assert all("usage" not in chunk for chunk in datas_of(reply_to(CHAT, True, {"text": "Hello."})))


def test_a_response_has_one_item_per_block() -> None:
    thinking = {"type": "thinking", "thinking": "hm"}
    document = body_of(RESPONSES, content=[thinking, {"type": "text", "text": "Let me look."}, BASH])
    part = {"type": "output_text", "text": "Let me look.", "annotations": [], "logprobs": []}
    call = {"call_id": "call_a", "name": "Bash", "arguments": '{"command": "ls"}', "status": "completed"}
    assert document["output"] == [
        {"id": "rs_1_0", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"id": "msg_1_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]},
        {"id": "fc_1_2", "type": "function_call", **call},
    ]
    assert (document["id"], document["object"], document["status"]) == ("resp_1", "response", "completed")
    assert document["usage"]["total_tokens"] == 150


@pytest.mark.parametrize("place", ["tools", "input"])
def test_a_call_of_a_tool_in_a_namespace_names_the_namespace(place: str) -> None:
    tools = [{"type": "namespace", "name": "mcp__files", "tools": [{"type": "function", "name": "read"}]}]
    fields: dict[str, Any] = (
        {"tools": tools} if place == "tools" else {"input": [{"type": "additional_tools", "tools": tools}]}
    )
    answer = {"content": [{"type": "tool_use", "name": "mcp__files__read"}, BASH]}
    calls = json.loads(payload_of(reply_to(RESPONSES, False, answer, **fields)))["output"]
    assert [(call["name"], call.get("namespace")) for call in calls] == [("read", "mcp__files"), ("Bash", None)]


def test_a_response_repeats_what_it_was_asked() -> None:
    fields: dict[str, Any] = {"previous_response_id": "resp_0", "instructions": "Be kind.", "metadata": {"a": "b"}}
    document = json.loads(payload_of(reply_to(RESPONSES, False, {"text": "x"}, **fields)))
    assert {name: document[name] for name in fields} == fields


def test_the_events_of_a_response_are_numbered_and_typed() -> None:
    answer = {"content": [{"type": "text", "text": "Hello."}, BASH], "chunk_chars": 20}
    reply = reply_to(RESPONSES, True, answer)
    events = datas_of(reply)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(13))
    assert [line for line in payload_of(reply).decode().split("\n") if line.startswith("event: ")] == [
        f"event: {event['type']}" for event in events
    ]
    assert events[9] == {
        "type": "response.function_call_arguments.delta",
        "sequence_number": 9,
        "item_id": "fc_1_1",
        "output_index": 1,
        "delta": '{"command": "ls"}',
    }
    assert events[12]["response"] == body_of(RESPONSES, **answer)


def test_a_truncated_response_is_incomplete_and_says_why() -> None:
    answer = {"text": "Hel", "stop_reason": "max_tokens"}
    document = body_of(RESPONSES, **answer)
    assert (document["status"], document["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert document["output"][0]["status"] == "incomplete"
    assert datas_of(reply_to(RESPONSES, True, answer))[-1]["type"] == "response.incomplete"


def test_gemini_says_its_content_in_parts() -> None:
    thinking = {"type": "thinking", "thinking": "hm"}
    parts = [
        {"text": "hm", "thought": True},
        {"text": "Let me look."},
        {"functionCall": {"id": "call_a", "name": "Bash", "args": {"command": "ls"}}},
    ]
    assert body_of(GEMINI, content=[thinking, {"type": "text", "text": "Let me look."}, BASH]) == {
        "candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 50, "totalTokenCount": 150},
        "modelVersion": "m",
        "responseId": "resp-1",
    }


def test_a_stream_of_gemini_is_events_or_one_array() -> None:
    answer = {"text": "Hello.", "chunk_chars": 4, "stop_reason": "max_tokens"}
    events = reply_to(GEMINI, True, answer)
    array = reply_to(GEMINI, True, answer, ARRAY_PATH)
    assert (events.headers["content-type"], array.headers["content-type"]) == (
        "text/event-stream",
        "application/json; charset=UTF-8",
    )
    assert json.loads(payload_of(array)) == datas_of(events)
    assert pieces_of(GEMINI, datas_of(events)) == ["Hell", "o."]
    assert [data["candidates"][0].get("finishReason") for data in datas_of(events)] == [None, None, "MAX_TOKENS"]


@pytest.mark.parametrize(
    ("stop_reason", "chat", "responses", "gemini"),
    [
        ("end_turn", "stop", None, "STOP"),
        ("max_tokens", "length", "max_output_tokens", "MAX_TOKENS"),
        ("model_context_window_exceeded", "length", "max_output_tokens", "MAX_TOKENS"),
        ("refusal", "content_filter", "content_filter", "SAFETY"),
        ("stop_sequence", "stop", None, "STOP"),
        ("tool_use", "tool_calls", None, "STOP"),
    ],
)
def test_each_api_has_its_own_stop_reasons(stop_reason: str, chat: str, responses: str | None, gemini: str) -> None:
    answer = {"text": "x", "stop_reason": stop_reason}
    assert body_of(CHAT, **answer)["choices"][0]["finish_reason"] == chat
    assert (body_of(RESPONSES, **answer)["incomplete_details"] or {}).get("reason") == responses
    assert body_of(GEMINI, **answer)["candidates"][0]["finishReason"] == gemini


@EACH
@given(text=st.text(max_size=40), chunk_chars=st.integers(1, 50), cut_after_chars=st.none() | st.integers(0, 50))
def test_the_pieces_of_a_text_make_the_text_up_to_a_cut(
    provider: Provider, text: str, chunk_chars: int, cut_after_chars: int | None
) -> None:
    answer = {"text": text, "chunk_chars": chunk_chars, "cut_after_chars": cut_after_chars}
    reply = reply_to(provider, True, answer)
    pieces = pieces_of(provider, datas_of(reply))
    assert "".join(pieces) == text[:cut_after_chars]
    assert all(0 < len(piece) <= chunk_chars for piece in pieces)
    assert (list(reply.steps)[-1] == Cut()) == (cut_after_chars is not None)


@EACH
@pytest.mark.parametrize(("fault", "last"), [({"cut": True}, Cut()), ({"stall_after_chars": 3}, Stall())])
def test_an_interrupted_stream_never_says_how_it_ended(
    provider: Provider, fault: dict[str, Any], last: Cut | Stall
) -> None:
    *_, before, step = reply_to(provider, True, {"text": "012345", **fault}).steps
    assert isinstance(before, Send)
    assert b"012" in before.payload
    assert step == last


@EACH
@pytest.mark.parametrize("path", [SSE_PATH, ARRAY_PATH], ids=["events", "array"])
def test_a_malformed_stream_ends_with_data_that_is_not_json(provider: Provider, path: str) -> None:
    *_, before, broken = reply_to(provider, True, {"text": "012345", "malformed": True}, path).steps
    assert isinstance(before, Send)
    assert isinstance(broken, Send)
    assert b"012" in before.payload
    with pytest.raises(ValueError, match=r"delimiter|Unterminated|Expecting|control"):
        json.loads(broken.payload.partition(b"data: ")[2] or broken.payload.lstrip(b",\r\n"))


@pytest.mark.parametrize(
    ("provider", "path", "event"),
    [
        (ANTHROPIC, SSE_PATH, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}),
        (
            CHAT,
            SSE_PATH,
            {"error": {"message": "busy", "type": "service_unavailable_error", "param": None,
                       "code": "server_is_overloaded"}},
        ),
        (GEMINI, SSE_PATH, {"error": {"code": 529, "message": "busy", "status": "UNAVAILABLE"}}),
        (GEMINI, ARRAY_PATH, {"error": {"code": 529, "message": "busy", "status": "UNAVAILABLE"}}),
    ],
    ids=["anthropic", "openai-chat", "gemini", "gemini-array"],
)  # fmt: skip
def test_an_error_in_the_stream_follows_the_content(provider: Provider, path: str, event: dict[str, Any]) -> None:
    reply = reply_to(provider, True, {"text": "Hello.", "stream_error": {"message": "busy"}}, path)
    events = json.loads(payload_of(reply)) if path is ARRAY_PATH else datas_of(reply)
    assert pieces_of(provider, events[:-1]) == ["Hello."]
    assert events[-1] == event


def test_an_error_in_a_stream_of_responses_has_the_next_number() -> None:
    events = datas_of(reply_to(RESPONSES, True, {"text": "Hello.", "stream_error": {"type": "rate_limit_error"}}))
    assert [event["sequence_number"] for event in events] == list(range(6))
    assert events[-1]["type"] == "error"
    assert events[-1]["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("status", "type_", "anthropic", "openai", "gemini"),
    [
        (400, None, "invalid_request_error", ("invalid_request_error", None), "INVALID_ARGUMENT"),
        (400, "context_length_exceeded", None, ("invalid_request_error", "context_length_exceeded"), None),
        (401, None, "authentication_error", ("invalid_request_error", "invalid_api_key"), "UNAUTHENTICATED"),
        (418, None, "invalid_request_error", ("invalid_request_error", None), "INVALID_ARGUMENT"),
        (429, None, "rate_limit_error", ("requests", "rate_limit_exceeded"), "RESOURCE_EXHAUSTED"),
        (429, "rate_limit_error", None, ("requests", "rate_limit_exceeded"), "RESOURCE_EXHAUSTED"),
        (429, "insufficient_quota", None, ("insufficient_quota", "insufficient_quota"), None),
        (500, None, "api_error", ("server_error", None), "INTERNAL"),
        (503, None, "api_error", ("service_unavailable_error", "server_is_overloaded"), "UNAVAILABLE"),
        (529, None, "overloaded_error", ("service_unavailable_error", "server_is_overloaded"), "UNAVAILABLE"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_each_api_has_its_own_errors_which_are_documents_and_never_streams(
    status: int,
    type_: str | None,
    anthropic: str | None,
    openai: tuple[str, str | None],
    gemini: str | None,
    stream: bool,
) -> None:
    answer = {"status": status, "error": {"type": type_, "message": "no"}, "headers": {"Retry-After": "3"}}
    replies = {provider.kind: reply_to(provider, stream, answer) for provider in ALL}
    assert {(reply.status, reply.headers["retry-after"]) for reply in replies.values()} == {(status, "3")}
    documents = {kind: json.loads(payload_of(reply)) for kind, reply in replies.items()}
    of_openai = {"error": {"message": "no", "type": openai[0], "param": None, "code": openai[1]}}
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3s"}
    assert documents == {
        "anthropic": {"type": "error", "error": {"type": anthropic or type_, "message": "no"}},
        "openai-chat": of_openai,
        "openai-responses": of_openai,
        "gemini": {"error": {"code": status, "message": "no", "status": gemini or type_, "details": [info]}},
    }


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (ANTHROPIC, "model: m"),
        (CHAT, "The model `m` does not exist or you do not have access to it."),
        (GEMINI, "models/m is not found for API version v1beta, or is not supported for generateContent."),
    ],
)
def test_an_error_without_words_has_those_of_the_service(provider: Provider, words: str) -> None:
    document = json.loads(payload_of(reply_to(provider, False, {"status": 404})))
    assert document["error"]["message"] == words


def test_an_error_of_gemini_in_place_of_an_array_is_an_array() -> None:
    (document,) = json.loads(payload_of(reply_to(GEMINI, True, {"status": 429}, ARRAY_PATH)))
    assert document["error"]["code"] == 429


@EACH
def test_what_breaks_a_stream_breaks_a_body_or_becomes_a_status(provider: Provider) -> None:
    with pytest.raises(ValueError, match=r"delimiter|Unterminated|Expecting"):
        body_of(provider, text="Hello.", malformed=True)
    assert reply_to(provider, False, {"text": "x", "stream_error": {"type": "rate_limit_error"}}).status == 429


@EACH
def test_a_body_that_is_cut_is_shorter_than_announced(provider: Provider) -> None:
    reply = reply_to(provider, False, {"text": "Hello.", "cut_after_chars": 10})
    first, last = reply.steps
    assert isinstance(first, Send)
    assert (len(first.payload), last) == (10, Cut())
    assert (reply.length or 0) > 10

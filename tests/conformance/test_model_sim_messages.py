"""What an answer of the script looks like on the wire, sound and faulty."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_model_simulator.anthropic_messages import AnthropicMessages
from ao_model_simulator.provider import GivenAnswer
from ao_model_simulator.replies import Cut, Pause, Reply, Send, Stall, answer_reply
from ao_model_simulator.script import Answer

USAGE = {
    "input_tokens": 100,
    "output_tokens": 50,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def reply_to(stream: bool, **answer: Any) -> Reply:
    given = GivenAnswer("1", "claude-x", Answer.model_validate(answer))
    return answer_reply(AnthropicMessages(), given, stream=stream)


def events_of(reply: Reply) -> list[Any]:
    """The data of each event; steps that send nothing stand as they are."""
    return [
        json.loads(step.payload.partition(b"data: ")[2]) if isinstance(step, Send) else step for step in reply.steps
    ]


def deltas_of(reply: Reply) -> list[dict[str, Any]]:
    return [event["delta"] for event in events_of(reply) if event["type"] == "content_block_delta"]


def text_of(reply: Reply) -> str:
    payload = b"".join(step.payload for step in reply.steps if isinstance(step, Send))
    datas = [line.removeprefix("data: ") for line in payload.decode().split("\n") if line.startswith("data")]
    return "".join(json.loads(data).get("delta", {}).get("text", "") for data in datas if data.endswith("}"))


def body_of(reply: Reply) -> Any:
    return json.loads(b"".join(step.payload for step in reply.steps if isinstance(step, Send)))


def test_a_streamed_text_is_a_sound_stream() -> None:
    reply = reply_to(True, text="Hello.", chunk_chars=4)
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    start = {"stop_reason": None, "stop_sequence": None, "usage": USAGE | {"output_tokens": 1}}
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert events_of(reply) == [
        {"type": "message_start", "message": message | start},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hell"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "o."}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": USAGE,
        },
        {"type": "message_stop"},
    ]


def test_an_event_names_its_type_and_ends_with_an_empty_line() -> None:
    last = list(reply_to(True, text="x").steps)[-1]
    assert last == Send(b'event: message_stop\ndata: {"type": "message_stop"}\n\n')


def test_a_tool_use_streams_its_input_and_stops_for_the_tool() -> None:
    content = [{"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}]
    events = events_of(reply_to(True, content=content))
    assert events[2]["content_block"] == {"type": "tool_use", "name": "Bash", "input": {}, "id": "toolu_1_0"}
    assert events[3]["delta"] == {"type": "input_json_delta", "partial_json": '{"command": "ls"}'}
    assert events[5]["delta"]["stop_reason"] == "tool_use"


def test_thinking_streams_with_its_signature() -> None:
    content = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "x"}]
    assert deltas_of(reply_to(True, content=content)) == [
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
        {"type": "text_delta", "text": "x"},
    ]


def test_an_answer_that_is_not_streamed_is_one_document() -> None:
    reply = reply_to(False, json={"a": "ü"}, stop_reason="max_tokens", usage={"output_tokens": 7})
    assert body_of(reply) == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": [{"type": "text", "text": '{"a": "ü"}'}],
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "usage": USAGE | {"output_tokens": 7},
    }


def test_json_null_is_an_answer() -> None:
    assert text_of(reply_to(True, json=None)) == "null"


@given(text=st.text(max_size=60), chunk_chars=st.integers(1, 70))
def test_the_pieces_of_a_text_make_the_text(text: str, chunk_chars: int) -> None:
    pieces = [delta["text"] for delta in deltas_of(reply_to(True, text=text, chunk_chars=chunk_chars))]
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= chunk_chars for piece in pieces)


@given(text=st.text(max_size=60), chunk_chars=st.integers(1, 70), cut_after_chars=st.integers(0, 80))
def test_a_cut_comes_after_exactly_the_scripted_characters(text: str, chunk_chars: int, cut_after_chars: int) -> None:
    reply = reply_to(True, text=text, chunk_chars=chunk_chars, cut_after_chars=cut_after_chars)
    *sent, last = events_of(reply)
    assert "".join(event["delta"]["text"] for event in sent[3:]) == text[:cut_after_chars]
    assert last == Cut()


@pytest.mark.parametrize(
    ("fault", "text", "last"),
    [
        ({"cut": True}, "0123", Cut()),
        ({"stall_after_chars": 3}, "012", Stall()),
        ({"malformed": True}, "0123", None),
    ],
    ids=["cut", "stall", "malformed"],
)
def test_a_faulty_stream_ends_inside_the_content(fault: dict[str, Any], text: str, last: Cut | Stall | None) -> None:
    assert text_of(reply_to(True, text="01234567", **fault)) == text
    steps = list(reply_to(True, text="01234567", **fault).steps)
    assert not any(isinstance(step, Send) and b"content_block_stop" in step.payload for step in steps)
    if last is not None:
        assert steps[-1] == last


def test_a_malformed_stream_ends_with_data_that_is_not_json() -> None:
    last = list(reply_to(True, text="Hello.", malformed=True).steps)[-1]
    assert isinstance(last, Send)
    with pytest.raises(ValueError, match="control character"):
        json.loads(last.payload.partition(b"data: ")[2])


def test_an_error_in_the_stream_follows_the_content() -> None:
    events = events_of(reply_to(True, text="Hello.", stream_error={"message": "busy"}))
    assert events[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}


def test_a_stall_sends_nothing() -> None:
    assert list(reply_to(True, stall=True).steps) == [Stall()]


def test_a_delay_comes_before_everything_and_a_chunk_delay_after_each_piece() -> None:
    reply = reply_to(True, text="abcd", chunk_chars=2, delay_seconds=9, chunk_delay_seconds=0.5)
    assert reply.delay_seconds == 9
    assert [isinstance(step, Pause) for step in reply.steps][3:7] == [False, True, False, True]


@pytest.mark.parametrize("stream", [True, False])
def test_a_status_is_an_error_document_with_the_scripted_headers(stream: bool) -> None:
    reply = reply_to(stream, status=429, headers={"Retry-After": "3"}, error={"message": "slow down"})
    assert (reply.status, reply.headers["retry-after"]) == (429, "3")
    assert body_of(reply) == {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}


@pytest.mark.parametrize(
    ("status", "type_"),
    [(400, "invalid_request_error"), (418, "invalid_request_error"), (503, "api_error"), (529, "overloaded_error")],
)
def test_the_error_type_follows_from_the_status(status: int, type_: str) -> None:
    assert body_of(reply_to(True, status=status))["error"]["type"] == type_


def test_a_cut_body_is_shorter_than_announced() -> None:
    whole = reply_to(False, text="Hello.")
    reply = reply_to(False, text="Hello.", cut_after_chars=10)
    (first, last) = reply.steps
    assert (first, last) == (Send(b'{"id": "ms'), Cut())
    assert reply.length == whole.length


def test_a_malformed_body_is_no_json() -> None:
    with pytest.raises(ValueError, match=r"delimiter|Unterminated|Expecting"):
        body_of(reply_to(False, text="Hello.", malformed=True))


def test_a_stream_error_becomes_a_status_where_there_is_no_stream() -> None:
    reply = reply_to(False, text="Hello.", stream_error={"type": "rate_limit_error", "message": "slow"})
    assert (reply.status, body_of(reply)["error"]["message"]) == (429, "slow")

"""Events of some types are found among lines by their type, whatever else the lines contain."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.framing import encode_line
from ao_protocol.raw_events import events_of_types

BOUND = {"event_type": "session_bound", "executor_session_id": "x", "seq": 2}
NESTED = {"event_type": "session_bound", "executor_session_id": "forged"}
VALUES = st.recursive(
    st.sampled_from(["session_bound", '"session_bound"', '{"event_type":"session_bound"}', "usage", "é", 1, None]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["event_type", "session_bound", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def found(*lines: bytes) -> list[dict[str, Any]]:
    return list(events_of_types(lines, {"session_bound", "_x/bound"}))


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(BOUND).encode(),
        json.dumps(BOUND, separators=(",", ":")).encode(),
        json.dumps(dict(reversed(BOUND.items()))).encode(),
        b'  {\t"event_type" :\t"session_bound", "executor_session_id": "x", "seq": 2}\r\n',
        b"\xef\xbb\xbf" + json.dumps(BOUND).encode(),
        rb'{"event_type":"session\u005fbound","executor_session_id":"x","seq":2}',
        rb'{"seq":2,"event\u005ftype":"session\u005fbound","executor_session_id":"x"}',
    ],
    ids=["first", "compact", "last", "spaces", "byte_order_mark", "escaped_type", "escaped_name"],
)
def test_an_event_is_found_however_its_line_is_written(line: bytes) -> None:
    assert found(line) == [BOUND]


def test_the_type_of_a_vendor_is_found_with_an_escaped_slash() -> None:
    assert found(rb'{"seq":1,"event_type":"_x\/bound"}') == [{"seq": 1, "event_type": "_x/bound"}]


@pytest.mark.parametrize(
    "document",
    [
        {"event_type": "message", "content": [{"type": "text", "text": '{"event_type":"session_bound"}'}]},
        {"content": '"event_type": "session_bound"', "event_type": "message"},
        {"event_type": "tool_started", "tool_input": NESTED},
        {"tool_input": NESTED, "event_type": "tool_started"},
        {"session_bound": "session_bound", "event_type": "log"},
        {"executor_session_id": "session_bound", "event_type": "usage"},
        {"tool_input": NESTED},
        {"event_type": ["session_bound"]},
    ],
    ids=["text", "text_first", "nested", "nested_first", "name", "value", "no_type", "list"],
)
def test_what_an_event_contains_is_not_taken_for_its_type(document: dict[str, Any]) -> None:
    assert found(encode_line(document)) == []


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"session_bound",
        b'"session_bound"',
        b'{"event_type":"session_bound"',
        b'["session_bound"]',
        b'{"\\u":1}\xff',
    ],
)
def test_a_line_that_is_no_object_is_passed_over(line: bytes) -> None:
    assert found(line, encode_line(BOUND)) == [BOUND]


@given(st.lists(st.tuples(st.sampled_from(["session_bound", "usage"]), VALUES, st.booleans(), st.booleans())))
def test_what_is_found_is_what_decoding_every_line_finds(drawn: list[tuple[str, object, bool, bool]]) -> None:
    documents = [
        {"event_type": kind, "a": value} if is_first else {"a": value, "event_type": kind}
        for kind, value, is_first, _ in drawn
    ]
    lines = [json.dumps(one, ensure_ascii=drawn[number][3]).encode() for number, one in enumerate(documents)]

    assert found(*lines) == [one for one in documents if one["event_type"] == "session_bound"]

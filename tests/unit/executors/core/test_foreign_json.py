"""JSON of other programs: what is mended, what cannot be read, and in which words."""

from typing import Any

import pytest

from ao_executors.core.foreign_json import MAX_LEVELS, MessageLines, UnreadableMessage, read_json, readable
from ao_protocol.errors import ErrorType
from ao_protocol.events import ToolStarted
from ao_protocol.framing import LineTooLong, NotIJson


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b'{"a":[NaN,Infinity,-Infinity,1e999,-1e999]}', {"a": [None] * 5}),
        (b'{"a":' + b"9" * 5000 + b"}", {"a": None}),
        (b'{"a":123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        (b'{"\\ud800":"x\\udc00","ok":"\\ud83d\\ude00"}', {"\ufffd": "x\ufffd", "ok": "😀"}),
        (b'{"a":"\xff\xed\xa0\x80"}', {"a": "\ufffd" * 4}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'\xef\xbb\xbf{"a":"\t"}\r', {"a": "\t"}),
        (b"[" * MAX_LEVELS + b"]" * MAX_LEVELS, None),
    ],
)
def test_what_is_odd_is_mended(written: bytes, read: Any) -> None:
    found = read_json(written)
    assert read is None or found == read


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (b"[" * (MAX_LEVELS + 1) + b"]" * (MAX_LEVELS + 1), "nested deeper than 128 levels at character 128"),
        (b'{"a":' * 100_000, "nested deeper than 128 levels"),
        (b'{"a":1,}', "not JSON"),
        (b'{"a":', "not JSON"),
        (b"", "not JSON"),
        (b"{} {}", "not JSON: Extra data"),
    ],
)
def test_what_cannot_be_read_is_refused(written: bytes, why: str) -> None:
    with pytest.raises(NotIJson, match=why):
        read_json(written)


@pytest.mark.parametrize("line", [b"Loading", b"{ a: 1 }", b"[1]", b"null", b"{ }", b"\x00", b""])
def test_a_line_that_does_not_begin_as_an_object_is_noise(line: bytes) -> None:
    assert MessageLines("the agent").read(line, bool) is None


def test_noise_is_told_twenty_times_and_has_an_end() -> None:
    lines, told = MessageLines("the agent"), list[str]()
    lines.note = told.append
    for _ in range(10_000):
        assert lines.read(b"x", bool) is None
    assert told == ["the agent printed: x"] * 20
    assert lines.read(b'{"a":1}', bool) == {"a": 1}
    for _ in range(10_000):
        lines.read(b"x", bool)
    with pytest.raises(UnreadableMessage, match="10000 lines in a row"):
        lines.read(b"", bool)


@pytest.mark.parametrize(
    ("line", "error_type"),
    [
        (b'{"a":1', ErrorType.INTERNAL_ERROR),
        (b'[{"a":1}]', ErrorType.INTERNAL_ERROR),
        (LineTooLong(9), ErrorType.LIMIT_EXCEEDED),
    ],
)
def test_a_line_that_begins_as_an_object_has_to_be_one(line: bytes | LineTooLong, error_type: ErrorType) -> None:
    with pytest.raises(UnreadableMessage) as failed:
        MessageLines("the agent").read(line, bool)
    assert (failed.value.error_type, failed.value.origin, failed.value.retryable) == (error_type, "environment", False)
    assert failed.value.message.startswith("the agent sent ")


@pytest.mark.parametrize(
    "document",
    [{}, {"id": None}, {"id": []}, {"id": {"x": 1}}, {"id": 7}, {"id": ""}, {"id": "x", "input": {"a": [[]]}}],
    ids=str,
)
def test_a_field_that_is_not_as_expected_is_told_in_words(document: dict[str, Any]) -> None:
    with pytest.raises(UnreadableMessage) as failed, readable("the agent", "tool/started", document):
        ToolStarted(tool_call_id=document["id"], tool_name=document["input"]["a"].strip())
    assert failed.value.message.startswith("the agent sent tool/started, which cannot be read: ")
    assert "Error" not in failed.value.message

"""Bytes to lines: the same lines however the bytes are cut, in bounded memory and linear time."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.framing import (
    MAX_SAFE_INTEGER,
    EndedMidLine,
    LineSplitter,
    LineTooLong,
    NotIJson,
    decode_object,
    encode_line,
)

LIMIT = 12


def lines_of(chunks: list[bytes], max_line_bytes: int = LIMIT) -> list[bytes | None]:
    """Split chunks into lines; None stands for a line that is too long."""
    splitter = LineSplitter(max_line_bytes)
    found = [line for chunk in chunks for line in splitter.feed(chunk)]
    return [None if isinstance(line, LineTooLong) else line for line in found]


@st.composite
def streams_and_cuts(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    pieces = st.one_of(
        st.sampled_from([b"\n", b"\r\n", b"\r", "ß".encode(), "😀".encode()]), st.binary(max_size=LIMIT + 3)
    )
    stream = b"".join(draw(st.lists(pieces, max_size=12))) + b"\n"
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    bounds = [0, *cuts, len(stream)]
    return stream, [stream[begin:end] for begin, end in pairwise(bounds)]


@given(streams_and_cuts())
@pytest.mark.requirement("AOX-021")
def test_any_cut_of_the_bytes_gives_the_same_lines(stream_and_chunks: tuple[bytes, list[bytes]]) -> None:
    stream, chunks = stream_and_chunks
    one_by_one = [stream[index : index + 1] for index in range(len(stream))]

    assert lines_of(chunks) == lines_of(one_by_one) == lines_of([stream])


@given(streams_and_cuts())
@pytest.mark.requirement("AOX-022")
def test_lines_are_what_stands_between_line_feeds_without_one_carriage_return(
    stream_and_chunks: tuple[bytes, list[bytes]],
) -> None:
    stream, chunks = stream_and_chunks
    expected = [line.removesuffix(b"\r") for line in stream.split(b"\n")[:-1]]

    assert lines_of(chunks) == [line if len(line) <= LIMIT else None for line in expected]


def test_memory_is_bounded_by_the_limit_while_a_line_never_ends() -> None:
    splitter = LineSplitter(1000)
    yielded = [line for _ in range(10_000) for line in splitter.feed(b"x" * 100)]

    assert [type(line) for line in yielded] == [LineTooLong]
    assert str(yielded[0]) == "a line is longer than 1000 bytes"


def test_the_end_within_a_line_is_told_with_the_last_bytes_of_it() -> None:
    splitter = LineSplitter(1000)
    assert list(splitter.feed(b'{}\n{"a"')) == [b"{}"]

    with pytest.raises(EndedMidLine, match=r"""in the middle of a line, after b'\{"a"'""") as ended:
        splitter.end()

    assert ended.value.tail == b'{"a"'


def test_a_line_of_16_mib_passes() -> None:
    line = b"x" * (16 * 1024 * 1024)

    assert lines_of([line, b"\r", b"\n"], len(line)) == [line]


@pytest.mark.requirement("AOX-020")
def test_a_document_becomes_one_compact_line() -> None:
    assert (
        encode_line({"text": "Grüße\n\u2028", "list": [1, None]})
        == '{"text":"Grüße\\n\u2028","list":[1,null]}\n'.encode()
    )


@pytest.mark.requirement("AOX-032")
def test_a_lone_surrogate_is_written_as_a_replacement_character() -> None:
    assert encode_line({"a\udc00": "x\ud83dy😀"}) == '{"a\ufffd":"x\ufffdy😀"}\n'.encode()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.requirement("AOX-020")
def test_what_is_not_json_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_line({"a": number})


def nested(levels: int) -> dict[str, object]:
    value: object = "x"
    for _ in range(levels - 1):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"a": 2**53}, "integer 9007199254740992 is outside"),
        ({"a": [1, -(2**53)]}, "integer -9007199254740992 is outside"),
        ({"a": {"b": [True, 10**30]}}, "integer 1000000000000000000000000000000 is outside"),
        (nested(65), "nested deeper than 64 levels"),
        (nested(100_000), "nested deeper than 64 levels"),
    ],
    ids=["large", "negative", "far inside", "65 levels", "100000 levels"],
)
@pytest.mark.requirement("AOX-030")
def test_what_a_receiver_must_refuse_is_not_written(document: dict[str, object], reason: str) -> None:
    with pytest.raises(NotIJson, match=reason):
        encode_line(document)


@pytest.mark.parametrize(
    "document",
    [
        {"a": 2**53 - 1, "b": 1 - 2**53, "c": 1.2345678901234567e20, "d": 0.1234567890123456, "e": 1e300},
        {"a": "9007199254740993", "b": "[1,-9007199254740993,:9007199254740993", "9007199254740993": None},
        {"a": "[" * 100 + "{" * 100, "b": [[] for _ in range(100)]},
        nested(64),
    ],
    ids=["numbers", "digits in strings", "brackets in strings", "64 levels"],
)
@pytest.mark.requirement("AOX-030")
def test_what_a_receiver_reads_is_written(document: dict[str, object]) -> None:
    assert decode_object(encode_line(document)[:-1]) == document


JSON_VALUES: st.SearchStrategy[object] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON_VALUES))
@pytest.mark.requirement("AOX-020")
def test_a_document_reads_back_as_it_was_written(document: dict[str, object]) -> None:
    line = encode_line(document)

    assert line.count(b"\n") == 1
    assert decode_object(line) == decode_object(json.dumps(document).encode()) == document


@given(st.binary())
def test_any_bytes_are_a_document_or_say_why_not(line: bytes) -> None:
    try:
        said: object = decode_object(line)
    except NotIJson as refused:
        said = refused.reason

    assert isinstance(said, dict) or said


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"a":"\xff"}', "byte 6 is not UTF-8"),
        (b'{"a":}', "not JSON: Expecting value at character 5"),
        (b"[]", "expected a JSON object, found an array"),
        (b"null", "expected a JSON object, found null"),
        (b"true", "expected a JSON object, found a boolean"),
        (b'{"a":{"b":1,"b":2}}', 'duplicate key "b"'),
        (b'{"a":9007199254740993}', "integer 9007199254740993 is outside +-9007199254740991"),
        (b'{"a":-1e999}', "number -1e999 is too large"),
        (b'{"a":NaN}', "NaN is not JSON"),
        (b'{"a":' + b"[" * 64, "nested deeper than 64 levels at character 68"),
    ],
)
@pytest.mark.requirement("AOX-030")
def test_a_refusal_says_what_was_found_and_where(line: bytes, reason: str) -> None:
    with pytest.raises(NotIJson) as refused:
        decode_object(line)

    assert str(refused.value) == reason


@pytest.mark.timeout(10)
@pytest.mark.requirement("AOX-030")
def test_a_duplicate_among_very_many_keys_is_found_in_linear_time() -> None:
    keys = [f'"{number}":0' for number in range(200_000)]

    with pytest.raises(NotIJson, match='duplicate key "199999"'):
        decode_object(f'{{{",".join(keys)},"199999":1}}'.encode())


@pytest.mark.timeout(10)
@pytest.mark.requirement("AOX-030")
def test_very_deep_nesting_is_refused_without_harm() -> None:
    with pytest.raises(NotIJson, match="nested deeper"):
        decode_object(b'{"a":' * 1_000_000)

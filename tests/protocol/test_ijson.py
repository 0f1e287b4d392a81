"""One line, one document that every receiver reads the same way."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.framing import MAX_SAFE_INTEGER, NotIJson, decode_object

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
def test_a_document_reads_back_as_it_was_written(document: dict[str, object]) -> None:
    assert decode_object(json.dumps(document).encode()) == document
    assert decode_object(json.dumps(document, ensure_ascii=False).encode()) == document


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
        (b'{"a":{"b":1,"b":2}}', "duplicate key 'b'"),
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

    with pytest.raises(NotIJson, match="duplicate key '199999'"):
        decode_object(f'{{{",".join(keys)},"199999":1}}'.encode())


@pytest.mark.timeout(10)
@pytest.mark.requirement("AOX-030")
def test_very_deep_nesting_is_refused_without_harm() -> None:
    with pytest.raises(NotIJson, match="nested deeper"):
        decode_object(b'{"a":' * 1_000_000)

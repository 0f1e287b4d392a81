"""Whatever the value and the text around it: the value comes back, or nothing does, and nothing else happens."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ao_protocol.extraction import NoJsonFound, Source, extract_json

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
CONTAINERS = st.lists(VALUES, min_size=2) | st.dictionaries(st.text(), VALUES, min_size=1)
INDENTS = st.sampled_from([None, 0, 2])
PROSE = st.text(alphabet=st.characters(blacklist_characters="[]{}<>`~◁", blacklist_categories=["Cs"]))
FRAGMENTS = st.lists(
    st.sampled_from(
        (
            *('{"a": ', '"b"', "[", "]", "{", "}", ",", ":", "1", "'", '"', "\\", "\n", "```", "```json\n", "<think>"),
            *("</think>", "<answer>", "</answer>", "//", "/*", "*/", "x", "true", "None", "“", "”", "<!--", " "),
            '{"a":1}',
        )
    )
)


@given(VALUES, INDENTS, st.booleans())
def test_a_whole_text_is_read_as_json_reads_it(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)

    extraction = extract_json(text)

    assert (extraction.value, extraction.source) == (json.loads(text), Source.WHOLE)


@given(CONTAINERS, INDENTS, PROSE)
@example({"a": "```\n</answer>"}, None, "x")
def test_a_value_comes_back_from_a_fence_and_from_a_tag(value: Any, indent: int | None, prose: str) -> None:
    text = json.dumps(value, indent=indent)

    assert extract_json(f"{prose}\n```json\n{text}\n```\n{prose}").value == value
    assert extract_json(f"{prose}<answer>{text}</answer>{prose}").value == value


@given(CONTAINERS, PROSE)
def test_a_value_comes_back_from_prose(value: Any, prose: str) -> None:
    assert extract_json(f"{prose}: {json.dumps(value)} {prose}!").value == value


@pytest.mark.slow
@pytest.mark.requirement("AOX-167")
@given(st.lists(st.dictionaries(st.text(), VALUES, min_size=1), min_size=1), st.data())
def test_a_cut_value_gives_nothing(value: list[Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = text[: data.draw(st.integers(1, len(text) - 1))]

    for lenient in (False, True):
        try:
            extraction = extract_json(f"Answer: {cut}", lenient=lenient)
        except NoJsonFound:
            continue
        raise AssertionError(f"{cut!r} gave {extraction.value!r}")


@given(CONTAINERS)
def test_strict_json_is_never_mended(value: Any) -> None:
    assert extract_json(json.dumps(value), lenient=True).edits == ()


@given(st.recursive(st.integers() | st.booleans() | st.none() | st.text(), st.lists, max_leaves=20))
def test_a_python_display_is_mended_to_its_value_or_refused(value: Any) -> None:
    try:
        extraction = extract_json(repr({"key": value}), lenient=True)
    except NoJsonFound:
        return

    assert extraction.value == {"key": value}


@given(FRAGMENTS.map("".join), st.booleans())
def test_any_text_is_answered_or_refused(text: str, lenient: bool) -> None:
    schema = {"type": "object", "required": ["a"]}
    try:
        extraction = extract_json(text, schema, lenient=lenient)
    except NoJsonFound:
        return

    assert extraction.valid is (isinstance(extraction.value, dict) and "a" in extraction.value)

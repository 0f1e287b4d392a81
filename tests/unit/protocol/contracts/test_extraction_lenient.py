"""Lenient reading mends what has one reading only, says so, and refuses the rest."""

from typing import Any

import pytest

from ao_protocol.extraction import Extraction, NoJsonFound, Source, extract_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': [1, 2,], 'b': None, 'c': True}", {"a": [1, 2], "b": None, "c": True}),
        ("{'a': (1, 'x'), 'b': ()}", {"a": [1, "x"], "b": []}),
        ("{'a': 'it\\'s', 'b': 'say \"hi\"', 'c': \"it's\"}", {"a": "it's", "b": 'say "hi"', "c": "it's"}),
        ("{'a': '\\u00e9\\n'}", {"a": "é\n"}),
        ('{“a”: “b "c"”}', {"a": 'b "c"'}),
        ('{"a"：1，"b"：[2，]}', {"a": 1, "b": [2]}),
        (
            '{a-b: 1, a.b: 2, $c: 3, über: 4, 5: "b", 2.17: "e"}',
            {"a-b": 1, "a.b": 2, "$c": 3, "über": 4, "5": "b", "2.17": "e"},
        ),
        ('{"a": 1, // x\n "b": 2 # y\n}', {"a": 1, "b": 2}),
        ('{"a": "http://x", /* , */ }', {"a": "http://x"}),
        ('{"a": TRUE, "b": Null, "s": "True"}', {"a": True, "b": None, "s": "True"}),
        ('{"a": "x\ny\tz"}', {"a": "x\ny\tz"}),
        ('{"re": "\\d+\\.\\d+", "s": "it\\\'s"}', {"re": "\\d+\\.\\d+", "s": "it's"}),
        ('{"a": 1 "b": "x"\n"c": 2}', {"a": 1, "b": "x", "c": 2}),
        ("[[1] [2]]", [[1], [2]]),
        ("[1_000, +5, -.5, 5., 0xff]", [1000, 5, -0.5, 5.0, 255]),
        ('{\\"a\\": \\"b\\\\\\"c\\"}', {"a": 'b"c'}),
        ('{\\n  "a": 1,\\n  "b": 2\\n}', {"a": 1, "b": 2}),
        ("{a: 1, a: 1}", {"a": 1}),
        ("True", True),
    ],
)
def test_damage_with_one_reading_is_mended(text: str, value: Any) -> None:
    extraction = extract_json(text, lenient=True)

    assert (extraction.value, extraction.source, extraction.ambiguous) == (value, Source.WHOLE, False)
    assert extraction.edits


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{'text': 'it's ok'}", id="a quote that ends too early"),
        pytest.param('{"key": "v"alue"}', id="quotes in a string"),
        pytest.param('["a" "b"]', id="two strings, or one in Python"),
        pytest.param("[1 2]", id="two numbers, or one with a space"),
        pytest.param('{"a": 1,000}', id="thousands separator"),
        pytest.param('{"a": 01}', id="octal or not"),
        pytest.param("{a: b}", id="word"),
        pytest.param("{a: undefined, b: NaN}", id="no JSON value"),
        pytest.param("{a: 1, a: 2}", id="two values for a key"),
        pytest.param("{True: 1}", id="a key that Python and JavaScript name differently"),
        pytest.param("{1.50: 1}", id="a number key with two spellings"),
        pytest.param('{"p": "C:\\Users\\new"}', id="a path with a line break in it"),
        pytest.param('{"p": "\\x41"}', id="an escape of another language"),
        pytest.param("{'p': '\\d'}", id="an escape that Python and JavaScript read differently"),
        pytest.param('{"p": "\\u12"}', id="half an escape"),
        pytest.param('{"key": , "key2": 2}', id="missing value"),
        pytest.param("[1,,2]", id="missing item"),
        pytest.param("[1, 2, ...]", id="omission"),
        pytest.param('{"a": <NAME>}', id="placeholder"),
        pytest.param("{'a': {1, 2}}", id="set"),
        pytest.param("{'a': (1)}", id="parentheses"),
        pytest.param('{"a": 1; "b": 2}', id="other separator"),
        pytest.param('[{"key":"value"}},{"key":"value"}]', id="doubled closer"),
        pytest.param('{"array":[{"key": "value"], "key2": 1}', id="missing closer"),
        pytest.param('{"a": 1 // one line }', id="comment without an end"),
        pytest.param('{"s": """x"""}', id="triple quotes"),
        pytest.param("[{'name': oops}, {'name': 'Ada'}]", id="a piece of what cannot be mended"),
        pytest.param("{'key': [['\\x1f}'], None, [False]]}", id="a piece behind a bracket in a string"),
        pytest.param("{\\name: 1}", id="a backslash that may belong to a key"),
        pytest.param("<think>{'a': 1}</think>", id="thinking"),
    ],
)
def test_damage_with_more_readings_is_refused(text: str) -> None:
    with pytest.raises(NoJsonFound):
        extract_json(text, lenient=True)


@pytest.mark.parametrize("text", ['{"a": "b', "{'a': 'b", '{"a": [1, 2', "{a: 1, b: {", '{"n": 12.', '{"a": tru'])
def test_what_is_cut_off_is_never_completed(text: str) -> None:
    with pytest.raises(NoJsonFound):
        extract_json(text, lenient=True)


def test_every_edit_is_told_with_its_place() -> None:
    extraction = extract_json("  \n{'a': [1,2,], // c\n b: None}", lenient=True)

    assert extraction == Extraction(
        {"a": [1, 2], "b": None},
        Source.WHOLE,
        edits=(
            "quotes other than double quotes at character 4",
            "a comma behind the last member at character 13",
            "a comment at character 17",
            "a key without quotes at character 23",
            "None for a JSON literal at character 26",
        ),
    )


def test_strict_values_come_first() -> None:
    extraction = extract_json("{'a': 1} then {\"a\": 2}", {"type": "object", "required": ["a"]}, lenient=True)

    assert (extraction.value, extraction.edits) == ({"a": 2}, ())


def test_only_valid_values_are_mended() -> None:
    extraction = extract_json('{"b": 1} or {a: 1,}', {"type": "object", "required": ["c"]}, lenient=True)

    assert (extraction.value, extraction.valid, extraction.edits) == ({"b": 1}, False, ())


def test_places_rank_as_in_strict_reading() -> None:
    extraction = extract_json("<answer>{'a': 1}</answer> or ```json\n{'a': 2}\n```", lenient=True)

    assert (extraction.value, extraction.source, extraction.ambiguous) == ({"a": 1}, Source.TAG, True)


def test_mending_ends_with_its_fence() -> None:
    with pytest.raises(NoJsonFound):
        extract_json("```json\n{'a': 'b\n```\nIt's c', 'd': 1}", lenient=True)

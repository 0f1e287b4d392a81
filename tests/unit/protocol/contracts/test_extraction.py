"""A value is found where an answer gives it, the right one of several is taken, and no piece passes for it."""

import json
from typing import Any

import pytest

from ao_protocol.extraction import Extraction, NoJsonFound, Reason, Source, extract_json

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
NOTE: dict[str, Any] = {"type": "object", "properties": {"note": {"type": "string"}}}
ADA: dict[str, Any] = {"name": "Ada", "age": 36}
ADA_TEXT = '{"name": "Ada", "age": 36}'
BOB_TEXT = '{"name": "Bob", "age": 41}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("\ufeff[1]", [1], id="byte-order mark"),
        pytest.param("\u00a0[1]\u200b\n", [1], id="no-break and zero-width space"),
        pytest.param('{"s":"a\u200db"}', {"s": "a\u200db"}, id="a joiner inside a string stays"),
        pytest.param('{"s":"a\u2028b"}', {"s": "a\u2028b"}, id="line separator in a string"),
        pytest.param("[1.0,1E5,-0]", [1.0, 1e5, 0], id="numbers"),
        pytest.param(" 42 ", 42, id="a number alone"),
        pytest.param('{"x":"{\\"a\\":[1]}"}', {"x": '{"a":[1]}'}, id="JSON in a string stays a string"),
    ],
)
def test_a_whole_text_is_read_as_it_stands(text: str, value: Any) -> None:
    assert extract_json(text) == Extraction(value, Source.WHOLE)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"```\n{ADA_TEXT}\n```", id="untagged"),
        pytest.param(f"~~~json\n{ADA_TEXT}\n~~~", id="tildes"),
        pytest.param(f"````json\n{ADA_TEXT}\n````", id="four backticks"),
        pytest.param(f'```JSON title="a"\n{ADA_TEXT}\n```', id="info string"),
        pytest.param(f"```{{.json}}\n{ADA_TEXT}\n```", id="pandoc attributes"),
        pytest.param(f"1. Result:\n   ```json\n   {ADA_TEXT}\n   ```\n2. Done", id="in a list"),
        pytest.param(f"```json\n{ADA_TEXT}", id="never closed"),
        pytest.param(f"```json\n{ADA_TEXT}```\nNote: {BOB_TEXT}", id="closed on the last line"),
        pytest.param(f"```json {ADA_TEXT}```\nAlso {BOB_TEXT}", id="on one line"),
        pytest.param(f"Final: ```json\n{ADA_TEXT}\n```\nOther: {BOB_TEXT}", id="opened at the end of a line"),
        pytest.param(f"````markdown\n# x\n```json\n{ADA_TEXT}\n```\n````", id="inside another fence"),
        pytest.param(f"```\nInner\n```json\n{ADA_TEXT}\n```\nend\n```\n", id="nested without longer marks"),
        pytest.param(f"```js\n{ADA_TEXT}\n```", id="for another language"),
        pytest.param(f"```json\n{ADA_TEXT}\n```\nI considered {BOB_TEXT}.", id="before bare text"),
        pytest.param(f"```python\nx = {BOB_TEXT}\n```\n```json\n{ADA_TEXT}\n```", id="behind code"),
    ],
)
def test_a_fence_gives_the_answer(text: str) -> None:
    extraction = extract_json(text, PERSON)

    assert (extraction.value, extraction.source) == (ADA, Source.FENCE)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"<answer>{ADA_TEXT}</answer>", id="answer"),
        pytest.param(f"<Final_Answer format='json'>\n{ADA_TEXT}\n</Final_Answer>", id="capitals and attributes"),
        pytest.param(f"<result>\n```json\n{ADA_TEXT}\n```\n</result>", id="with a fence"),
        pytest.param(f'<response type="json"><![CDATA[{ADA_TEXT}]]></response>', id="with CDATA"),
        pytest.param(f"I use <answer> tags. {BOB_TEXT} <answer>{ADA_TEXT}</answer> {BOB_TEXT}", id="mentioned"),
        pytest.param(f"<result>{ADA_TEXT}</result>\n```json\n{BOB_TEXT}\n```", id="before a fence"),
    ],
)
def test_an_answer_tag_comes_before_everything(text: str) -> None:
    extraction = extract_json(text, PERSON)

    assert (extraction.value, extraction.source) == (ADA, Source.TAG)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"Sure: {ADA_TEXT} Bye!", id="between sentences"),
        pytest.param(f"It is `{ADA_TEXT}`.", id="inline code"),
        pytest.param(f"callback({ADA_TEXT});", id="call"),
        pytest.param(f'"{ADA_TEXT}"', id="in quotes, unescaped"),
        pytest.param(f"Use ``` here ``` text\n{ADA_TEXT}", id="inline marks"),
        pytest.param(f"<person>{ADA_TEXT}</person>", id="unknown tag"),
        pytest.param(f"]\n{ADA_TEXT}", id="behind a stray closer"),
        pytest.param(f"Hello {{name}}, {{{{age}}}}. {ADA_TEXT}", id="placeholders"),
        pytest.param(f"a {{ color: red; }} {ADA_TEXT}", id="CSS"),
        pytest.param(f'main() {{ print("x") }}\n{ADA_TEXT}', id="code"),
        pytest.param(f"For x in [0, 1) and (0, 1] it is {ADA_TEXT}", id="intervals"),
        pytest.param(f'It begins with "[" and is {ADA_TEXT}', id="a bracket that is talked about"),
        pytest.param(f'It begins with "{{" and is {ADA_TEXT}', id="a brace that is talked about"),
        pytest.param(f'Begin with "I, ["\n\n{ADA_TEXT}', id="a bracket and a quote"),
        pytest.param(f'{{"name": <NAME>, "age": <AGE>}} is {ADA_TEXT}', id="filled template"),
        pytest.param(f'{{"name": ..., "age": ...}}\n{ADA_TEXT}', id="sketch"),
        pytest.param(f'Options: ["a", "b"]\n\nChosen: {ADA_TEXT}', id="other array"),
        pytest.param(f'{{"draft": {BOB_TEXT}}}\n{ADA_TEXT}', id="behind a wrapped one"),
    ],
)
def test_bare_text_gives_the_answer(text: str) -> None:
    extraction = extract_json(text, PERSON)

    assert (extraction.value, extraction.source) == (ADA, Source.BARE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('```json\n{"code": "a ``` b"}\n```', {"code": "a ``` b"}, id="marks in a line"),
        pytest.param('Sure {"c": "```\\n{\\"c\\": 1}\\n```"} ok', {"c": '```\n{"c": 1}\n```'}, id="escaped fence"),
        pytest.param('<answer>{"c": "</answer>"}</answer>', {"c": "</answer>"}, id="closing tag"),
        pytest.param('Well: {"c": "<think>{}</think>"}', {"c": "<think>{}</think>"}, id="thinking"),
        pytest.param('Well: {"c": "} ] [ {"} done', {"c": "} ] [ {"}, id="brackets"),
    ],
)
def test_what_stands_in_a_string_is_invisible(text: str, value: Any) -> None:
    assert extract_json(text).value == value


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        pytest.param("Answer:\n```json\n42\n```", {"type": "integer"}, 42, id="number in a fence"),
        pytest.param("```\ntrue\n```\nok", {"type": "boolean"}, True, id="literal in a fence"),
        pytest.param('<answer>"blue"</answer>', {"type": "string"}, "blue", id="string in a tag"),
        pytest.param('```json\n"a {} [1] b"\n```', {"type": "string"}, "a {} [1] b", id="brackets in a string"),
    ],
)
def test_scalars_count_as_the_whole_of_a_region(text: str, schema: dict[str, Any], value: Any) -> None:
    assert extract_json(text, schema).value == value


@pytest.mark.parametrize("text", ["The answer is 42", "It is true that it is false.", "blue", "12,111"])
def test_scalars_do_not_count_in_prose(text: str) -> None:
    with pytest.raises(NoJsonFound, match=r"^The answer holds no JSON value: line 1, column 1$"):
        extract_json(text, {"type": ["integer", "boolean", "string"]})


def test_a_string_that_fails_the_schema_is_opened() -> None:
    assert extract_json(json.dumps(ADA_TEXT), PERSON).value == ADA
    assert extract_json(f"```json\n{json.dumps(json.dumps(ADA_TEXT))}\n```", PERSON).value == ADA


def test_a_string_that_keeps_the_schema_stays_a_string() -> None:
    assert extract_json(json.dumps(ADA_TEXT), {"type": "string"}).value == ADA_TEXT
    assert extract_json(json.dumps(ADA_TEXT)).value == ADA_TEXT


def test_a_value_that_fails_the_schema_is_returned_only_to_be_talked_about() -> None:
    assert extract_json('It is {"name": "Ada"}.', PERSON) == Extraction({"name": "Ada"}, Source.BARE, valid=False)
    assert extract_json(f'Not {{"name": 1}} but {ADA_TEXT}, or {{"name": 2}}', PERSON).value == ADA


def test_under_a_schema_that_is_none_nothing_is_valid() -> None:
    assert extract_json("[1]", {"type": "nonsense"}) == Extraction([1], Source.WHOLE, valid=False)


@pytest.mark.requirement("AOX-168")
def test_the_last_valid_value_of_a_rank_wins_and_the_choice_is_told() -> None:
    extraction = extract_json(f"First {BOB_TEXT}, corrected: {ADA_TEXT}", PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, True)


def test_true_and_one_are_different_values() -> None:
    assert extract_json('a {"x": 1} b {"x": true}').ambiguous
    assert not extract_json('a {"x": 1} b {"x": 1.0}').ambiguous


@pytest.mark.parametrize(
    ("text", "ambiguous"),
    [
        pytest.param(f'Here: {ADA_TEXT}\n```json\n{{"age": 36, "name": "Ada"}}\n```', False, id="the same twice"),
        pytest.param(f'{ADA_TEXT} normalised from {{"name": "Ada", "age": "36"}}', False, id="another is invalid"),
        pytest.param(f"```json\n{ADA_TEXT}\n```\nor {BOB_TEXT}", True, id="another in a lower rank"),
        pytest.param(f'{ADA_TEXT} and {{"name": "Bob", "age', True, id="a later one breaks off"),
    ],
)
def test_a_choice_is_ambiguous_when_another_value_could_be_meant(text: str, ambiguous: bool) -> None:
    extraction = extract_json(text, PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, ambiguous)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"<think>\n```json\n{BOB_TEXT}\n```\n</think>\n{ADA_TEXT}", id="thinking"),
        pytest.param(f"<think>\n```json\n{BOB_TEXT}\n</think>\n{ADA_TEXT}", id="thinking with an open fence"),
        pytest.param(f"```json\n{BOB_TEXT}\n```\n</think>\n{ADA_TEXT}", id="thinking opened by the prompt"),
        pytest.param(f"[THINK]{BOB_TEXT}[/THINK]{ADA_TEXT}", id="thinking in brackets"),
        pytest.param(f"<thinking><answer>{BOB_TEXT}</answer></thinking>{ADA_TEXT}", id="an answer in thinking"),
        pytest.param(f"{ADA_TEXT}\n<example>{BOB_TEXT}</example>", id="example"),
        pytest.param(f"{ADA_TEXT}\n<tool_call>{BOB_TEXT}</tool_call>", id="tool call"),
        pytest.param(f"{ADA_TEXT}\n<!-- {BOB_TEXT} -->", id="comment"),
        pytest.param(f"<a data='{BOB_TEXT}'>{ADA_TEXT}</a>", id="attribute"),
    ],
)
def test_regions_that_hold_no_answer_never_win(text: str) -> None:
    extraction = extract_json(text, PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, False)


@pytest.mark.parametrize(
    "text", [f"<think>\nmaybe {BOB_TEXT}", f"<example>{BOB_TEXT}</example>", f"<tool_use>{BOB_TEXT}</tool_use>"]
)
def test_a_value_in_such_a_region_alone_is_no_answer(text: str) -> None:
    with pytest.raises(NoJsonFound) as caught:
        extract_json(text, PERSON)

    assert caught.value.reason is Reason.NOT_AN_ANSWER


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{ADA_TEXT}\n\n> {BOB_TEXT}", id="block quote"),
        pytest.param(f"The answer is {ADA_TEXT}, not {BOB_TEXT}.", id="negated"),
        pytest.param(f"Answer:\n```json\n{ADA_TEXT}\n```\nThe example was:\n```json\n{BOB_TEXT}\n```", id="example"),
        pytest.param(f"Example:\n```json\n{BOB_TEXT}\n```\nMy answer is {ADA_TEXT}", id="example in a better rank"),
        pytest.param(f"Output: {ADA_TEXT}\nInput: {BOB_TEXT}", id="input"),
    ],
)
def test_a_value_that_is_introduced_as_something_else_loses(text: str) -> None:
    extraction = extract_json(text, PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, True)


@pytest.mark.parametrize("text", [f"> {ADA_TEXT}", f"Here is a sample:\n{ADA_TEXT}"])
def test_such_a_value_alone_is_the_answer(text: str) -> None:
    assert extract_json(text, PERSON).value == ADA


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{ADA_TEXT} as in [1].", id="citation"),
        pytest.param(f"{ADA_TEXT}, see [1](https://example.org)", id="link"),
    ],
)
def test_brackets_of_prose_lose_without_a_schema(text: str) -> None:
    assert extract_json(text).value == ADA


def test_a_sequence_of_values_needs_a_schema_to_choose_from() -> None:
    with pytest.raises(NoJsonFound) as caught:
        extract_json('{"a":1}\n{"a":2}')

    assert caught.value.reason is Reason.SEVERAL_VALUES
    assert extract_json('{"a":1}\n{"a":1}').value == {"a": 1}
    assert extract_json(f"{BOB_TEXT}\n{ADA_TEXT}", PERSON).value == ADA


@pytest.mark.requirement("AOX-169")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"type":"object","properties":{"note":{"type":"string"}}}', id="itself"),
        pytest.param(
            '{"$schema":"x","title":"N","type":"object","properties":{"note":{"description":"d","type":"string"}}}',
            id="annotated",
        ),
        pytest.param('{"schema":{"type":"object","properties":{"note":{"type":"string"}}}}', id="wrapped"),
        pytest.param('{"type":"object","properties":{"note":"hi"}}', id="an answer poured into it"),
    ],
)
def test_the_schema_is_no_answer(text: str) -> None:
    with pytest.raises(NoJsonFound) as caught:
        extract_json(text, NOTE)

    assert caught.value.reason is Reason.SCHEMA_ECHO
    assert extract_json(f'{text}\n\nAnswer: {{"note": "hi"}}', NOTE).value == {"note": "hi"}


def test_a_schema_for_schemas_may_be_answered_with_one() -> None:
    schema = {"type": "object", "properties": {"type": {"type": "string"}, "properties": {"type": "object"}}}
    answer = {"type": "object", "properties": {"note": {"type": "string"}}}

    assert extract_json('{"type":"object","properties":{"note":{"type":"string"}}}', schema).value == answer
    assert extract_json("{}", {}).value == {}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{{"people": [{BOB_TEXT}, {BOB_TEXT}', id="array cut behind an item"),
        pytest.param(f'{{"x": 1, "person": {BOB_TEXT}', id="object cut behind a member"),
        pytest.param('{"name": "Ada", "age":', id="cut behind a colon"),
        pytest.param('{"name": "Ad', id="cut in a string"),
        pytest.param("[1, 2, 3", id="cut in a number"),
        pytest.param('```json\n{"name": "Ada"\n\n', id="cut in a fence"),
    ],
)
def test_truncation_is_a_reason_of_its_own(text: str) -> None:
    with pytest.raises(NoJsonFound) as caught:
        extract_json(text, PERSON)

    assert caught.value.reason is Reason.TRUNCATED


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{{"x": oops, "person": {BOB_TEXT}}}', id="member of a broken object"),
        pytest.param(f"{{'x': 1, 'person': {BOB_TEXT}}}", id="member under single quotes"),
        pytest.param(f"[{{'a': 1}}, {BOB_TEXT}]", id="item behind a broken item"),
        pytest.param(f'[{{"name": Ada, "age": 36}}, {BOB_TEXT}]', id="item behind a bare word"),
        pytest.param(f'[{{"key": "value"}}}}, {BOB_TEXT}]', id="item behind a doubled closer"),
        pytest.param(f'{{"r": "a\n```json\n{BOB_TEXT}\n```\n", "name": "Ada", "age": 2}}', id="fence in a raw string"),
        pytest.param(f'{{"reason": \'a }} b {BOB_TEXT} c\', "score": 0.2}}', id="closer in a single-quoted string"),
        pytest.param(f'{{"reason": "bad "quote" then {BOB_TEXT} ok"}}', id="text of a string with raw quotes"),
    ],
)
def test_a_piece_of_a_broken_value_is_no_answer(text: str) -> None:
    with pytest.raises(NoJsonFound) as caught:
        extract_json(text, PERSON)

    assert caught.value.reason is Reason.INVALID_JSON


@pytest.mark.parametrize("text", [f'"name": "Root", "child": {BOB_TEXT}}}', f'"age": 36}}, {BOB_TEXT}]'])
def test_a_piece_of_a_text_that_begins_inside_a_value_is_no_answer(text: str) -> None:
    with pytest.raises(NoJsonFound) as caught:
        extract_json(text, PERSON)

    assert caught.value.reason is Reason.NOT_AN_ANSWER


def test_a_nested_value_is_no_answer() -> None:
    assert not extract_json(f'It is {{"draft": {BOB_TEXT}}}', PERSON).valid


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{{"name": "Ada", "age": }}\nSorry: {ADA_TEXT}', id="bare, closed"),
        pytest.param(f'```json\n{{"name": "Ada", "age": \n```\nAgain:\n```json\n{ADA_TEXT}\n```', id="another fence"),
        pytest.param(f'{{"score": NaN}} then {ADA_TEXT}', id="not a number"),
        pytest.param(f'Context: {{"id": 1, "nested": {BOB_TEXT}}}\nAnswer: {ADA_TEXT}', id="complete, not the answer"),
        pytest.param(f'[Note: the "answer": {ADA_TEXT}]', id="in the brackets of a remark"),
    ],
)
def test_a_later_attempt_of_its_own_is_the_answer(text: str) -> None:
    assert extract_json(text, PERSON).value == ADA


def test_what_stands_before_a_broken_value_is_untouched() -> None:
    assert extract_json(f'{ADA_TEXT} and {{"unterminated": "quote', PERSON).value == ADA


ASIDES = [
    "{}\nIf it had failed it would have been:\n{}",
    "{}\n\n(The original record was {}.)",
    "After: {}\nBefore: {}",
    "**After:** {}\n**Before:** {}",
    "{}\n\nBefore:\n```json\n{}\n```",
    "{}\nPrevious answer: {}",
    "New: {}\nOld: {}",
    "{} (it was {})",
    "{} (formerly {})",
    "{}\nOriginally: {}",
    "{}\nOtherwise it would be {}.",
    "{}\nIf the tests had failed: {}",
    "{}\nA failing run could have returned {}.",
    "{}\n`{}` would be wrong.",
    "{}, unlike {}",
    "{}\ne.g. {}",
    "Antwort: {}\nZum Beispiel wäre {} falsch.",
    "{}\nSonst wäre es {} gewesen.",
    "{} statt {}",
    "{}\nPar exemple, {}",
]
"""An answer and a value that is not it, in this order."""
CORRECTIONS = [
    "Draft: {}\nFinal: {}",
    "Before: {}\nAfter: {}",
    "I said {}, which was wrong: {}",
    "{}\nSorry for the wrong answer. Here: {}",
    "{} is wrong, it should have been {}",
    "{}\nSo the answer would be {}",
    "The original was {}; the new one is {}",
    "{}\nThe original answer was incomplete: {}",
    "{}\nThe rest is otherwise unchanged: {}",
    "{}\nMy first try might have errors: {}",
    "{}\nI would have to say: {}",
    "{}\nHere is the JSON in the old format: {}",
    "{}\nAs requested before, the result: {}",
    "{}\nNot quite. {}",
    "Statt {} ist es {}",
]
"""A value that is not the answer, and the answer behind it."""


@pytest.mark.parametrize("text", [*ASIDES, *(f"```json\n{text}" for text in ASIDES if text.startswith("{}\n"))])
def test_a_counterexample_behind_the_answer_is_an_aside(text: str) -> None:
    if text.startswith("```"):
        text = text.replace("{}", "{}\n```", 1)
    extraction = extract_json(text.replace("{}", ADA_TEXT, 1).replace("{}", BOB_TEXT), PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, True)


@pytest.mark.parametrize("text", CORRECTIONS)
def test_a_correction_behind_a_draft_is_the_answer(text: str) -> None:
    extraction = extract_json(text.replace("{}", BOB_TEXT, 1).replace("{}", ADA_TEXT), PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, True)


@pytest.mark.parametrize(
    "text",
    [
        f"Lorem {{x}} (1) `c` ``` inline ``` {{a: b}}\n{ADA_TEXT}",
        f"It is {{x}}:\n```json\n{ADA_TEXT}\n```\nDone {{y}}.",
        f"```\n{ADA_TEXT}\n````\n",
        f"{ADA_TEXT} and `x`",
    ],
)
def test_the_only_value_beside_plain_prose_is_found_where_it_stands(text: str) -> None:
    extraction = extract_json(text, PERSON)
    assert extraction == Extraction(ADA, Source.FENCE if "\n```\n" in text or "````" in text else Source.BARE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f'{{"a": {ADA_TEXT}', None),
        (f'{{a: b}}, "k": {ADA_TEXT}', None),
        (f"<think>{ADA_TEXT}", None),
        (f"```python\nx = {ADA_TEXT}\n```", ADA),
        (f"```json\n{ADA_TEXT}\n``", ADA),
        ("```json\n" + '{"name": "Ada", "name": "Bob", "age": 1}' + "\n```", None),
    ],
)
def test_what_only_looks_like_the_only_value_is_read_with_care(text: str, value: object) -> None:
    if value is not None:
        assert extract_json(text, PERSON).value == value
        return
    with pytest.raises(NoJsonFound):
        extract_json(text, PERSON)

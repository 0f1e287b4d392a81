"""A piece of a broken, truncated or larger value does not pass for the answer."""

from typing import Any

import pytest

from ao_protocol.extraction import NoJsonFound, Reason, extract_json

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
ADA = {"name": "Ada", "age": 36}
ADA_TEXT = '{"name": "Ada", "age": 36}'
BOB = '{"name": "Bob", "age": 41}'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{{"people": [{BOB}, {BOB}', id="array cut behind an item"),
        pytest.param(f'{{"x": 1, "person": {BOB}', id="object cut behind a member"),
        pytest.param(f'[{BOB}, {{"na', id="cut in a key"),
        pytest.param('{"name": "Ada", "age":', id="cut behind a colon"),
        pytest.param('{"name": "Ad', id="cut in a string"),
        pytest.param('{"name": "Ada\\', id="cut in an escape"),
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
        pytest.param(f'{{"x": oops, "person": {BOB}}}', id="member of a broken object"),
        pytest.param(f"{{'x': 1, 'person': {BOB}}}", id="member under single quotes"),
        pytest.param(f"{{x: 1, person: {BOB}}}", id="member under a bare key"),
        pytest.param(f"[{{'a': 1}}, {BOB}]", id="item behind a broken item"),
        pytest.param(f'[{{"name": Ada, "age": 36}}, {BOB}]', id="item behind a bare word"),
        pytest.param(f'[{{"key": "value"}}}}, {BOB}]', id="item behind a doubled closer"),
        pytest.param(f'{{"r": "a\n```json\n{BOB}\n```\n", "name": "Ada", "age": 2}}', id="fence in a raw string"),
        pytest.param(f'{{"reason": \'a }} b {BOB} c\', "score": 0.2}}', id="closer in a single-quoted string"),
        pytest.param(f'{{"reason": "bad "quote" then {BOB} ok"}}', id="text of a string with raw quotes"),
    ],
)
def test_a_piece_of_a_broken_value_is_no_answer(text: str) -> None:
    with pytest.raises(NoJsonFound) as caught:
        extract_json(text, PERSON)

    assert caught.value.reason is Reason.INVALID_JSON


@pytest.mark.parametrize("text", [f'"name": "Root", "child": {BOB}}}', f'"age": 36}}, {BOB}]'])
def test_a_piece_of_a_text_that_begins_inside_a_value_is_no_answer(text: str) -> None:
    with pytest.raises(NoJsonFound) as caught:
        extract_json(text, PERSON)

    assert caught.value.reason is Reason.NOT_AN_ANSWER


def test_a_nested_value_is_no_answer() -> None:
    assert not extract_json(f'It is {{"draft": {BOB}}}', PERSON).valid


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'{{"name": "Ada", "age": }}\nSorry: {ADA_TEXT}', id="bare, closed"),
        pytest.param(f'```json\n{{"name": "Ada", "age": \n```\nAgain:\n```json\n{ADA_TEXT}\n```', id="another fence"),
        pytest.param(f'{{"score": NaN}} then {ADA_TEXT}', id="not a number"),
        pytest.param(f"{{{{placeholder}}\n\n  JSON Output:\n\n{ADA_TEXT}", id="placeholder without its end"),
        pytest.param(f'Context: {{"id": 1, "nested": {BOB}}}\nAnswer: {ADA_TEXT}', id="complete, not the answer"),
        pytest.param(f'[Note: the "answer": {ADA_TEXT}]', id="in the brackets of a remark"),
    ],
)
def test_a_later_attempt_of_its_own_is_the_answer(text: str) -> None:
    assert extract_json(text, PERSON).value == ADA


def test_what_stands_before_a_broken_value_is_untouched() -> None:
    assert extract_json(f'{ADA_TEXT} and {{"unterminated": "quote', PERSON).value == ADA

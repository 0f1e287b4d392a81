"""Of several values the right one is taken, or none; that there were several is said."""

from typing import Any

import pytest

from ao_protocol.extraction import NoJsonFound, Reason, extract_json

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
NOTE: dict[str, Any] = {"type": "object", "properties": {"note": {"type": "string"}}}
ADA = {"name": "Ada", "age": 36}
ADA_TEXT = '{"name": "Ada", "age": 36}'
BOB_TEXT = '{"name": "Bob", "age": 41}'


@pytest.mark.requirement("AOX-168")
def test_the_last_valid_value_of_a_rank_wins_and_the_choice_is_told() -> None:
    extraction = extract_json(f"First {BOB_TEXT}, corrected: {ADA_TEXT}", PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, True)


def test_the_same_value_twice_is_not_ambiguous() -> None:
    extraction = extract_json(f'Here: {ADA_TEXT}\n```json\n{{"age": 36, "name": "Ada"}}\n```', PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, False)


def test_true_and_one_are_different_values() -> None:
    assert extract_json('a {"x": 1} b {"x": true}').ambiguous
    assert not extract_json('a {"x": 1} b {"x": 1.0}').ambiguous


def test_only_values_that_keep_the_schema_compete() -> None:
    extraction = extract_json(f'{ADA_TEXT} normalised from {{"name": "Ada", "age": "36"}}', PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, False)


def test_a_value_in_a_lower_rank_makes_the_choice_ambiguous() -> None:
    assert extract_json(f"```json\n{ADA_TEXT}\n```\nor {BOB_TEXT}", PERSON).ambiguous


def test_a_later_value_that_breaks_off_makes_the_choice_ambiguous() -> None:
    extraction = extract_json(f'{ADA_TEXT} and {{"name": "Bob", "age', PERSON)

    assert (extraction.value, extraction.ambiguous) == (ADA, True)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"<think>\n```json\n{BOB_TEXT}\n```\n</think>\n{ADA_TEXT}", id="thinking"),
        pytest.param(f"<think>\n```json\n{BOB_TEXT}\n</think>\n{ADA_TEXT}", id="thinking with an open fence"),
        pytest.param(f"```json\n{BOB_TEXT}\n```\n</think>\n{ADA_TEXT}", id="thinking opened by the prompt"),
        pytest.param(f"◁think▷{BOB_TEXT}◁/think▷{ADA_TEXT}", id="thinking in triangles"),
        pytest.param(f"[THINK]{BOB_TEXT}[/THINK]{ADA_TEXT}", id="thinking in brackets"),
        pytest.param(f"<thinking><answer>{BOB_TEXT}</answer></thinking>{ADA_TEXT}", id="an answer in thinking"),
        pytest.param(f"{ADA_TEXT}\n<example>{BOB_TEXT}</example>", id="example"),
        pytest.param(f"{ADA_TEXT}\n<tool_call>{BOB_TEXT}</tool_call>", id="tool call"),
        pytest.param(f"{ADA_TEXT}\n<x:tool-result>{BOB_TEXT}", id="open tool result with a prefix"),
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
        pytest.param(f"{ADA_TEXT} from arr[0] and obj{{}}", id="index"),
        pytest.param(f"{ADA_TEXT}, see [1](https://example.org)", id="link"),
        pytest.param(f"{ADA_TEXT}\n- [ ] todo", id="task list"),
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

    assert extract_json('{"type":"object","note":{"properties":{}}}', schema).value["type"] == "object"  # type: ignore[index,call-overload]  # an object by the text


def test_the_empty_schema_is_echoed_by_nothing() -> None:
    assert extract_json("{}", {}).value == {}

"""A value is found where an answer gives it: the whole text, a tag, a fence, the bare text."""

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
STRINGS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
ADA: dict[str, Any] = {"name": "Ada", "age": 36}
ADA_TEXT = '{"name": "Ada", "age": 36}'
BOB_TEXT = '{"name": "Bob", "age": 41}'


def test_a_text_that_is_json_is_its_own_answer() -> None:
    assert extract_json(ADA_TEXT, PERSON) == Extraction(ADA, Source.WHOLE)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("\ufeff[1]", [1], id="byte-order mark"),
        pytest.param("\u00a0[1]\u200b\n", [1], id="no-break and zero-width space"),
        pytest.param('{"s":"a\u200db"}', {"s": "a\u200db"}, id="a joiner inside a string stays"),
        pytest.param('{"s":"a\u2028b"}', {"s": "a\u2028b"}, id="line separator in a string"),
        pytest.param('{"s":"\\u0000\\ud83d\\ude00"}', {"s": "\0\U0001f600"}, id="escapes"),
        pytest.param('{"":1,"a/b":2,"__proto__":3}', {"": 1, "a/b": 2, "__proto__": 3}, id="odd keys"),
        pytest.param('{"n":-1180591620717411303425}', {"n": -1180591620717411303425}, id="large integer"),
        pytest.param("[1.0,1E5,-0]", [1.0, 1e5, 0], id="numbers"),
        pytest.param("null", None, id="null"),
        pytest.param(" 42 ", 42, id="a number alone"),
        pytest.param('{"x":"{\\"a\\":[1]}"}', {"x": '{"a":[1]}'}, id="JSON in a string stays a string"),
        pytest.param('{"a":{"b":{"c":{"d":[[[[1]]]]}}}}', {"a": {"b": {"c": {"d": [[[[1]]]]}}}}, id="nested"),
    ],
)
def test_a_whole_text_is_read_as_it_stands(text: str, value: Any) -> None:
    assert extract_json(text) == Extraction(value, Source.WHOLE)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"```json\n{ADA_TEXT}\n```", id="json"),
        pytest.param(f"```\n{ADA_TEXT}\n```", id="untagged"),
        pytest.param(f"~~~json\n{ADA_TEXT}\n~~~", id="tildes"),
        pytest.param(f"````json\n{ADA_TEXT}\n````", id="four backticks"),
        pytest.param(f"Hi:\r\n```json\r\n{ADA_TEXT}\r\n```\r\nbye", id="CRLF"),
        pytest.param(f'```JSON title="a"\n{ADA_TEXT}\n```', id="info string"),
        pytest.param(f"```{{.json}}\n{ADA_TEXT}\n```", id="pandoc attributes"),
        pytest.param(f"```json5\n{ADA_TEXT}\n```", id="json5"),
        pytest.param(f"1. Result:\n   ```json\n   {ADA_TEXT}\n   ```\n2. Done", id="in a list"),
        pytest.param(f"- ```json\n  {ADA_TEXT}\n  ```", id="behind a list marker"),
        pytest.param(f"```json\n{ADA_TEXT}", id="never closed"),
        pytest.param(f"```json\n{ADA_TEXT}```\nNote: {BOB_TEXT}", id="closed on the last line"),
        pytest.param(f"```json {ADA_TEXT}```\nAlso {BOB_TEXT}", id="on one line"),
        pytest.param(f"Final: ```json\n{ADA_TEXT}\n```\nOther: {BOB_TEXT}", id="opened at the end of a line"),
        pytest.param(f"````markdown\n# x\n```json\n{ADA_TEXT}\n```\n````", id="inside another fence"),
        pytest.param(f"```\nInner\n```json\n{ADA_TEXT}\n```\nend\n```\n", id="nested without longer marks"),
        pytest.param(f"```js\n{ADA_TEXT}\n```", id="for another language"),
        pytest.param(f"```json\n{ADA_TEXT}\n```\nI considered {BOB_TEXT}.", id="before bare text"),
        pytest.param(f"```python\nx = {BOB_TEXT}\n```\n```json\n{ADA_TEXT}\n```", id="behind code"),
        pytest.param(f"```json\n{ADA_TEXT}\n```\n```python\nx = {BOB_TEXT}\n```", id="before code"),
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
        pytest.param(f"| json |\n|---|\n| {ADA_TEXT} |", id="table"),
        pytest.param(f"<person>{ADA_TEXT}</person>", id="unknown tag"),
        pytest.param(f"]\n{ADA_TEXT}", id="behind a stray closer"),
        pytest.param(f"结果：{ADA_TEXT}。", id="full-width punctuation"),
        pytest.param(f"Hello {{name}}, {{{{age}}}}. {ADA_TEXT}", id="placeholders"),
        pytest.param(f"{{% if x %}}{{{{ y }}}}{{% endif %}} {ADA_TEXT}", id="template"),
        pytest.param(f"a {{ color: red; }} {ADA_TEXT}", id="CSS"),
        pytest.param(f'main() {{ print("x") }}\n{ADA_TEXT}', id="code"),
        pytest.param(f"\\frac{{1}}{{2}}, $\\{{x\\}}$ {ADA_TEXT}", id="LaTeX"),
        pytest.param(f"For x in [0, 1) and (0, 1] it is {ADA_TEXT}", id="intervals"),
        pytest.param(f'It begins with "[" and is {ADA_TEXT}', id="a bracket that is talked about"),
        pytest.param(f'It begins with "{{" and is {ADA_TEXT}', id="a brace that is talked about"),
        pytest.param(f'Begin with "I, ["\n\n{ADA_TEXT}', id="a bracket and a quote"),
        pytest.param(f'{{"name": <NAME>, "age": <AGE>}} is {ADA_TEXT}', id="filled template"),
        pytest.param(f'{{"name": ..., "age": ...}}\n{ADA_TEXT}', id="sketch"),
        pytest.param(f"- [ ] a\n- [x] b\n{ADA_TEXT}", id="task list"),
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
    with pytest.raises(NoJsonFound) as caught:
        extract_json(text, {"type": ["integer", "boolean", "string"]})

    assert caught.value.reason is Reason.NO_CANDIDATE


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


def test_a_sentence_tells_what_is_wrong() -> None:
    with pytest.raises(NoJsonFound) as caught:
        extract_json("I cannot answer.", PERSON)

    assert str(caught.value) == "The answer holds no JSON value"

"""What a model reads that is asked again: where its answer is wrong, why, and a way out that the schema allows."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.contracts import AskAgain, Enforcement, JsonFormat, OutputContract, SchemaSource, validate

NOTE = {"type": "object", "required": ["note"], "properties": {"note": {"type": "string"}}}
SHAPE = {
    "oneOf": [
        {
            "type": "object",
            "required": ["kind", "radius"],
            "properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}},
        },
        {
            "type": "object",
            "required": ["kind", "side"],
            "properties": {"kind": {"const": "square"}, "side": {"type": "number"}},
        },
    ]
}
LIST = {"type": "array", "items": {"enum": ["a", 1, None]}, "minItems": 1}
OPTIONAL = {"anyOf": [NOTE, {"type": "null"}]}
SCHEMAS = [NOTE, SHAPE, LIST, OPTIONAL, {"type": "integer", "maximum": 5}, {"type": "string", "minLength": 90}]

BREAKS = [
    pytest.param(
        '{"note": "B : "has items""}', "line 1, column 15", r'" inside a string as \"', id="quote in a string"
    ),
    pytest.param('{"note": "the "b", "c" and"}', "line 1, column 15", r'write a " inside', id="quotes and a comma"),
    pytest.param('{"note": "a\nb"}', "line 1, column 12", r"a line break in a string has to be \n", id="line break"),
    pytest.param('{"note":\n "a\tb"}', "line 2, column 4", r"a tab in a string has to be \t", id="tab"),
    pytest.param('{"note": "C:\\Users"}', "line 1, column 13", r"\U begins no escape", id="a path"),
    pytest.param('{"note": "it\\\'s"}', "line 1, column 13", "a ' needs no backslash", id="escaped apostrophe"),
    pytest.param('{"note": "\\u12"}', "line 1, column 11", "four hexadecimal digits", id="half an escape"),
    pytest.param('{"note": NaN}', "line 1, column 10", "NaN is not JSON; write a number, or null if", id="NaN"),
    pytest.param('{"note": [1, -Infinity]}', "line 1, column 14", "-Infinity is not JSON", id="infinity"),
    pytest.param('{"note": True}', "line 1, column 10", "True is not JSON; write true", id="Python's true"),
    pytest.param('{"note": None}', "line 1, column 10", "None is not JSON; write null", id="Python's null"),
    pytest.param('{"note": undefined}', "line 1, column 10", "undefined is not JSON; write null", id="undefined"),
    pytest.param('{"note": "x",}', "line 1, column 13", "no comma may stand behind the last", id="trailing comma"),
    pytest.param(
        '{"note": [1,\n2,\n]}', "line 2, column 2", "no comma may stand behind", id="trailing comma in a list"
    ),
    pytest.param('{"note": "x" // y\n}', "line 1, column 14", "JSON has no comments", id="comment"),
    pytest.param('{"note": 1, # y\n}', "line 1, column 13", "JSON has no comments", id="comment of Python"),
    pytest.param("{'note': 'x'}", "line 1, column 2", "stand in double quotes, not in '", id="single quotes"),
    pytest.param("{“note”: “x”}", "line 1, column 2", "stand in double quotes, not in “", id="typographic quotes"),
    pytest.param('{note: "x"}', "line 1, column 2", 'double quotes, "note"', id="bare key"),
    pytest.param('{"note": x}', "line 1, column 10", "a text stands in double quotes", id="bare text"),
    pytest.param('{"note": 1_000}', "line 1, column 11", "1_000 is no JSON number", id="underscore"),
    pytest.param('{"note": 007}', "line 1, column 11", "007 is no JSON number", id="leading zero"),
    pytest.param('{"note": +1}', "line 1, column 10", "+1 is no JSON number", id="plus sign"),
    pytest.param('{"note": .5}', "line 1, column 10", ".5 is no JSON number", id="no digit before the point"),
    pytest.param('{"note": 0x1F}', "line 1, column 11", "0x1F is no JSON number", id="hexadecimal"),
    pytest.param('{"note": 5%}', "line 1, column 11", "5% is no JSON number", id="percent"),
    pytest.param('{"note": 2026-01-31}', "line 1, column 14", "2026-01-31 is no JSON number", id="date"),
    pytest.param('{"note": 1\n "b": 2}', "line 2, column 2", "a comma is missing before this", id="missing comma"),
    pytest.param('{"note": "x" "b": 2}', "line 1, column 14", "a comma is missing", id="missing comma behind a string"),
    pytest.param('{"note": ["a" "b"]}', "line 1, column 15", "a comma is missing", id="missing comma in a list"),
    pytest.param('{"note" = 1}', "line 1, column 9", '":" has to follow the key', id="no colon"),
    pytest.param('{"note": [1, 2}', "line 1, column 15", "} does not fit here", id="another bracket"),
    pytest.param('{"note":}', "line 1, column 9", "} does not fit here", id="no value"),
    pytest.param('{"note": "x", ...}', "line 1, column 15", "nothing may be left out", id="ellipsis"),
    pytest.param('{"note": 1,, "b": 2}', "line 1, column 12", "a key in double quotes", id="two commas"),
    pytest.param('{"note": "x', "line 1, column 12", "breaks off inside a JSON value", id="cut off"),
    pytest.param(
        '\n\n{"note": {"b": 1, "b": 2}}', "line 3, column 1: $.note.b", "one key two different", id="a key twice"
    ),
    pytest.param('{"note": [1, 1e999]}', "line 1, column 14: 1e999", "out of range", id="a number that overflows"),
    pytest.param("[" * 300, "line 1, column 301", "nested too deep", id="too deep"),
    pytest.param("Sorry.", "line 1, column 1", "holds no JSON value", id="prose"),
    pytest.param("", "line 1, column 1", "holds no JSON value", id="nothing"),
    pytest.param(
        '<thinking>{"note": "x"}</thinking>', "line 1, column 11", "do not give the answer", id="only thinking"
    ),
    pytest.param(f"See:\n{json.dumps(NOTE)}", "line 2, column 1", "repeats the schema", id="the schema"),
]


def demand(answer: str, schema: dict[str, Any]) -> str | None:
    """Return the lines about the errors in the demand for another answer; None if the answer fits."""
    contract = OutputContract(JsonFormat(schema), SchemaSource.BLUEPRINT, max_retries=1)
    outcome = Enforcement(contract).judge(answer)
    return outcome.prompt.split("## ")[1] if isinstance(outcome, AskAgain) else None


@pytest.mark.parametrize(("answer", "place", "reason"), BREAKS)
def test_a_model_reads_where_and_why_its_answer_breaks(answer: str, place: str, reason: str) -> None:
    text = demand(answer, NOTE)

    assert text is not None
    assert place in text
    assert reason in text


def test_a_place_is_that_in_the_whole_answer() -> None:
    told = demand('\n\nOf course!\n```json\n{"note": "x" y}\n```\nDone.', NOTE) or ""

    assert 'line 5, column 12: this " ends the string' in told
    assert "line 2, column 12" in (demand('```json\n{"note": "x\n```', NOTE) or "")
    assert "this string never ends" in (demand('```json\n{"note": "x\n```', NOTE) or "")


@pytest.mark.parametrize("schema", SCHEMAS, ids=["object", "union", "list", "optional", "integer", "text"])
def test_no_demand_is_without_a_place(schema: dict[str, Any]) -> None:
    answers = [str(broken.values[0]) for broken in BREAKS]
    odd: list[Any] = [None, True, -1.5, "x", [], [None, {}], {}, {"kind": "line"}, 2**60]
    answers += map(json.dumps, odd)
    for answer in answers:
        for text in (answer, f"Here:\n\n{answer}", f"```json\n{answer}\n```\nDone.", f"<answer>{answer}</answer>"):
            for line in (demand(text, schema) or "").splitlines()[1:]:
                assert re.match(r"- \$[^ ]*: |$", line)
                is_of_the_text = re.match(r"- \$: (?:JSON|The|An?) ", line)
                assert is_of_the_text is None or re.search(r"line [0-9]+, column [0-9]+", line), line


def test_only_json_is_demanded_with_the_place_of_the_other_text() -> None:
    contract = OutputContract(JsonFormat(NOTE), SchemaSource.INLINE, strict_json_only=True)
    for answer, place in (('Here: {"note": "x"}', "line 1, column 1"), ('{"note": "x"}\nDone.', "line 1, column 14")):
        outcome = Enforcement(contract).judge(answer)
        assert isinstance(outcome, AskAgain)
        assert outcome.problems[0].message.endswith(place)


def test_a_broken_answer_is_told_rather_than_a_smaller_value_beside_it() -> None:
    assert "line 1, column 31" in (demand('As [1] says: {"note": "a long "quoted" text"}', NOTE) or "")
    assert demand('It is {"nota": "a text"}, not {x}', NOTE) == (demand('{"nota": "a text"}', NOTE))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"kind": "circle"}, '$: "radius" is a required property'),
        ({"kind": "circle", "radius": "1"}, '$.radius: "1" is not of type "number"'),
        ({"kind": "line", "radius": 1}, '$.kind: "line" is not one of ["circle", "square"]'),
        ({"radius": 1}, '$: "kind" is a required property'),
        ({"side": 1}, '$: "kind" is a required property'),
        ("circle", '$: "circle" is not of type "object"'),
    ],
)
def test_the_alternative_that_is_nearest_is_explained(value: object, problem: str) -> None:
    problems = [str(one) for one in validate(value, SHAPE)]

    assert problems[1:] == [problem]


def test_alternatives_inside_alternatives_do_not_multiply_the_steps() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "object", "required": ["x"]}}
    for level in range(1, 60):
        below = [{"$ref": f"#/definitions/d{level - 1}"}, {"type": "object", "required": ["y"]}]
        definitions[f"d{level}"] = {"anyOf": below}

    problems = validate({}, {"$ref": "#/definitions/d59", "definitions": definitions})

    assert not any("too many steps" in one.message for one in problems)


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"properties": {"a": {"type": "string"}}}, 'null is not of type "string"; leave it out'),
        ({"properties": {"a": {"enum": [1, "x"]}}}, 'null is not one of [1, "x"]; leave it out'),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, 'null is not of type "string"'),
        ({"allOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}}, 'null is not of type "string"'),
        ({"required": ["a"], "allOf": [{"properties": {"a": {"type": "string"}}}]}, 'null is not of type "string"'),
    ],
)
def test_null_for_an_absent_field_is_to_be_left_out_if_the_field_may_be(schema: dict[str, Any], sentence: str) -> None:
    assert [one.message for one in validate({"a": None}, schema)] == [sentence]


@pytest.mark.parametrize(
    ("schema", "advice"),
    [
        ({"type": ["integer", "string"]}, "write it as a string"),
        ({}, "write it as a string"),
        ({"type": "integer"}, "the schema accepts no string here and has to ask for one, so say that no answer fits"),
        ({"type": "string", "maxLength": 3}, "the schema accepts no string here and has to ask for one"),
    ],
)
def test_an_integer_that_loses_digits_has_a_way_out_that_the_schema_allows(schema: dict[str, Any], advice: str) -> None:
    (problem,) = validate({"ids": [1, 2**60]}, {"properties": {"ids": {"items": schema}}})

    assert problem.path == "$.ids[1]" if "maxLength" not in schema else True
    assert problem.message.startswith(f"{2**60} is outside ±9007199254740991, where receivers lose digits: {advice}")


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["", "q", "é", '"', "\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "kind"]), inner, max_size=3),
    max_leaves=6,
)


@given(value=values, expected=values)
def test_messages_have_the_words_of_json_and_not_of_python(value: Any, expected: Any) -> None:
    schemas: list[dict[str, Any]] = [
        {"enum": [expected], "const": expected} if validate(expected, {}) == [] else {},
        {"type": ["null", "boolean"], "not": {"type": "null"}},
        {"properties": {"a": False, "b": {"contains": {"const": True}}}, "additionalProperties": False},
        SHAPE,
    ]
    for schema in schemas:
        for problem in validate(value, schema):
            assert not re.search(r"\b(?:None|True|False|nan|inf)\b|'", problem.message)

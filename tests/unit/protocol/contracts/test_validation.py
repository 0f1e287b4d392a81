"""What a value is told when a schema refuses it, and that every verdict ends."""

import math
from collections.abc import Iterable
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ao_protocol.contracts import InvalidSchema, is_valid, validate, validator_for
from ao_protocol.contracts.checks import MAX_PROBLEMS

REVIEW = {
    "type": "object",
    "required": ["files_analyzed", "issues"],
    "additionalProperties": False,
    "properties": {
        "files_analyzed": {"type": "integer", "minimum": 0},
        "issues": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["file", "severity"],
                "properties": {"file": {"type": "string"}, "severity": {"enum": ["low", "medium", "high"]}},
            },
        },
    },
}


def sentences(value: object, schema: dict[str, Any]) -> list[str]:
    return [str(problem) for problem in validate(value, schema)]


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_problems_name_the_place_and_are_worded_as_jsonschema_words_them() -> None:
    value = {"files_analyzed": -5, "issues": [{"severity": "critical"}], "extra": 1}

    assert sentences(value, REVIEW) == [
        '$: Additional properties are not allowed ("extra" was unexpected)',
        "$.files_analyzed: -5 is less than the minimum of 0",
        '$.issues[0]: "file" is a required property',
        '$.issues[0].severity: "critical" is not one of ["low", "medium", "high"]',
    ]


@pytest.mark.parametrize(
    ("key", "path"),
    [
        pytest.param("plain", "$.plain", id="word"),
        pytest.param("_a1-b", "$._a1-b", id="word with a hyphen"),
        pytest.param("a b", '$["a b"]', id="blank"),
        pytest.param("1a", '$["1a"]', id="begins with a digit"),
        pytest.param("", '$[""]', id="empty"),
        pytest.param('say "hi"', '$["say \\"hi\\""]', id="quotes"),
        pytest.param("größe", '$["größe"]', id="not ASCII"),
        pytest.param("k" * 1000, f'$["{"k" * 80}…"]', id="endless"),
    ],
)
def test_a_path_quotes_keys_that_are_no_plain_words(key: str, path: str) -> None:
    assert [problem.path for problem in validate({key: 1}, {"additionalProperties": {"type": "null"}})] == [path]


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        pytest.param(1, {"type": ["string", "null"]}, '1 is not of type "string", "null"', id="types"),
        pytest.param(19.995, {"multipleOf": 0.01}, "19.995 is not a multiple of 0.01", id="multipleOf"),
        pytest.param("ab", {"pattern": "^a$"}, '"ab" does not match "^a$"', id="pattern"),
        pytest.param([1, 1.0], {"uniqueItems": True}, "[1, 1.0] has non-unique elements", id="1 is 1.0"),
        pytest.param(
            [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
            {"uniqueItems": True},
            '[{"a": 1, "b": 2}, {"b": 2, "a": 1}] has non-unique elements',
            id="key order is no difference",
        ),
        pytest.param(
            [1, 2],
            {"items": [True], "additionalItems": False},
            "Additional items are not allowed (2 was unexpected)",
            id="additionalItems",
        ),
        pytest.param(
            {"x": 1, "y": 2},
            {"patternProperties": {"^a": True}, "additionalProperties": False},
            '"x", "y" do not match any of the regexes: "^a"',
            id="patternProperties",
        ),
        pytest.param(1, {"not": {"type": "integer"}}, '1 should not be valid under {"type": "integer"}', id="not"),
        pytest.param({"a": 1}, {"properties": {"a": False}}, "the schema false does not allow 1", id="false"),
        pytest.param("y" * 200, {"const": "x"}, '"x" was expected', id="a short message"),
        pytest.param(
            "y" * 1000, {"type": "null"}, '"' + "y" * 199 + '… is not of type "null"', id="a long value is cut"
        ),
    ],
)
def test_what_is_worded_here_has_its_sentence(value: object, schema: dict[str, Any], expected: str) -> None:
    assert [problem.message for problem in validate(value, schema)] == [expected]


def test_the_alternative_that_was_meant_is_explained_too() -> None:
    shape = {
        "oneOf": [
            {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["radius"]},
            {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["side"]},
        ]
    }

    assert sentences({"kind": "circle"}, shape) == [
        '$: {"kind": "circle"} is not valid under any of the given schemas',
        '$: "radius" is a required property',
    ]
    assert sentences({"kind": "line"}, shape) == [
        '$: {"kind": "line"} is not valid under any of the given schemas',
        '$.kind: "line" is not one of ["circle", "square"]',
    ]

    optional = {
        "anyOf": [{"$ref": "#/definitions/name"}, {"type": "null"}],
        "definitions": {"name": {"type": "object", "required": ["first"]}},
    }

    assert sentences({}, optional) == [
        "$: {} is not valid under any of the given schemas",
        '$: "first" is a required property',
    ]


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        pytest.param(19.99, {"multipleOf": 0.01}, id="19.99 is a multiple of 0.01"),
        pytest.param(1e300, {"multipleOf": 0.01}, id="a huge double is a multiple of 0.01"),
        pytest.param("2026-01-31T12:00:00.5+02:00", {"format": "date-time"}, id="a date-time"),
        pytest.param("no date", {"format": "date", "x-formats": "annotate"}, id="formats that the schema leaves open"),
        pytest.param("x", {"format": "uuid"}, id="a format that is none of Draft-7"),
        pytest.param("é", {"pattern": "^.$"}, id="patterns see code points"),
    ],
)
def test_these_values_are_valid(value: object, schema: dict[str, Any]) -> None:
    assert validate(value, schema) == []


def test_patterns_look_for_the_beginning_of_the_text_and_not_of_a_line() -> None:
    assert validate("b\na", {"pattern": "^a$"}) != []


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param({"a": math.nan}, "$.a: NaN is not a JSON number", id="NaN"),
        pytest.param([-math.inf], "$[0]: -Infinity is not a JSON number", id="infinity"),
        pytest.param(
            2**53,
            "$: 9007199254740992 is outside ±9007199254740991, where receivers lose digits: write it as a string",
            id="unsafe integer",
        ),
        pytest.param(
            10**5000,
            "$: an integer of 16610 bits is outside ±9007199254740991, where receivers lose digits: "
            "write it as a string",
            id="integer that CPython does not print",
        ),
        pytest.param(["\ud800"], r'$[0]: "\ud800" holds half a surrogate pair, which is no text', id="lone surrogate"),
        pytest.param(
            {"\udc00": 1}, r'$: the key "\udc00" holds half a surrogate pair, which is no text', id="surrogate key"
        ),
        pytest.param({1: 2}, "$: the key 1 is not a string", id="integer key"),
        pytest.param([(1, 2)], "$[0]: a tuple is not a JSON value", id="tuple"),
        pytest.param(nested(64), f"${'[0]' * 63}: is nested deeper than 63 levels", id="too deep"),
    ],
)
def test_what_no_other_program_would_read_is_invalid_under_every_schema(value: object, problem: str) -> None:
    assert sentences(value, {}) == [problem]
    assert not is_valid(value, {})


def test_depth_beyond_the_stack_is_a_problem_like_any_other() -> None:
    value = nested(100_000)

    assert is_valid(nested(63), {})
    assert not is_valid(value, {"items": {"$ref": "#"}})
    assert len(validate(value, {"items": {"$ref": "#"}})) == 1


def test_the_first_fifty_problems_are_told() -> None:
    problems = validate([0] * 1000, {"items": {"type": "string"}})

    assert len(problems) == MAX_PROBLEMS
    assert str(problems[-1]) == '$[49]: 0 is not of type "string"'


def test_a_part_of_a_schema_reached_twice_at_one_place_is_told_once() -> None:
    schema = {"allOf": [{"$ref": "#/definitions/a"}] * 2, "definitions": {"a": {"allOf": [{"type": "null"}]}}}

    assert sentences(1, schema) == ['$: 1 is not of type "null"']


def test_recursion_through_two_branches_does_not_multiply() -> None:
    branch = {"properties": {"a": {"$ref": "#/definitions/node"}}}
    schema = {
        "$ref": "#/definitions/node",
        "definitions": {"node": {"type": "object", "allOf": [branch, dict(branch)]}},
    }
    value: object = 1
    for _ in range(60):
        value = {"a": value}

    assert {problem.message for problem in validate(value, schema)} == {'1 is not of type "object"'}


@pytest.mark.requirement("AOX-165")
@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("value", "schema"),
    [
        pytest.param([*({"a": i} for i in range(4000)), {"a": 0}], {"uniqueItems": True}, id="uniqueItems"),
        pytest.param("a" * 100_000 + "!", {"pattern": "^(a+)+$"}, id="pattern"),
        pytest.param(
            {"a" * 10_000 + "!": 1}, {"patternProperties": {"^(a+)+$": True}, "additionalProperties": False}, id="names"
        ),
        pytest.param([0] * 500_000, {"contains": {"type": "null"}}, id="contains"),
        pytest.param({str(i): 0 for i in range(100_000)}, {"additionalProperties": False}, id="extra names"),
        pytest.param(
            [0] * 500_000, {"anyOf": [{"items": {"type": "null"}}, {"items": {"type": "string"}}]}, id="anyOf"
        ),
    ],
)
def test_a_hazard_ends_with_words(value: object, schema: dict[str, Any]) -> None:
    assert validate(value, schema) != []


def test_a_pattern_that_must_backtrack_gets_a_bounded_number_of_steps() -> None:
    schema = {"pattern": r"^(?=a)((a|aa)+)+\1$"}

    assert sentences("aa", schema) == []
    assert sentences("a" * 40 + "!", schema) == [
        '$: "' + "a" * 40 + '!" could not be matched with "^(?=a)((a|aa)+)+\\\\1$" in 10000 steps'
    ]


def test_a_schema_is_compiled_once_for_all_its_copies_and_again_after_a_change() -> None:
    schema = {"type": "null"}
    before = validator_for(schema)
    assert validator_for({"type": "null"}) is before
    schema["type"] = "string"

    assert before.is_valid(None)
    assert not validator_for(schema).is_valid(None)


def test_a_schema_that_cannot_be_enforced_is_an_error_and_no_verdict() -> None:
    with pytest.raises(InvalidSchema):
        is_valid(1, {"type": "strin"})


names = st.sampled_from(["a", "b", "a b"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, 2.5]) | st.text("ab", max_size=3)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def applicators(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {},
        optional={
            # jsonschema itself fails on `items: false` beside `additionalItems`.
            "items": inner.filter(lambda schema: isinstance(schema, dict)) | st.lists(inner, min_size=1, max_size=2),
            "additionalItems": inner,
            "contains": inner,
            "properties": st.dictionaries(names, inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, min_size=1, max_size=1),
            "additionalProperties": inner,
            "propertyNames": inner,
            "dependencies": st.dictionaries(names, inner | st.lists(names, max_size=2, unique=True), max_size=1),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


assertions = st.fixed_dictionaries(
    {},
    optional={
        "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$", "a+b"]),
        "minItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "maxProperties": st.integers(0, 2),
        "required": st.lists(names, max_size=2, unique=True),
    },
)
schemas = st.recursive(
    assertions | st.booleans(),
    lambda inner: st.builds(lambda some, more: {**some, **more}, assertions, applicators(inner)),
    max_leaves=6,
).filter(lambda schema: isinstance(schema, dict))


def flattened(errors: Iterable[jsonschema.ValidationError]) -> set[tuple[str, str | None]]:
    found: set[tuple[str, str | None]] = set()
    for error in errors:
        found |= {named(error)} | flattened(error.context or ())
    return found


def named(error: jsonschema.ValidationError) -> tuple[str, str | None]:
    return path_of(error.absolute_path), error.validator if isinstance(error.validator, str) else None


def path_of(steps: Iterable[str | int]) -> str:
    return "$" + "".join({"a": ".a", "b": ".b", "a b": '["a b"]'}.get(str(step), f"[{step}]") for step in steps)


@given(schema=schemas, value=values)
def test_the_verdict_is_that_of_both_libraries(schema: dict[str, Any], value: Any) -> None:
    valid = validate(value, schema) == []

    assert valid is is_valid(value, schema)
    assert valid is jsonschema.Draft7Validator(schema).is_valid(value)
    assert valid is jsonschema_rs.Draft7Validator(schema).is_valid(value)


def test_a_name_beside_no_patterns_is_worded_as_one_beside_no_properties() -> None:
    (problem,) = validate({"a": None}, {"patternProperties": {}, "additionalProperties": False})

    # jsonschema: "'a' does not match any of the regexes: "
    assert problem.message == 'Additional properties are not allowed ("a" was unexpected)'


@given(schema=schemas, value=values)
def test_the_problems_are_the_errors_of_jsonschema_and_the_reasons_below_them(
    schema: dict[str, Any], value: Any
) -> None:
    errors = list(jsonschema.Draft7Validator(schema).iter_errors(value))
    problems = {(problem.path, problem.keyword) for problem in validate(value, schema)}

    # jsonschema forgets the place of what a `false` refuses.
    assume(not any(keyword is None for _, keyword in flattened(errors)))
    assert {named(error) for error in errors} <= problems <= flattened(errors)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("\ud800") | st.just((1,)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.integers(), inner, max_size=4),
    max_leaves=20,
)


@given(value=json_like)
def test_whatever_is_handed_in_the_verdict_and_the_problems_agree(value: object) -> None:
    assert is_valid(value, {}) is (validate(value, {}) == [])


@pytest.mark.parametrize(
    ("name", "text", "example"),
    [
        ("date-time", "tomorrow", "2026-01-31T12:00:00Z"),
        ("date", "2026-02-30", "2026-01-31"),
        ("time", "12:00:00", "12:00:00Z"),
        ("email", "not-an-email", "ada@example.org"),
        ("idn-email", "x", "ada@example.org"),
        ("hostname", "-a", "www.example.org"),
        ("idn-hostname", "-", "www.example.org"),
        ("ipv4", "1.2.3", "192.0.2.1"),
        ("ipv6", "g", "2001:db8::1"),
        ("uri", "a/b", "https://example.org/a"),
        ("uri-reference", "a b", "/a/b"),
        ("iri", "ü", "https://example.org/a"),
        ("iri-reference", "a b", "/a/b"),
        ("uri-template", "/a/{b", "/a/{b}"),
        ("json-pointer", "a", "/a/0"),
        ("relative-json-pointer", "/a", "1/a"),
        ("regex", "a(", "^a+$"),
    ],
)
def test_every_format_of_draft_7_is_checked(name: str, text: str, example: str) -> None:
    schema = {"properties": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {"format": name}}}

    (sentence,) = sentences({"a": text}, schema)
    assert sentence.startswith(f'$.a: "{text}" does not have the format "{name}"')
    assert validate({"a": example}, schema) == []

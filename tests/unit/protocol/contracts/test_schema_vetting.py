"""Which schemas are accepted as contracts, and what the others are told."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.contracts.checks import InvalidSchema, check_schema


def refusals(schema: object) -> list[str]:
    with pytest.raises(InvalidSchema) as caught:
        check_schema(schema)
    return [str(problem) for problem in caught.value.problems]


def doubling(levels: int, keyword: str = "anyOf") -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{level}": {keyword: [{"$ref": f"#/definitions/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/definitions/d0", "definitions": {**definitions, f"d{levels}": {"type": "string"}}}


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({}, id="empty"),
        pytest.param({"$schema": "http://json-schema.org/draft-07/schema#"}, id="Draft-7 by name"),
        pytest.param({"$schema": "https://json-schema.org/draft-07/schema"}, id="Draft-7 by another spelling"),
        pytest.param({"const": {"$ref": "#/nowhere"}}, id="a reference as a value"),
        pytest.param({"$ref": "#/$defs/a b", "$defs": {"a b": {}}}, id="definitions under another name"),
        pytest.param(
            {"$id": "http://x.test/y", "allOf": [{"$ref": "z"}], "definitions": {"x": {"$id": "z"}}}, id="by $id"
        ),
        pytest.param({"pattern": r"^(?!-)[a-z-]+(?<!-)$"}, id="look-around"),
        pytest.param(doubling(10), id="a thousand checks"),
        pytest.param(nested(62), id="62 levels"),
        pytest.param({"oneOf": [{"properties": {"k": {"const": i}}} for i in range(300)]}, id="300 alternatives"),
    ],
)
def test_these_schemas_are_accepted(schema: dict[str, Any]) -> None:
    check_schema(schema)


@pytest.mark.requirement("AOX-163")
@pytest.mark.requirement("AOX-164")
@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param([1], "$: [1] is not a schema: it must be a JSON object", id="no object"),
        pytest.param(True, "$: true is not a schema: it must be a JSON object", id="true"),
        pytest.param({"minimum": float("nan")}, "$.minimum: NaN is not a JSON number", id="NaN"),
        pytest.param(
            {"$ref": "file:///etc/passwd"},
            '$["$ref"]: "file:///etc/passwd" leads out of the schema, and nothing is fetched: '
            "copy what it names into 'definitions'",
            id="file",
        ),
        pytest.param(
            {"items": {"$ref": "http://x.test/y#/z"}},
            '$.items["$ref"]: "http://x.test/y#/z" leads out of the schema, and nothing is fetched: '
            "copy what it names into 'definitions'",
            id="remote",
        ),
        pytest.param(
            {"$id": "http://[", "items": {"$ref": "#"}}, '$["$id"]: "http://[" is not a URI reference', id="no URI"
        ),
        pytest.param({"$ref": "#/a"}, '$["$ref"]: "#/a" leads nowhere in this schema', id="no such pointer"),
        pytest.param({"$ref": "#a"}, '$["$ref"]: "#a" leads nowhere in this schema', id="no such anchor"),
        pytest.param({"$ref": "#/a", "a": [1]}, '$["$ref"]: "#/a" does not lead to a schema', id="no schema there"),
        pytest.param(
            {"$ref": "#"}, '$["$ref"]: comes back to $ for the same value, without end', id="reference to itself"
        ),
        pytest.param(
            {"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}},
            '$["$defs"].b["$ref"]: comes back to $["$defs"].a for the same value, without end',
            id="endless in two steps",
        ),
        pytest.param(
            {"properties": {"a": {"pattern": "(?i)x"}}},
            '$.properties.a.pattern: "(?i)x" is not an ECMA-262 regular expression that can be matched',
            id="Python's own pattern",
        ),
        pytest.param(
            {"patternProperties": {"[": {}}},
            '$.patternProperties["["]: "[" is not an ECMA-262 regular expression that can be matched',
            id="broken pattern of names",
        ),
        pytest.param(
            {"$schema": "https://json-schema.org/draft/2020-12/schema"},
            '$["$schema"]: "https://json-schema.org/draft/2020-12/schema" is not Draft-7: '
            'leave it out, or write "http://json-schema.org/draft-07/schema#"',
            id="another draft",
        ),
        pytest.param(
            {"items": {"prefixItems": [{}]}},
            '$.items.prefixItems: "prefixItems" is not in Draft-7, which would ignore it: say it in Draft-7',
            id="a later keyword",
        ),
        pytest.param(
            doubling(20),
            "$.definitions.d7: one value may take more than 20000 checks: use fewer alternatives",
            id="doubling",
        ),
        pytest.param(
            {"properties": {f"p{i}": {"pattern": f"a{i}"} for i in range(101)}},
            "$: has 101 different patterns; 100 are allowed",
            id="patterns",
        ),
        pytest.param(
            {"description": "x" * 300_000}, "$: is 300018 characters long as JSON; 262144 are allowed", id="size"
        ),
        pytest.param(nested(63), f"${'.items' * 62}: is nested deeper than 62 levels", id="depth"),
        pytest.param(nested(100_000), f"${'.items' * 62}: is nested deeper than 62 levels", id="depth of the stack"),
    ],
)
def test_a_schema_that_cannot_be_enforced_is_told_why(schema: object, expected: str) -> None:
    assert refusals(schema) == [expected]


def test_every_problem_is_listed_and_the_first_is_at_hand() -> None:
    schema = {"required": "a", "properties": {"severity": {"type": "strin"}, "n": {"minLength": -1}}}

    with pytest.raises(InvalidSchema) as caught:
        check_schema(schema)

    assert caught.value.path == "$.required"
    assert caught.value.message == '"a" is not of type "array"'
    assert sorted({problem.path for problem in caught.value.problems}) == [
        "$.properties.n.minLength",
        "$.properties.severity.type",
        "$.required",
    ]


def test_what_only_a_reference_makes_a_schema_is_checked_as_one() -> None:
    assert {problem.split(":")[0] for problem in refusals({"$ref": "#/x", "x": {"type": "strin"}})} == {"$.x.type"}


def test_a_schema_is_not_changed_by_being_checked() -> None:
    schema = {"$id": "http://x.test/y", "not": {"$ref": "y#/definitions/a"}, "definitions": {"a": {"format": "date"}}}

    check_schema(schema)

    assert schema == {
        "$id": "http://x.test/y",
        "not": {"$ref": "y#/definitions/a"},
        "definitions": {"a": {"format": "date"}},
    }


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3)
            | st.sampled_from(
                ["$ref", "$id", "$schema", "type", "items", "properties", "anyOf", "not", "pattern", "definitions"]
            ),
            inner | st.sampled_from(["#", "#/definitions", "#/a", "object"]),
            max_size=4,
        )
    ),
    max_leaves=15,
)


def fate(schema: object) -> list[str] | None:
    try:
        check_schema(schema)
    except InvalidSchema as error:
        return [str(problem) for problem in error.problems]
    return None


@given(schema=anything)
def test_whatever_is_handed_in_is_accepted_or_refused_with_a_reason(schema: object) -> None:
    assert fate(schema) != []

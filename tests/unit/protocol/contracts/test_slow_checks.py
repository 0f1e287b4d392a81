"""Schemas and values that take long to check: what is refused, what is cut short, and what is known to be quick."""

from typing import Any

import pytest

from ao_protocol.contracts import InvalidSchema, check_schema, validate, validator_for

LOOKING_AHEAD = "(?=(a+)+b)a"
LARGE = r"\p{L}{1,20}"
A_TEXT = {"type": "string"}


def chain(levels: int, link: str = "allOf") -> dict[str, Any]:
    """Return a schema that refers to a schema that refers to another one, and so on."""
    below = {str(number): {link: [{"$ref": f"#/definitions/{number + 1}"}]} for number in range(levels)}
    return {"definitions": {**below, str(levels): {"type": "object"}}, "allOf": [{"$ref": "#/definitions/0"}]}


def conditions(levels: int) -> dict[str, Any]:
    below = {
        str(number): {"if": {"type": "array"}, "then": {"$ref": f"#/definitions/{number + 1}"}}
        for number in range(levels)
    }
    return {"definitions": {**below, str(levels): {"type": "object"}}, "allOf": [{"$ref": "#/definitions/0"}]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param(chain(2000), [], id="chain of references"),
        pytest.param(conditions(2000), [], id="chain of conditions"),
        pytest.param({"anyOf": [{"const": number} for number in range(9000)]}, -1, id="thousands of alternatives"),
        pytest.param(
            {"additionalProperties": False, "patternProperties": {f"^z{number}": {} for number in range(100)}},
            {f"a{number}": 1 for number in range(6_000)},
            id="names by patterns",
        ),
        pytest.param(
            {"items": {"enum": [{"a": number} for number in range(15_000)]}}, [{"a": -1}] * 30, id="objects in a list"
        ),
    ],
)
def test_the_reasons_of_a_refusal_end_after_a_bounded_number_of_steps(schema: dict[str, Any], value: object) -> None:
    problems = validate(value, schema)

    assert problems[-1].message.endswith(", for reasons that take too many steps to find")


def test_reasons_that_take_few_steps_are_all_told() -> None:
    assert [str(problem) for problem in validate([], chain(100))] == ['$: [] is not of type "object"']


def test_a_schema_has_at_most_eight_large_patterns() -> None:
    patterns = [{"pattern": f"{LARGE}{number}"} for number in range(9)]
    check_schema({"allOf": patterns[:8] * 2})

    with pytest.raises(InvalidSchema) as caught:
        check_schema({"allOf": patterns})

    assert caught.value.message == (
        r'"\\p{L}{1,20}0" is one of more than 8 patterns that cannot be matched or take over 256 KiB compiled: use'
        " simpler patterns"
    )


@pytest.mark.parametrize(
    ("schema", "characters"),
    [
        pytest.param(
            {"type": "object", "required": ["prompt"], "properties": {"prompt": A_TEXT}}, 400_000, id="prompt"
        ),
        pytest.param({"items": {"pattern": "^[a-z-]{1,20}$"}}, 50_000, id="pattern"),
        pytest.param({"items": {"pattern": r"^(?=.*\d).{8,}$"}}, 1_000, id="look-ahead"),
        pytest.param({"items": {"enum": ["low", "high"]}}, 200_000, id="enum"),
        pytest.param({"items": {"multipleOf": 0.01}}, 20_000, id="multiples"),
    ],
)
def test_a_usual_check_is_known_to_be_quick(schema: dict[str, Any], characters: int) -> None:
    assert validator_for(schema).is_quick(characters)


@pytest.mark.parametrize(
    ("schema", "characters"),
    [
        pytest.param({"properties": {"z": {"pattern": LOOKING_AHEAD}}}, 50_000, id="look-ahead"),
        pytest.param({"pattern": r"(.*)\1x"}, 50_000, id="back-reference"),
        pytest.param({"patternProperties": {LOOKING_AHEAD: True}}, 50_000, id="name"),
        pytest.param({"not": {"pattern": "[ab]*a(?:[ab]|a[ab]b){4000}[^ab]"}}, 16_000, id="large pattern"),
        pytest.param({"items": {"multipleOf": 1e-300}}, 200_000, id="multiples"),
        pytest.param({"items": {"enum": [[number] for number in range(30_000)]}}, 2_700, id="enum"),
        pytest.param({"items": {"anyOf": [{"const": number} for number in range(9000)]}}, 18_000, id="alternatives"),
        pytest.param({"x": {"pattern": LOOKING_AHEAD}, "allOf": [{"$ref": "#/x"}] * 500}, 500, id="one pattern often"),
        pytest.param({"contains": {"const": 1}}, 15_000_000, id="many items"),
    ],
)
def test_a_check_that_may_be_slow_is_not_taken_for_quick(schema: dict[str, Any], characters: int) -> None:
    assert not validator_for(schema).is_quick(characters)

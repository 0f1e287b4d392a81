"""Which schemas the strict dialect takes, and how they are written in it."""

from typing import Any

import pytest

from ao_executors.codex.strict_schema import strict_schema

TEXT = {"type": "string"}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (an_object(a=TEXT), an_object(a=TEXT)),
        ({**an_object(a=TEXT), "additionalProperties": True}, an_object(a=TEXT)),
        (an_object(a={**TEXT, "minLength": 3, "pattern": "^x", "default": "x"}), an_object(a=TEXT)),
        (an_object(a={"oneOf": [TEXT, {"type": "null"}]}), an_object(a={"anyOf": [TEXT, {"type": "null"}]})),
        (
            an_object(a={"type": "array", "items": an_object(b=TEXT), "uniqueItems": True}),
            an_object(a={"type": "array", "items": an_object(b=TEXT)}),
        ),
        (
            {**an_object(a={"$ref": "#/definitions/d"}), "definitions": {"d": TEXT}},
            {**an_object(a={"$ref": "#/definitions/d"}), "definitions": {"d": TEXT}},
        ),
    ],
    ids=["as-it-is", "open", "narrowing", "one-of", "list", "reference"],
)
def test_a_schema_is_written_in_the_dialect(schema: dict[str, Any], strict: dict[str, Any]) -> None:
    assert strict_schema(schema) == strict


@pytest.mark.parametrize(
    "schema",
    [
        {**an_object(a=TEXT, b=TEXT), "required": ["a"]},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object"},
        an_object(a={}),
        an_object(a=True),
        an_object(a={"not": TEXT}),
        {**an_object(a=TEXT), "if": {}, "then": {}},
        an_object(a={"type": "object", "patternProperties": {"^x": TEXT}}),
        an_object(a={"anyOf": [TEXT], "oneOf": [TEXT]}),
        an_object(a={"type": "array", "items": [TEXT]}),
    ],
    ids=["optional", "map", "any-object", "anything", "true", "not", "if", "patterns", "both", "tuple"],
)
def test_a_schema_that_the_dialect_cannot_express_is_not_handed_over(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None

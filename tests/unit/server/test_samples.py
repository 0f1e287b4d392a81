"""Sample values are what a schema names, or of its type."""

import json
from typing import Any

import pytest

from ao_protocol.contracts import InvalidSchema
from ao_server.pages.samples import sample_of

TREE = {"type": "object", "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}}

SAMPLES: dict[str, tuple[dict[str, Any], Any]] = {
    "empty": ({}, "text"),
    "object": (
        {"type": "object", "required": ["a", "undeclared"], "properties": {"b": {"type": "boolean"}}},
        {"a": "text", "undeclared": "text", "b": True},
    ),
    "closed": ({"additionalProperties": False, "properties": {"a": {"type": "null"}, "b": False}}, {"a": None}),
    "list": ({"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": 7}}, [7, 7]),
    "optional item": ({"type": "array", "items": {"type": "boolean"}}, [True]),
    "tuple": ({"type": "array", "items": [{"type": "string"}, {"const": 4}]}, ["text", 4]),
    "contains": ({"type": "array", "contains": {"const": "x"}}, ["x"]),
    "above": ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, 1),
    "below": ({"type": "integer", "maximum": -3}, -3),
    "step": ({"type": "number", "multipleOf": 0.5}, 0.5),
    "long": ({"type": "string", "minLength": 6}, "textxx"),
    "short": ({"type": "string", "maxLength": 2}, "te"),
    "format": ({"type": "string", "format": "email"}, "a@example.com"),
    "types": ({"type": ["integer", "null"]}, 1),
    "first choice": ({"oneOf": [{"required": ["k"], "properties": {"k": {"const": 1}}}, {"type": "string"}]}, {"k": 1}),
    "second choice": ({"anyOf": [False, {"type": "integer"}]}, 1),
    "both": (
        {
            "allOf": [
                {"required": ["x"], "properties": {"x": {"type": "integer"}}},
                {"required": ["y"], "properties": {"y": {"minimum": 5}}},
            ]
        },
        {"x": 1, "y": 5},
    ),
    "reference": ({"$ref": "#/definitions/n", "definitions": {"n": {"type": "integer", "minimum": 3}}}, 3),
    "recursive": (TREE, {"next": {"next": {"next": {"next": {}, "value": 1}, "value": 1}, "value": 1}, "value": 1}),
    "default": ({"type": "string", "default": "d", "enum": ["a", "d"]}, "d"),
    "enum": ({"enum": ["a", "b"]}, "a"),
    "examples": ({"type": "string", "pattern": "^q", "examples": ["q1"]}, "q1"),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_what_a_schema_names_or_of_its_type(name: str) -> None:
    schema, sample = SAMPLES[name]

    assert sample_of(schema) == sample


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "minItems": 10**12, "items": {"type": "string", "minLength": 10**9}},
        {"type": "number", "minimum": 1e300, "multipleOf": 1e-300},
        {"type": "object", "required": ["l", "r"], "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}},
    ],
    ids=["large", "fine", "endless"],
)
def test_an_excessive_schema_costs_little(schema: dict[str, Any]) -> None:
    assert len(json.dumps(sample_of(schema))) < 1_000_000


def test_a_schema_that_is_not_acceptable_is_refused() -> None:
    with pytest.raises(InvalidSchema):
        sample_of({"type": "intger"})

"""Sample values fit their schemas, or are told not to."""

from typing import Any

import pytest

from ao_protocol.contracts import InvalidSchema
from ao_server.pages.samples import sample_of

FITTING: dict[str, dict[str, Any]] = {
    "empty": {},
    "object": {
        "type": "object",
        "required": ["a", "undeclared"],
        "properties": {"a": {"type": "string", "minLength": 30}, "b": {"type": "boolean"}},
    },
    "closed": {"type": "object", "additionalProperties": False, "properties": {"a": {"type": "null"}}},
    "counted": {"type": "object", "minProperties": 3, "additionalProperties": {"type": "integer"}},
    "numbers": {"type": "array", "minItems": 2, "items": {"type": "integer", "minimum": 7, "multipleOf": 5}},
    "fraction": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "negative": {"type": "integer", "maximum": -3},
    "unique": {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"enum": ["a", "b", "c"]}},
    "unique numbers": {"type": "array", "minItems": 3, "uniqueItems": True, "items": {"type": "integer"}},
    "tuple": {"type": "array", "items": [{"type": "string"}, {"const": 4}], "minItems": 2},
    "contains": {"type": "array", "contains": {"const": "x"}},
    "pattern": {"type": "string", "pattern": r"^[A-Z]{3}-\d{4}[\w.]+\.x?$"},
    "format": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email"},
    "short": {"type": "string", "maxLength": 2},
    "types": {"type": ["integer", "null"]},
    "choice": {"oneOf": [{"type": "object", "required": ["k"], "properties": {"k": {"const": 1}}}, {"type": "string"}]},
    "second choice": {"anyOf": [False, {"type": "integer"}]},
    "both": {
        "allOf": [
            {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}},
            {"properties": {"x": {"minimum": 5}}},
        ]
    },
    "condition": {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "if": {"properties": {"a": {"const": 1}}},
        "then": {"required": ["b"]},
    },
    "reference": {"$ref": "#/definitions/n", "definitions": {"n": {"type": "integer", "minimum": 3}}},
    "recursive": {"type": "object", "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}},
    "default": {"type": "string", "default": "d"},
    "examples": {"type": "string", "pattern": "^(?=q)", "examples": ["q1"]},
}


@pytest.mark.parametrize("schema", FITTING.values(), ids=FITTING.keys())
def test_a_sample_fits_its_schema(schema: dict[str, Any]) -> None:
    assert sample_of(schema).problems == []


@pytest.mark.parametrize("schema", [{"not": {}}, {"type": "string", "pattern": "^(a|b)c$"}], ids=["nothing", "groups"])
def test_a_sample_that_does_not_fit_is_told(schema: dict[str, Any]) -> None:
    assert sample_of(schema).problems != []


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
    assert len(sample_of(schema).text) < 10_000_000


def test_a_schema_that_is_not_acceptable_is_refused() -> None:
    with pytest.raises(InvalidSchema):
        sample_of({"type": "intger"})

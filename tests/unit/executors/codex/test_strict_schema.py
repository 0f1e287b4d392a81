"""Which schemas the strict dialect takes, and how they are written in it."""

from functools import reduce
from typing import Any

import pytest

from ao_executors.codex.strict_schema import strict_schema
from ao_protocol.contracts import native_schema

TEXT = {"type": "string"}
TREE = {
    "type": "object",
    "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/d"}}},
    "required": ["below"],
    "additionalProperties": False,
}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (an_object(a=TEXT), an_object(a=TEXT)),
        ({"type": "object", "properties": {"a": TEXT}, "required": ["a"]}, an_object(a=TEXT)),
        (an_object(a={**TEXT, "minLength": 3, "pattern": "^x", "default": "x"}), an_object(a=TEXT)),
        (an_object(a={"oneOf": [TEXT, {"type": "null"}]}), an_object(a={"anyOf": [TEXT, {"type": "null"}]})),
        (
            an_object(a={"type": "array", "items": an_object(b=TEXT), "uniqueItems": True}),
            an_object(a={"type": "array", "items": an_object(b=TEXT)}),
        ),
        (
            {**an_object(a={"$ref": "#/definitions/d"}), "definitions": {"d": TEXT}},
            {**an_object(a={"$ref": "#/$defs/d"}), "$defs": {"d": TEXT}},
        ),
        (
            {**an_object(a={"$ref": "#/$defs/d", "description": "Who"}), "$defs": {"d": TEXT, "unused": {"not": {}}}},
            an_object(a={**TEXT, "description": "Who"}),
        ),
        (
            {**an_object(a={"$ref": "#/$defs/d", "description": "Who"}), "$defs": {"d": TREE}},
            {**an_object(a={"$ref": "#/$defs/d"}), "$defs": {"d": TREE}},
        ),
        (an_object(a={"enum": ["x", "y"]}), an_object(a={"type": "string", "enum": ["x", "y"]})),
        (
            an_object(a={"enum": ["x", 1, None]}),
            an_object(a={"type": ["string", "integer", "null"], "enum": ["x", 1, None]}),
        ),
        (an_object(a={"const": True}), an_object(a={"type": "boolean", "const": True})),
        (an_object(a={"type": "string", "anyOf": [TEXT]}), an_object(a={"anyOf": [TEXT]})),
        (an_object(a={"properties": {"b": TEXT}, "required": ["b"]}), an_object(a=an_object(b=TEXT))),
    ],
    ids=[
        *("as-it-is", "unsaid", "narrowing", "one-of", "list", "reference", "described", "described-tree", "enum"),
        *("mixed-enum", "const", "type-beside-any-of", "object-without-type"),
    ],
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
        an_object(a={"type": "array"}),
        {**an_object(a=TEXT), "additionalProperties": True},
        an_object(a={"enum": [{"b": 1}]}),
        an_object(a={"anyOf": [{"minLength": 1}, TEXT]}),
        reduce(lambda below, _: an_object(a=below), range(10), an_object(a=TEXT)),
        an_object(a={"enum": [f"value {n}" for n in range(1_001)]}),
        an_object(a={"enum": [f"{n:0100}" for n in range(251)]}),
        an_object(**{f"a{n}": TEXT for n in range(5_001)}),
        an_object(**{f"{n:0200}": TEXT for n in range(601)}),
    ],
    ids=[
        *(
            "optional",
            "map",
            "any-object",
            "anything",
            "true",
            "not",
            "if",
            "patterns",
            "both",
            "tuple",
            "array",
            "open",
        ),
        *("enum-of-objects", "branch-without-type", "deep", "values", "long-enum", "properties", "names"),
    ],
)
def test_a_schema_that_the_dialect_cannot_express_is_not_handed_over(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_ten_levels_are_taken() -> None:
    assert strict_schema(reduce(lambda below, _: an_object(a=below), range(9), an_object(a=TEXT))) is not None


def test_a_reference_is_a_pointer_that_needs_no_decoding() -> None:
    schema = {**an_object(a={"$ref": "#/%24defs/Hero%20of%20it"}), "$defs": {"Hero of it": TEXT}}
    assert native_schema(schema).document["properties"]["a"] == {"$ref": "#/$defs/Hero%20of%20it"}

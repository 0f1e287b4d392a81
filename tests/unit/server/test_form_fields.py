"""A form from a schema, the value that it stands for, and the problems at its fields."""

from typing import Any

import pytest

from ao_protocol.contracts import Problem, validate
from ao_server.pages.form_fields import by_field, every_field, fields_of, texts_of, value_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["message", "owner", "sure"],
    "properties": {
        "message": {"type": "string", "title": "What to say", "description": "On one line.", "maxLength": 60},
        "text": {"type": "string"},
        "times": {"type": "integer", "minimum": 1, "default": 2},
        "share": {"type": ["number", "null"]},
        "sure": {"type": "boolean"},
        "loud": {"type": "boolean"},
        "colour": {"enum": ["red", 1, None]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "due": {"type": "string", "format": "date"},
        "owner": {"$ref": "#/definitions/person"},
        "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "more": {"type": "object"},
    },
    "definitions": {
        "person": {
            "type": "object",
            "required": ["mail"],
            "properties": {"mail": {"type": "string", "format": "email"}},
        }
    },
}


def test_each_kind_of_value_has_its_kind_of_field() -> None:
    assert {field.name: field.kind for field in every_field(fields_of(SCHEMA))} == {
        "$.message": "line",
        "$.text": "text",
        "$.times": "number",
        "$.share": "number",
        "$.sure": "check",
        "$.loud": "boolean",
        "$.colour": "choice",
        "$.tags": "lines",
        "$.due": "line",
        "$.owner": "object",
        "$.owner.mail": "line",
        "$.any": "json",
        "$.more": "json",
    }


def test_a_field_says_what_it_is_for_and_what_is_allowed() -> None:
    message, _, times, *_ = fields_of(SCHEMA)
    assert (message.label, message.description, message.hint) == (
        "What to say",
        "On one line.",
        "at most 60 characters",
    )
    assert message.required
    assert (times.label, times.hint, times.required) == ("times", "a whole number, at least 1", False)


def test_a_filled_in_form_is_a_value_of_the_right_types() -> None:
    given = {
        "$.message": "Hi",
        "$.text": "a\r\nb",
        "$.times": "3",
        "$.share": "0.5",
        "$.sure": "true",
        "$.loud": "false",
        "$.colour": "1",
        "$.tags": "x\r\n\r\ny z",
        "$.due": "2026-01-31",
        "$.owner.mail": "a@example.com",
        "$.any": '"7"',
        "$.more": '{"a": [1]}',
    }
    value = value_of(fields_of(SCHEMA), given, [])
    assert value == {
        "message": "Hi",
        "text": "a\nb",
        "times": 3,
        "share": 0.5,
        "sure": True,
        "loud": False,
        "colour": 1,
        "tags": ["x", "y z"],
        "due": "2026-01-31",
        "owner": {"mail": "a@example.com"},
        "any": "7",
        "more": {"a": [1]},
    }
    assert validate(value, SCHEMA) == []


def test_an_empty_form_leaves_out_all_but_what_is_always_there() -> None:
    assert value_of(fields_of(SCHEMA), {}, []) == {"sure": False, "owner": {}}


def test_a_value_survives_its_form() -> None:
    fields = fields_of(SCHEMA)
    value = {"message": "Hi", "times": 3, "share": None, "sure": True, "colour": None, "owner": {"mail": "a@b.example"}}
    assert value_of(fields, texts_of(fields, value), []) == value


def test_defaults_are_filled_in() -> None:
    assert texts_of(fields_of(SCHEMA), {})["$.times"] == "2"


def test_problems_stand_at_their_fields() -> None:
    fields = fields_of(SCHEMA)
    problems: list[Problem] = []
    value = value_of(fields, {"$.times": "many", "$.more": "{", "$.tags": "a"}, problems)
    found = by_field(fields, [*problems, *validate({**value, "more": {}}, SCHEMA)])
    assert found == {
        "$.more": ["is not JSON: line 1, column 2: Expecting property name enclosed in double quotes"],
        "$.message": ["is required"],
        "$.times": ['"many" is not of type "integer"'],
        "$.owner.mail": ["is required"],
    }


def test_a_problem_inside_a_field_tells_its_path() -> None:
    assert by_field(fields_of(SCHEMA), [Problem("$.tags[1]", "is odd"), Problem("$", "is wrong")]) == {
        "$.tags": ["$.tags[1]: is odd"],
        "": ["$: is wrong"],
    }


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "string"},
        {"properties": {}},
        {"$ref": "#"},
        {"$ref": "#/definitions/none"},
        {"properties": {f"f{number}": {} for number in range(1000)}},
    ],
)
def test_a_schema_without_fields_has_no_form(schema: dict[str, Any]) -> None:
    assert fields_of(schema) == []


def test_a_schema_that_contains_itself_ends_as_json() -> None:
    node: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert [field.kind for field in every_field(fields_of(node))] == ["object", "object", "object", "json"]

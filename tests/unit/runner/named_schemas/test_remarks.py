"""What is odd about schemas that are acceptable."""

import pytest

from ao_protocol.contracts import check_schema
from ao_protocol.wire import JsonObject
from ao_runner.named_schemas.vetting import remarks_on

ODD: dict[str, tuple[JsonObject, list[str]]] = {
    "nothing": (
        {"type": "object", "title": "x", "properties": {"unknown": {"type": "string"}}, "default": {"a": {"b": 1}}},
        [],
    ),
    "a keyword that is written wrong": (
        {"properties": {"a": {"minLenght": 1}}},
        ["$.properties.a.minLenght: unknown keyword, ignored; did you mean 'minLength'?"],
    ),
    "an unknown keyword": ({"x-order": 1}, ["$.x-order: unknown keyword, ignored"]),
    "what a reference leads to": ({"items": {"$ref": "#/shapes/a"}, "shapes": {"a": {}}}, []),
    "something beside a reference": (
        {"items": {"$ref": "#/definitions/a", "minimum": 1, "title": "x"}, "definitions": {"a": {}}},
        ["$.items.minimum: ignored beside $ref; put both into an allOf"],
    ),
    "a format that is checked": ({"format": "email", "x-formats": "annotate"}, []),
    "a format that is written wrong": (
        {"format": "emial"},
        ["$.format: 'emial' is no format of Draft-7, so it is not checked; did you mean 'email'?"],
    ),
    "a format that Draft-7 has not": (
        {"format": "uuid"},
        ["$.format: 'uuid' is no format of Draft-7, so it is not checked; use a pattern to check it"],
    ),
    "formats left open where it does not count": (
        {"items": {"x-formats": "annotate"}},
        ["$.items.x-formats: ignored; only 'annotate' at the root of the schema counts"],
    ),
    "an id as a number": (
        {"properties": {"user_id": {"type": ["integer", "null"]}, "ids": {"items": {"type": "integer"}}}},
        [
            f"$.properties.{place}.type: integers beyond ±9007199254740991 lose digits at receivers and are refused; "
            "ask for a string if they occur, else give a maximum"
            for place in ("user_id", "ids.items")
        ],
    ),
    "an id that loses nothing, and a count": (
        {
            "properties": {
                "id": {"type": "integer", "maximum": 999},
                "uuid_id": {"type": ["integer", "string"]},
                "paid": {"type": "integer"},
            }
        },
        [],
    ),
    "a member that must be there and is refused": (
        {"properties": {"a": {}}, "required": ["a", "b"], "additionalProperties": False},
        ["$.required: 'b' must be there, and additionalProperties refuses it"],
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_what_a_schema_does_not_say_is_remarked_with_its_place(name: str) -> None:
    schema, remarks = ODD[name]

    check_schema(schema)
    assert remarks_on(schema) == remarks


def test_at_most_fifty_remarks_are_made() -> None:
    schema: JsonObject = {f"typo{number}": 1 for number in range(10_000)}

    remarks = remarks_on(schema)

    assert len(remarks) == 50
    assert remarks[-1].startswith("$.typo49: unknown keyword")

"""A field that nobody defined is found at any depth; what is free stays free."""

import pytest

from ao_conformance.judging.events import unknown_fields

STARTED = {"event_type": "run_started", "seq": 1, "executor": {"name": "a", "version": "1"}}


@pytest.mark.parametrize(
    ("document", "part", "unknown"),
    [
        (STARTED, "run_started", []),
        ({**STARTED, "colour": "red"}, "run_started", ["$.colour"]),
        ({**STARTED, "executor": {"name": "a", "colour": "red"}}, "run_started", ["$.executor.colour"]),
        ({"error": {"type": "x", "details": {"any": {"thing": 1}}, "code": 7}}, "failure", ["$.error.code"]),
        ({"usage": {"input_tokens": 1, "total_tokens": 2}}, "result", ["$.usage.total_tokens"]),
        ({"content": [{"text": "a"}, {"text": "b", "id": 1}]}, "message", ["$.content[1].id"]),
        ({"result_data": {"any": 1}, "output": None}, "result", []),
        ({"tool_input": {"any": [{"thing": 1}]}}, "tool_started", []),
    ],
    ids=["none", "in an event", "in an object", "in an error", "in a sum", "in a list", "in data", "in an input"],
)
def test_what_an_event_has_too_much_is_told_with_its_path(
    document: dict[str, object], part: str, unknown: list[str]
) -> None:
    assert unknown_fields(document, "event", part) == unknown


def test_a_description_is_looked_at_too() -> None:
    description = {
        "capabilities": {"resume": True, "colour": 1, "output_schema": {"strategies": [], "models": []}},
        "config_schema": {"properties": {"any": {}}},
        "model_endpoint": {"any-name": {"env": "X", "port": 1}},
        "homepage": "here",
    }
    assert unknown_fields(description, "description") == [
        "$.capabilities.colour",
        "$.capabilities.output_schema.models",
        "$.model_endpoint.any-name.port",
        "$.homepage",
    ]

"""Rules across the fields of a wire document, as JSON Schema. The validators of its model check the same."""

from typing import Any, Final

OF_AN_INVOCATION: Final[dict[str, Any]] = {
    "if": {"required": ["mode"], "properties": {"mode": {"const": "resume"}}},
    "then": {"required": ["executor_session_id"], "properties": {"executor_session_id": {"type": "string"}}},
    "else": {"properties": {"input_responses": {"type": "null"}}},
    "anyOf": [
        {"properties": {"input_responses": {"type": "null"}}},
        {
            "required": ["input_responses", "requires", "control"],
            "properties": {
                "requires": {"type": "array", "contains": {"const": "input"}},
                "control": {"type": "object", "required": ["input"], "properties": {"input": {"const": True}}},
                "prompt": {"type": "null"},
            },
        },
    ],
}
"""A resume names its session, and only a resume that requires `input` has answers, without a prompt."""
OF_A_REQUEST: Final[dict[str, Any]] = {
    "anyOf": [
        {"required": ["options"], "properties": {"options": {"type": "array"}}},
        {"required": ["schema"], "properties": {"schema": {"type": "object"}}},
    ]
}
"""A request has options, a schema or both."""
OF_AN_ATTACHMENT: Final[dict[str, Any]] = {
    "oneOf": [
        {"required": ["path"], "properties": {"path": {"type": "string"}, "data": {"type": "null"}}},
        {"required": ["data"], "properties": {"data": {"type": "string"}, "path": {"type": "null"}}},
    ]
}
"""An attachment is a path or data."""

"""Rules across the fields of a wire document, as JSON Schema. The validators of its model check the same.

They are written with `if`, which generators of types ignore: of `anyOf` and `oneOf` they would make unions.
"""

from typing import Any, Final

OF_AN_INVOCATION: Final[dict[str, Any]] = {
    "if": {"required": ["mode"], "properties": {"mode": {"const": "resume"}}},
    "then": {
        "required": ["executor_session_id"],
        "properties": {"executor_session_id": {"type": "string"}},
        "if": {"required": ["input_responses"], "properties": {"input_responses": {"type": "array"}}},
        "then": {
            "required": ["requires", "control"],
            "properties": {
                "requires": {"type": "array", "contains": {"const": "input"}},
                "control": {"type": "object", "required": ["input"], "properties": {"input": {"const": True}}},
                "prompt": {"type": "null"},
            },
        },
    },
    "else": {"properties": {"input_responses": {"type": "null"}}},
}
"""A resume names its session, and only a resume that requires `input` has answers, without a prompt."""
OF_A_REQUEST: Final[dict[str, Any]] = {
    "if": {"properties": {"options": {"type": "null"}}},
    "then": {"required": ["schema"], "properties": {"schema": {"type": "object"}}},
}
"""A request has options, a schema or both."""
OF_A_RESULT: Final[dict[str, Any]] = {
    "if": {"properties": {"result_text": {"type": "string"}}},
    "then": {"properties": {"result_data": {"type": "null"}}},
    "else": {
        "if": {"properties": {"result_data": {"type": "null"}}},
        "then": {"required": ["output"], "properties": {"output": {"type": "object"}}},
    },
}
"""A result has a text or data. Data may be null if a contract says so, which `output` shows."""
OF_A_FAILURE: Final[dict[str, Any]] = {
    "if": {"required": ["status"], "properties": {"status": {"const": "cancelled"}}},
    "then": {"properties": {"error": {"type": "object", "properties": {"type": {"const": "cancelled"}}}}},
    "else": {"properties": {"error": {"type": "object", "properties": {"type": {"not": {"const": "cancelled"}}}}}},
}
"""A run is cancelled by its status and by the type of its error, or by neither."""
OF_AN_ATTACHMENT: Final[dict[str, Any]] = {
    "if": {"properties": {"path": {"type": "null"}}},
    "then": {"required": ["data"], "properties": {"data": {"type": "string"}}},
    "else": {"properties": {"data": {"type": "null"}}},
}
"""An attachment is a path or data."""

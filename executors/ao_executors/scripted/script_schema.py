"""The JSON Schema of a script (docs/scripted-executor.md)."""

from typing import Any, Final

from ao_protocol.errors import RUNNER_ONLY, ErrorType

SCRIPT_VARIABLE: Final = "AO_SCRIPT_FILE"
"""The variable with the path of a script, for a configuration without one."""
_SECONDS: Final = {"type": "number", "minimum": 0}
_TEXT: Final = {"type": "string"}
_NAME: Final = {"type": "string", "minLength": 1}
_TOKENS: Final = {"type": "integer", "minimum": 0}


def _object(required: tuple[str, ...] = (), **properties: object) -> dict[str, Any]:
    needs = {"required": list(required)} if required else {}
    return {"type": "object", **needs, "additionalProperties": False, "properties": properties}


FAULTS: Final = {
    "raise": "the executor's own code fails",
    "hang": "nothing happens until a cancel",
    "block": "nothing happens, and the event loop is blocked",
    "exit": "the process exits with code 0 without a terminal event",
    "crash": "the process dies of SIGABRT",
    "kill": "the process dies of SIGKILL",
    "garbage": "a line that is not JSON is written between the events",
}

_TOOL: Final = _object(
    ("name",), name=_NAME, input={}, output={}, error=_TEXT, seconds=_SECONDS, ask={"type": "boolean"}
)
_FAILURE: Final = _object(
    ("type", "message"),
    type={"enum": [str(error_type) for error_type in ErrorType if error_type not in RUNNER_ONLY]},
    message=_NAME,
    retryable={"type": "boolean"},
    retry_after_seconds=_SECONDS,
    origin={"enum": ["caller", "model", "provider", "tool", "environment", "executor"]},
)
_ANSWER: Final = _object(
    noise={"type": "string", "description": "Printed to descriptor 1 by a library, and by a child process."},
    delay_seconds=_SECONDS,
    retry=_object(("type", "message", "delay_seconds"), type=_NAME, message=_TEXT, delay_seconds=_SECONDS),
    messages={"type": "array", "items": _TEXT},
    tools={"type": "array", "items": _TOOL},
    usage=_object(
        input_tokens=_TOKENS,
        output_tokens=_TOKENS,
        cache_read_input_tokens=_TOKENS,
        cache_creation_input_tokens=_TOKENS,
        cost_usd=_SECONDS,
    ),
    fault={"enum": list(FAULTS)},
    fail=_FAILURE,
    text=_TEXT,
    json={},
    stop_reason=_NAME,
    truncated={"type": "boolean"},
)

SCRIPT_SCHEMA: Final = _object(
    ("answers",),
    answers={"type": "array", "items": _ANSWER},
    repeat={"type": "boolean", "description": "Start again after the last answer."},
)

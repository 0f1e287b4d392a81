"""Events in the older vocabulary of the REST contract: `message`, `pre_tool`, `post_tool`, `result`.

Left out is what has no counterpart: blocks of a message that are no text, and a message of such blocks alone;
`run_started`, `message_delta`, `output_validation`, `retry_scheduled`, `usage`, `heartbeat`, `log`, `input_requested`
and vendor events. In that contract `session_bound` is a call of its own and `failure` is the end of the run, so neither
is an event.
"""

from typing import Final

from pydantic import JsonValue

from ao_protocol.events import Body, Failure, Message, Result, ToolFinished, ToolStarted
from ao_protocol.inputs import format_inputs
from ao_protocol.message_content import TextBlock
from ao_protocol.short_text import shorten
from ao_protocol.wire import JsonObject

WRAPPED: Final = "value"
"""The member that holds a value which is not an object."""
MAX_ERROR_CHARACTERS: Final = 4000


def older_event(body: Body) -> JsonObject | None:
    """Return the fields of an event in the older vocabulary; None if it has no counterpart."""
    match body:
        case Message(role=role, content=content):
            texts = [block.text for block in content if isinstance(block, TextBlock)]
            blocks: list[JsonValue] = [{"type": "text", "text": text} for text in texts]
            return {"event_type": "message", "role": role, "content": blocks} if blocks or not content else None
        case ToolStarted(tool_name=name, tool_input=given):
            return {"event_type": "pre_tool", "tool_name": name, "tool_input": as_object(given)}
        case ToolFinished(tool_name=name, tool_input=given, tool_output=output):
            return {
                "event_type": "post_tool",
                "tool_name": name,
                "tool_input": as_object(given),
                "tool_output": output,
                "error": body.error or (None if body.status == "completed" else body.status),
            }
        case Result(result_text=text, result_data=data):
            wrapped: JsonObject = data if isinstance(data, dict) else {WRAPPED: data}
            return {"event_type": "result", "result_text": text, "result_data": wrapped if text is None else None}
        case _:
            return None


def user_message(blueprint: JsonObject, parameters: JsonObject, *, is_start: bool) -> JsonObject | None:
    """Return the input of an agent as a user message; None for a procedural agent, which reads arguments.

    If the blueprint has a `parameters_schema`, the parameters of a start become the `<inputs>` block, as the agent
    receives them. A resume always has a prompt.
    """
    if blueprint.get("type") == "procedural":
        return None
    prompt = parameters.get("prompt")
    has_schema = is_start and blueprint.get("parameters_schema") is not None
    text = prompt if isinstance(prompt, str) and not has_schema else format_inputs(parameters)
    return {"event_type": "message", "role": "user", "content": [{"type": "text", "text": text}]}


def as_object(value: JsonValue) -> JsonObject | None:
    """Return an object or null unchanged, and any other value as `{"value": …}`."""
    return value if value is None or isinstance(value, dict) else {WRAPPED: value}


def error_text(failure: Failure) -> str:
    """Return a failure as one text: its type, its message and its validation errors, cut after 4,000 characters."""
    error = failure.error
    text = "\n".join([f"{error.type}: {error.message}", *(error.validation_errors or [])])
    return shorten(text, MAX_ERROR_CHARACTERS)

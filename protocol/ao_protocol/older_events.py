"""Events in the older vocabulary of the REST contract: `message`, `pre_tool`, `post_tool`, `result`.

What has no word there is left out: `run_started`, `message_delta`, `output_validation`, `retry_scheduled`, `usage`,
`heartbeat`, `log`, `input_requested` and vendors' events. `session_bound` is a call of its own, and `failure` the end
of the run, so neither is an event there.
"""

from typing import Final

from pydantic import JsonValue

from ao_protocol.events import Body, Failure, Message, Result, ToolFinished, ToolStarted
from ao_protocol.inputs import format_inputs
from ao_protocol.wire import JsonObject

WRAPPED: Final = "value"
"""Under this name stands what had to be made an object of."""
MAX_ERROR_CHARACTERS: Final = 4000


def older_event(body: Body) -> JsonObject | None:
    """Return the fields of an event in the older vocabulary, or None for one that has no place in it."""
    match body:
        case Message(role=role, content=content):
            blocks: list[JsonValue] = [{"type": "text", "text": block.text} for block in content]
            return {"event_type": "message", "role": role, "content": blocks}
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
    """Return what an agent is asked, as a message of the user; None for a procedural agent, which reads arguments.

    A blueprint with a `parameters_schema` turns the parameters of a start into the `<inputs>` block, as the agent
    reads them; a resume always has a prompt.
    """
    if blueprint.get("type") == "procedural":
        return None
    prompt = parameters.get("prompt")
    has_schema = is_start and blueprint.get("parameters_schema") is not None
    text = prompt if isinstance(prompt, str) and not has_schema else format_inputs(parameters)
    return {"event_type": "message", "role": "user", "content": [{"type": "text", "text": text}]}


def as_object(value: JsonValue) -> JsonObject | None:
    """Return an object as it is, anything else as `{"value": …}`, and null as none."""
    return value if value is None or isinstance(value, dict) else {WRAPPED: value}


def error_text(failure: Failure) -> str:
    """Return what a failure is told as, in one text: its type, its message, and what did not validate."""
    error = failure.error
    text = "\n".join([f"{error.type}: {error.message}", *(error.validation_errors or [])])
    return text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[:MAX_ERROR_CHARACTERS]}…"

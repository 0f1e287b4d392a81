"""Events in the older vocabulary of the REST contract: `message`, `pre_tool`, `post_tool`, `result`.

What has no word there is left out: `run_started`, `message_delta`, `output_validation`, `retry_scheduled`, `usage`,
`heartbeat`, `log`, `input_requested` and vendors' events. `session_bound` is a call of its own, and `failure` the end
of the run, so neither is an event there.
"""

from collections import OrderedDict
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import JsonValue

from ao_protocol.events import Body, Failure, Message, Result, ToolFinished, ToolStarted
from ao_protocol.inputs import format_inputs
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import Assignment

WRAPPED: Final = "value"
"""Under this name stands what had to be made an object of."""
MAX_SESSIONS: Final = 4096
MAX_ERROR_CHARACTERS: Final = 4000
_TICK: Final = timedelta(microseconds=1)


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
                "error": _tool_error(body),
            }
        case Result(result_text=text, result_data=data):
            is_data = text is None
            return {
                "event_type": "result",
                "result_text": text,
                "result_data": _as_object_always(data) if is_data else None,
            }
        case _:
            return None


def question_event(assignment: Assignment) -> JsonObject | None:
    """Return what an agent is asked, as a message of the user; None for a procedural agent, which reads arguments."""
    blueprint, run = assignment.session.blueprint, assignment.run
    if blueprint.get("type") == "procedural":
        return None
    prompt = run.parameters.get("prompt")
    has_schema = run.mode == "start" and blueprint.get("parameters_schema") is not None
    text = prompt if isinstance(prompt, str) and not has_schema else format_inputs(run.parameters)
    return {"event_type": "message", "role": "user", "content": [{"type": "text", "text": text}]}


def as_object(value: JsonValue) -> JsonObject | None:
    """Return an object as it is, anything else as `{"value": …}`, and null as none."""
    return None if value is None else _as_object_always(value)


def _as_object_always(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {WRAPPED: value}


def _tool_error(body: ToolFinished) -> str | None:
    return body.error or (None if body.status == "completed" else body.status)


def error_text(failure: Failure) -> str:
    """Return what a failure is told as, in one text: its type, its message, and what did not validate."""
    error = failure.error
    text = "\n".join([f"{error.type}: {error.message}", *(error.validation_errors or [])])
    return text if len(text) <= MAX_ERROR_CHARACTERS else f"{text[:MAX_ERROR_CHARACTERS]}…"


class SessionClocks:
    """Makes timestamps that grow within each session, whose rows a server orders by the text of them.

    All have the same form and length, so their texts sort as the times do. A clock that stepped back is held at the
    last time seen, plus a microsecond each. The sessions heard of least lately are forgotten.
    """

    def __init__(self) -> None:
        self._latest: OrderedDict[str, datetime] = OrderedDict()

    def stamp(self, session_id: str, timestamp: str) -> str:
        """Return an event's own time, or the next one that is later than all of its session before."""
        moment = _moment(timestamp)
        latest = self._latest.pop(session_id, None)
        if latest is not None and moment <= latest:
            moment = latest + _TICK
        self._latest[session_id] = moment
        if len(self._latest) > MAX_SESSIONS:
            self._latest.popitem(last=False)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%f") + "+00:00"


def _moment(timestamp: str) -> datetime:
    # A leap second is legal on the wire and unknown to datetime.
    text = timestamp[:17] + "59.999999Z" if timestamp[17:19] == "60" else timestamp
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return datetime.now(UTC)

"""What an event of core level leaves out, added from what its receiver knows (SPEC 5.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ao_protocol.errors import REFUSALS, RETRYABLE
from ao_protocol.wire import JsonObject


@dataclass(frozen=True, slots=True)
class KnownOfRun:
    """What the receiver of a run's events knows without them.

    Args:
        run_id: The run of the invocation; None if the invocation named none.
        session_id: The session of the invocation; None if it named none.
        executor: `{"name": …, "version": …}` of the description.
        schema_version: The version that was sent.
    """

    run_id: str | None
    session_id: str | None
    executor: Mapping[str, str]
    schema_version: str


_ENVELOPE: Final = frozenset({"event_type", "session_id", "run_id", "seq", "timestamp"})
_WITH_DEFAULTS: Final = frozenset({"run_started", "message", "tool_finished", "result", "failure"})


def complete_event(
    document: JsonObject, known: KnownOfRun, *, seq: int, timestamp: str, open_tools: Mapping[str, str]
) -> JsonObject:
    """Return an event with the defaults of SPEC 5.2 for the fields that it leaves out.

    Nothing that is present is changed, right or wrong, and null counts as present. An event that lacks nothing is
    returned as it is, the same object.

    Args:
        document: The event as it was read.
        known: What the receiver knows of the run.
        seq: The number that the event has if it names none.
        timestamp: When the line was read, RFC 3339 in UTC.
        open_tools: Names of the tool calls that have not finished, by `tool_call_id`.
    """
    if document.keys() >= _ENVELOPE and document.get("event_type") not in _WITH_DEFAULTS:
        return document
    envelope = {"session_id": known.session_id, "run_id": known.run_id, "seq": seq, "timestamp": timestamp}
    missing: dict[str, Any] = {name: value for name, value in envelope.items() if name not in document}
    added = _missing_of_type(document, known, missing.get("seq", document.get("seq")), open_tools)
    added |= _completed_error(document)
    if not missing and not added:
        return document
    # The envelope comes first, as in events that were written whole.
    event_type = {"event_type": document["event_type"]} if "event_type" in document else {}
    return {**event_type, **missing, **document, **added}


def _missing_of_type(
    document: JsonObject, known: KnownOfRun, seq: object, open_tools: Mapping[str, str]
) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    match document.get("event_type"):
        case "run_started":
            defaults = {"schema_version": known.schema_version, "executor": dict(known.executor)}
        case "message":
            defaults = {"message_id": f"msg_{known.run_id}_{seq}", "role": "assistant"}
        case "tool_finished":
            name = open_tools.get(str(document.get("tool_call_id")))
            defaults = {"status": "failed" if isinstance(document.get("error"), str) else "completed"}
            defaults |= {} if name is None else {"tool_name": name}
        case "result" if "result_text" in document or "result_data" in document:
            defaults = {"result_text": None, "result_data": None, "stop_reason": "end_turn"}
        case "failure":
            defaults = {"status": "cancelled" if _error_type(document) == "cancelled" else "failed"}
    return {name: value for name, value in defaults.items() if name not in document}


def _error_type(document: JsonObject) -> str | None:
    error = document.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    return kind if isinstance(kind, str) else None


def _completed_error(document: JsonObject) -> dict[str, Any]:
    """Return the `error` of a failure with its defaults; nothing where it lacks none."""
    error = document.get("error")
    if document.get("event_type") != "failure" or not isinstance(error, dict):
        return {}
    kind = _error_type(document)
    is_refusal = kind in REFUSALS
    defaults: dict[str, Any] = {
        "retryable": kind in RETRYABLE,
        "side_effects": "none" if is_refusal else "possible",
        "origin": "caller" if is_refusal or kind == "cancelled" else "executor",
    }
    return {} if defaults.keys() <= error.keys() else {"error": {**defaults, **error}}

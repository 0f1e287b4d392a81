"""The gate of a run: why its result must not count, by what its events tell and by expressions over its answer.

Only a result comes to the gate: a failure has an exit code of its own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pydantic import JsonValue

from ao_protocol.json_words import shown
from ao_protocol.short_text import shorten_line
from ao_runner.runs.expressions import Expression, NotEvaluated

Kind: TypeAlias = Literal["denied", "unfinished", "fail_if"]
_CUT_OFF: Final = frozenset({"max_tokens", "max_turn_requests", "model_context_window_exceeded"})
_MAX_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason why a result must not count."""

    kind: Kind
    message: str


def reasons_in(events: Iterable[dict[str, Any]]) -> list[Reason]:
    """Return what was denied and what was left unfinished in the events of a run, in order.

    A call that failed is unfinished if nothing of the agent follows it: the end of the run has ended it.
    """
    found: dict[str, Reason] = {}
    last_failed: dict[str, Reason] = {}
    asked: dict[str, tuple[str, str]] = {}
    for event in events:
        match event:
            case {"event_type": "tool_started" | "output_validation"} | {"event_type": "message", "role": "assistant"}:
                last_failed.clear()
            case {"event_type": "tool_finished", "tool_call_id": call, "status": "denied"}:
                found[call] = _reason("denied", _call(event))
            case {"event_type": "tool_finished", "tool_call_id": call, "status": "cancelled"}:
                found.setdefault(call, _reason("unfinished", _call(event, " was cancelled")))
            case {"event_type": "tool_finished", "tool_call_id": call, "status": "failed"}:
                last_failed[call] = _reason("unfinished", _call(event, " failed, and the run ended"))
            case {"event_type": "input_requested", "request_id": request, "title": title}:
                asked[request] = event.get("tool_call_id") or f"request {request}", title
            case {"event_type": "input_resolved", "request_id": request, "outcome": outcome} if outcome != "accepted":
                key, title = asked.get(request, (request, request))
                kind: Kind = "unfinished" if outcome == "cancelled" else "denied"
                found[key] = _reason(kind, f"{title}: the request was {outcome}, by {event['by']}")
            case {"event_type": "_ao/unfinished"}:
                key = str(event.get("tool_call_id", f"work {len(found)}"))
                found[key] = _reason("unfinished", str(event.get("message", "work of the agent")))
            case {"event_type": "result", "stop_reason": stop} if event.get("truncated") or stop in _CUT_OFF:
                found["result"] = Reason("unfinished", f"the answer was cut off ({stop})")
    return list({**last_failed, **found}.values())


def _call(event: dict[str, Any], what: str = "") -> str:
    given = f" {shown(event['tool_input'])}" if event.get("tool_input") is not None else ""
    return f"{event['tool_name']}{given}{what}" + (f": {event['error']}" if event.get("error") else "")


def _reason(kind: Kind, text: str) -> Reason:
    return Reason(kind, shorten_line(text, _MAX_CHARACTERS))


def verdict_of(expression: Expression, answer: JsonValue) -> Reason | None:
    """Return why an expression refuses an answer: unless it is false. Nothing but true and false is a verdict."""
    try:
        value = expression.evaluate(answer)
    except NotEvaluated as error:
        return Reason("fail_if", f"{expression.text} has no value: {error}")
    if value is False:
        return None
    advice = f"; for a list write: length({expression.text}) > `0`" if isinstance(value, list) else ""
    what = "true" if value is True else f"neither true nor false, but {shown(value)}{advice}"
    return Reason("fail_if", f"{expression.text} is {what}")

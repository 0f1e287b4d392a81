"""Event lines, as a worker hands them to a coordinator."""

import json
from typing import Any

from ao_runner.coordinators.port import EventBatch
from ao_runner.run_events import RunKey


def line(event_type: str, seq: int, /, run: str = "run_1", session: str = "ses_1", **fields: Any) -> bytes:
    """Return an event; `timestamp` may stand among the fields."""
    envelope = {"event_type": event_type, "session_id": session, "run_id": run, "seq": seq}
    return json.dumps({**envelope, "timestamp": "2026-01-10T12:00:00Z", **fields}).encode()


def said(seq: int, text: str, /, run: str = "run_1", session: str = "ses_1") -> bytes:
    """Return a message of the assistant's."""
    content = [{"type": "text", "text": text}]
    return line("message", seq, run, session, message_id=f"msg_{seq}", role="assistant", content=content)


def asked(seq: int, request_id: str, /, run: str = "run_1", session: str = "ses_1") -> bytes:
    """Return a request to a person."""
    options = [{"id": one, "label": one, "effect": one} for one in ("allow", "deny")]
    fields: dict[str, Any] = {"kind": "permission", "title": "May I?", "options": options}
    return line("input_requested", seq, run, session, request_id=request_id, **fields)


def result(seq: int, text: str | None = "done", /, run: str = "run_1", session: str = "ses_1", **fields: Any) -> bytes:
    """Return a terminal event of a run that went well."""
    everything = {"result_text": text, "result_data": None, "stop_reason": "end_turn", **fields}
    return line("result", seq, run, session, **everything)


def failure(seq: int, status: str = "failed", /, run: str = "run_1", session: str = "ses_1", **fields: Any) -> bytes:
    """Return a terminal event of a run that did not."""
    kind = "cancelled" if status == "cancelled" else "rate_limited"
    error = {"type": kind, "message": "no more", "retryable": True, "side_effects": "none", "origin": "provider"}
    return line("failure", seq, run, session, status=status, error=error | fields)


def batch(first_seq: int, *lines: bytes, run: str = "run_1") -> EventBatch:
    """Return events of the first attempt at a run."""
    return EventBatch(RunKey(run, 1), first_seq, lines)

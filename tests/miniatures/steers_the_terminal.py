#!/usr/bin/env python3
"""Every text of it holds sequences and characters that steer a terminal. Its prompt says how it ends."""

import sys
from typing import Any

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

STEERING = "seen\x1b]52;c;aGk=\x07\x1b[2J\x1b[31mred\x9b2J\x9d52;c;aGk=\x9c\x1b]8;;http://h\x1b\\\b\b\x7f\rover\u202ekcab\u2066\x1bc\x90q"


class Steerer(Speaker):  # type: ignore[misc]  # its base is not known to mypy
    def description(self, capabilities: dict[str, Any]) -> dict[str, Any]:
        schema = {"type": "object", "title": STEERING, "properties": {"p": {"description": STEERING}}}
        return {
            **super().description(capabilities),
            "executor": {"name": STEERING, "version": STEERING},
            "config_schema": schema,
            "secrets": ["MINIATURE_KEY"],
            STEERING: STEERING,
        }


speaker = Steerer(resume=True, input=True, input_parking=True, tools=True)
prompt = speaker.invocation["prompt"]
content = [{"type": "text", "text": STEERING}]
speaker.say("run_started", schema_version="3.0", executor={"name": STEERING, "version": STEERING})
speaker.say("session_bound", executor_session_id=STEERING, model=STEERING, project_dir=STEERING)
speaker.say("message_delta", message_id=STEERING, role="assistant", content=content)
speaker.say("message", message_id=STEERING, role="assistant", content=content)
speaker.say("tool_started", tool_call_id=STEERING, tool_name=STEERING, tool_input={STEERING: STEERING})
speaker.say(
    "tool_finished", tool_call_id=STEERING, tool_name=STEERING, status="failed", tool_output=STEERING, error=STEERING
)
reason = {"type": STEERING, "message": STEERING}
speaker.say("retry_scheduled", error=reason, attempt=1, delay_seconds=0.1)
speaker.say("log", level="error", message=STEERING)
speaker.say("_steering/event", **{STEERING: STEERING})
print(STEERING, file=sys.stderr)
if prompt == "ask":
    speaker.say(
        "input_requested",
        request_id="req_1",
        kind=STEERING,
        title=STEERING,
        options=[{"id": STEERING, "label": STEERING, "effect": "allow"}, {"id": "no", "label": "no", "effect": "deny"}],
        tool_input={STEERING: STEERING},
        expires_at=None,
    )
    speaker.read_line()
    speaker.say("input_resolved", request_id="req_1", outcome="expired", by="timeout")
    speaker.failure("failed", "input_required", STEERING)
    sys.exit(1)
if prompt == "fail":
    fields = {"details": {"stderr_tail": STEERING, STEERING: STEERING}, "validation_errors": [STEERING] * 2}
    known = {"retryable": False, "side_effects": "none", "origin": "caller"}
    speaker.say("failure", status="failed", error={"type": STEERING, "message": STEERING, **known, **fields})
    sys.exit(1)
if prompt == "data":
    speaker.say("result", result_text=None, result_data={STEERING: [STEERING]}, stop_reason=STEERING)
else:
    speaker.result(STEERING)

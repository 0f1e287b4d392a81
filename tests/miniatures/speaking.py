"""What the miniatures share: just enough of the protocol to break it at one point. Standard library only.

A miniature is an executor named after its fault, small enough to be read at a glance.
"""

import json
import sys
from datetime import UTC, datetime
from typing import Any


class Speaker:
    """Describes itself when asked to; otherwise it has read its invocation and can speak."""

    def __init__(self, **capabilities: Any) -> None:
        if sys.argv[1:] == ["describe"]:
            print(json.dumps(self.description(capabilities)))
            sys.exit(0)
        self.invocation: dict[str, Any] = json.loads(self.read_line())
        self.seq = 0

    def description(self, capabilities: dict[str, Any]) -> dict[str, Any]:
        return {
            "schema_versions": ["3.0"],
            "executor": {"name": "miniature", "version": "1"},
            "agent_types": ["autonomous", "procedural"],
            "capabilities": capabilities,
            "secrets": ["MINIATURE_KEY"],
            "environment": ["MINIATURE_URL"],
            "model_endpoint": {"anthropic": {"env": "MINIATURE_URL", "api_key_env": "MINIATURE_KEY"}},
        }

    def read_line(self) -> bytes:
        return sys.stdin.buffer.readline()

    def event(self, event_type: str, **fields: Any) -> dict[str, Any]:
        self.seq += 1
        envelope = {"event_type": event_type, "seq": self.seq, "timestamp": _now()}
        ids = {name: self.invocation[name] for name in ("run_id", "session_id")}
        return {**envelope, **ids, **fields}

    def say(self, event_type: str, **fields: Any) -> None:
        write(json.dumps(self.event(event_type, **fields)).encode() + b"\n")

    def start(self) -> None:
        self.say("run_started", schema_version="3.0", executor={"name": "miniature", "version": "1"})

    def result(self, text: str = "done") -> None:
        self.say("result", result_text=text, result_data=None, stop_reason="end_turn")

    def cancelled(self, message: str) -> None:
        self.failure("cancelled", "cancelled", message)

    def failure(self, status: str, error_type: str, message: str) -> None:
        error = {"type": error_type, "message": message, "retryable": False, "side_effects": "none", "origin": "caller"}
        self.say("failure", status=status, error=error)


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")

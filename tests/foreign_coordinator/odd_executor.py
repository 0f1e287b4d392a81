"""An executor that does what its prompt says, in the protocol of the existing runner or in ours. Standard library only.

`forever`, `nothing`, `garbage`, `stubborn`, `fail`, `leave_child`, `slow N`, `flood_stdout`, `flood_stderr` and
`events N`; anything else is echoed.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from typing import Any

KILOBYTE = b"x" * 1023 + b"\n"


class Existing:
    """The invocation is on stdin, then one line per turn if it stays; all else goes to the runner's gateway."""

    def __init__(self) -> None:
        invocation = json.loads(sys.stdin.buffer.readline())
        self._stays = "stays" in invocation.get("executor_config", {})
        self.prompt: str = invocation["parameters"]["prompt"]
        self.session_id: str = invocation["session_id"]
        if invocation["mode"] == "start":
            binding = {"session_id": self.session_id, "executor_session_id": f"odd-{self.session_id}"}
            self._post("/bind", {**binding, "project_dir": str(invocation["project_dir"])})

    def has_another_turn(self) -> bool:
        """Say that a turn is complete, and read the next one."""
        if not self._stays:
            return False
        sys.stdout.write('{"type": "turn_complete"}\n')
        sys.stdout.flush()
        turn = json.loads(sys.stdin.buffer.readline() or b"{}")
        self.prompt = turn.get("parameters", {}).get("prompt", "")
        return bool(turn.get("type") == "turn")

    def message(self, text: str) -> None:
        self._event("message", role="assistant", content=[{"type": "text", "text": text}])

    def result(self, text: str) -> None:
        self._event("result", result_text=text)

    def fail(self) -> None:
        sys.exit("it was told to fail")

    def _event(self, event_type: str, **fields: Any) -> None:
        at = datetime.now(UTC).isoformat()
        self._post("/events", {"event_type": event_type, "session_id": self.session_id, "timestamp": at, **fields})

    def _post(self, path: str, body: dict[str, Any]) -> None:
        url = os.environ["AGENT_ORCHESTRATOR_API_URL"] + path
        headers = {"content-type": "application/json"}
        urllib.request.urlopen(  # noqa: S310  # an address of this machine
            urllib.request.Request(url, json.dumps(body).encode(), headers),  # noqa: S310
            timeout=60,
        ).read()


class Ours:
    """The same in version 3.0 of the protocol."""

    def __init__(self) -> None:
        executor = {"name": "odd", "version": "1"}
        if sys.argv[1:] == ["describe"]:
            description = {"schema_versions": ["3.0"], "executor": executor, "capabilities": {"resume": True}}
            sys.stdout.write(json.dumps(description))
            sys.exit(0)
        self._invocation = json.loads(sys.stdin.buffer.readline())
        self._seq = 0
        self.prompt: str = self._invocation["parameters"]["prompt"]
        self._event("run_started", schema_version="3.0", executor=executor)
        self._event("session_bound", executor_session_id=f"odd-{self._invocation['session_id']}")

    def has_another_turn(self) -> bool:
        return False

    def message(self, text: str) -> None:
        content = [{"type": "text", "text": text}]
        self._event("message", role="assistant", message_id=f"msg_{self._seq}", content=content)

    def result(self, text: str) -> None:
        self._event("result", result_text=text, result_data=None, stop_reason="end_turn")

    def fail(self) -> None:
        error = {"type": "internal_error", "message": "it was told to fail", "retryable": False}
        self._event("failure", status="failed", error={**error, "side_effects": "none", "origin": "executor"})

    def _event(self, event_type: str, **fields: Any) -> None:
        self._seq += 1
        ids = {name: self._invocation[name] for name in ("run_id", "session_id")}
        at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        line = json.dumps({"event_type": event_type, "seq": self._seq, "timestamp": at, **ids, **fields})
        sys.stdout.buffer.write(line.encode() + b"\n")
        sys.stdout.buffer.flush()


def perform(run: Existing | Ours) -> None:
    """Do what the prompt says."""
    word, _, number = run.prompt.partition(" ")
    match word:
        case "fail":
            run.fail()
        case "nothing":
            pass
        case "garbage":
            sys.stdout.write("no JSON at all\n")
        case "forever" | "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN if word == "stubborn" else signal.SIG_DFL)
            while True:
                signal.pause()
        case "events":
            for count in range(int(number)):
                run.message(f"message {count}")
            run.result("said")
        case _:
            work(word, number)
            run.result(f"odd: {run.prompt}")


def work(word: str, number: str) -> None:
    """Do something before the result."""
    if word == "slow":
        time.sleep(float(number))
    elif word == "leave_child":
        subprocess.Popen(["sleep", "21"], stdin=subprocess.DEVNULL)  # noqa: S607
    elif word.startswith("flood_"):
        stream = sys.stdout.buffer if word == "flood_stdout" else sys.stderr.buffer
        for _ in range(200 * 1024):
            stream.write(KILOBYTE)
        stream.flush()


def main(dialect: str) -> None:
    """Be an executor that speaks `existing` or `ao`."""
    run = Existing() if dialect == "existing" else Ours()
    perform(run)
    while run.has_another_turn():
        perform(run)

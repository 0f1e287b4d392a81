"""The tools that the model may use: `Bash` runs a command in the project directory, `Write` writes a file there."""

import os
from typing import Any

import programs
from errors import RunFailed
from events import Emitter
from person import PERMISSIONS, Requests
from watch import IN, Watch

DECLARED = [
    {
        "name": "Bash",
        "description": "Runs a command in the project directory.",
        "input_schema": {"type": "object", "required": ["command"], "properties": {"command": {"type": "string"}}},
    },
    {
        "name": "Write",
        "description": "Writes a text file.",
        "input_schema": {
            "type": "object",
            "required": ["file_path", "content"],
            "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}},
        },
    },
]
MAX_OUTPUT_BYTES = 8 * 1024 * 1024


class Outcome:
    """How a tool ended: what it said, and `error` where it failed."""

    def __init__(self, output: str, error: str | None) -> None:
        self.output, self.error = output, error


class Toolbox:
    """Performs tool uses, each with its pair of events.

    `has_started` says that something may have been changed, `access` what needs no question; None: nothing where
    somebody answers, else everything.
    """

    def __init__(self, emitter: Emitter, watch: Watch, requests: Requests) -> None:
        self._emitter, self._watch, self._requests = emitter, watch, requests
        self._count = 0
        self.access: str | None = None
        self.has_started = False

    def begin(self) -> None:
        """Begin another run."""
        self._count = 0
        self.has_started = False

    def perform(self, use: dict[str, Any]) -> dict[str, Any]:
        """Do what the model wants and return the `tool_result` block for it.

        Raises:
            RunFailed: the run ended while the tool was at work.
        """
        self._count += 1
        call = {"tool_call_id": f"call_{self._count}", "tool_name": str(use.get("name") or "unnamed")}
        self.has_started = True
        self._emitter.emit("tool_started", **call, tool_input=use.get("input"))
        try:
            if not self._may(use, call):
                denial = "nobody allowed it"
                self._emitter.emit("tool_finished", **call, status="denied", error=denial)
                return tool_result(use, denial, is_error=True)
            outcome = self._outcome_of(use.get("name"), use.get("input"))
        except RunFailed:
            self._emitter.emit("tool_finished", **call, status="cancelled")
            raise
        status = "completed" if outcome.error is None else "failed"
        error = {} if outcome.error is None else {"error": outcome.error}
        self._emitter.emit("tool_finished", **call, status=status, tool_output=outcome.output, **error)
        said = outcome.output if outcome.error is None else f"{outcome.error}\n{outcome.output}"
        return tool_result(use, said, is_error=outcome.error is not None)

    def _may(self, use: dict[str, Any], call: dict[str, str]) -> bool:
        name, given = call["tool_name"], use.get("input")
        if self.access == "all" or (self.access == "edit" and name == "Write" and _is_in_the_project(given)):
            return True
        if not self._requests.is_open:
            return self.access is None
        asked = {"request_id": str(use.get("id")), "kind": "permission", "title": f"May {name} be used?"}
        waiting = {"tool_call_id": call["tool_call_id"], "tool_input": given}
        return self._requests.ask({**asked, "options": PERMISSIONS, **waiting}) == "accepted"

    def _outcome_of(self, name: Any, given: Any) -> Outcome:
        match name, given:
            case "Bash", {"command": str(command)}:
                return self._bash(command)
            case "Write", {"file_path": str(path), "content": str(content)}:
                return _write(path, content)
        return Outcome("", f"there is no tool {name!r} that takes this input")

    def _bash(self, command: str) -> Outcome:
        try:
            program = programs.start(["sh", "-c", command], programs.bare_environment())
        except (OSError, ValueError) as error:
            return Outcome("", f"the command does not start: {error}")
        said = bytearray()
        waits = {program.stdout: IN, program.exited: IN}
        try:
            while program.exited not in self._watch.attend(waits, "tool"):
                if not _take(program.stdout, said):
                    del waits[program.stdout]
            while _take(program.stdout, said):
                pass
        except RunFailed:
            program.end(min(programs.TERM_SECONDS, self._watch.grace_seconds / 4))
            raise
        code = program.reap()
        return Outcome(said.decode(errors="replace"), None if code == 0 else f"exit code {code}")


def tool_result(use: dict[str, Any], said: str, *, is_error: bool = False) -> dict[str, Any]:
    """Return what the model is told of a tool use."""
    content = said or "(no output)"
    return {"type": "tool_result", "tool_use_id": use.get("id"), "content": content, "is_error": is_error}


def _take(descriptor: int, said: bytearray) -> bool:
    try:
        chunk = os.read(descriptor, 65536)
    except BlockingIOError:
        return False
    said += chunk[: MAX_OUTPUT_BYTES - len(said)]
    return bool(chunk)


def _is_in_the_project(given: Any) -> bool:
    path = given.get("file_path") if isinstance(given, dict) else None
    return isinstance(path, str) and os.path.realpath(path).startswith(os.path.realpath(".") + os.sep)


def _write(path: str, content: str) -> Outcome:
    try:
        written = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        with os.fdopen(written, "w", encoding="utf-8", errors="replace") as file:
            file.write(content)
    except (OSError, ValueError) as error:
        return Outcome("", f"{path} cannot be written: {error}")
    return Outcome(f"{path} is written", None)

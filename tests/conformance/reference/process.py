"""The life of the process: parked, prepared, the first run, turns, and the end of all that it started."""

import os
from collections.abc import Mapping
from typing import Any

import programs
from control import Control
from description import SECRETS
from errors import RunFailed
from events import Emitter
from ijson import NotIJson, decode_object
from mcp import McpServers
from run import Runs
from stdin import MAX_LINE_BYTES, LineTooLong, Stdin, is_blank
from versions import version_of
from watch import Watch

OF_ONE_RUN = {"run_id", "session_id", "parameters", "prompt", "attachments", "requires", "metadata"}


class Process:
    """One process of the executor, which writes its events to `stdout`."""

    def __init__(self, stdout: int, environment: Mapping[str, str]) -> None:
        self._stdin = Stdin(0)
        self._emitter = Emitter(stdout, [environment.get(name, "") for name in SECRETS])
        self._control = Control(self._stdin)
        self._watch = Watch(self._emitter, self._stdin, self._control)
        self._servers = McpServers(self._watch)
        self._runs = Runs(self._emitter, self._watch, self._control, self._servers, environment)
        self._prepared: dict[str, Any] | None = None

    def live(self) -> int:
        """Return the exit code."""
        try:
            code = self._first_run()
            while self._stays() and (turn := self._next_turn()):
                code = self._runs.turn(turn)
        except BrokenPipeError:
            code = 1
        finally:
            self._servers.end()
            programs.end_strays()
        return code

    def _first_run(self) -> int:
        while True:
            try:
                line = self._next_line()
                if line is None:
                    return 0
                document = decode_object(line)
            except LineTooLong:
                message = f"the line is longer than {MAX_LINE_BYTES} bytes; send less"
                details = {"limit_bytes": MAX_LINE_BYTES}
                return self._runs.refuse_line(RunFailed("invocation_too_large", message, details=details))
            except NotIJson as fault:
                message = f"the line is not acceptable as I-JSON: {fault.reason}; correct it"
                return self._runs.refuse_line(RunFailed("invalid_json", message, details={"reason": fault.reason}))
            if document.get("type") == "prepare" and self._prepared is None:
                self._prepare(document.get("invocation"))
                continue
            self._keep_only_what_agrees(document)
            return self._runs.first(document)

    def _next_line(self) -> bytes | None:
        """Return the next line that is not blank, or None where a process that waits is to leave."""
        while not self._watch.is_terminated:
            line = self._stdin.take_line()
            if line is None and self._stdin.has_ended:
                rest = self._stdin.take_rest()
                return None if is_blank(rest) else rest
            if line is None:
                self._watch.idle()
                if not self._watch.is_terminated:
                    self._stdin.fill()
            elif not is_blank(line):
                return line
        return None

    def _prepare(self, invocation: Any) -> None:
        """Connect what a run of this invocation would need; a failure is left for the run to say."""
        self._prepared = invocation if isinstance(invocation, dict) else {}
        servers = (self._prepared.get("agent_blueprint") or {}).get("mcp_servers") or {}
        here = os.getcwd()  # noqa: PTH109
        try:
            version_of(self._prepared)
            os.chdir(self._prepared.get("project_dir") or here)
            self._servers.connect(servers)
        except (RunFailed, OSError, ValueError, AttributeError, KeyError, TypeError):
            self._servers.end()
        finally:
            os.chdir(here)

    def _keep_only_what_agrees(self, document: dict[str, Any]) -> None:
        if self._prepared is not None and _of_every_run(document) != _of_every_run(self._prepared):
            self._servers.end()

    def _stays(self) -> bool:
        is_over = self._control.is_shut_down or self._control.runner_is_gone or self._watch.is_terminated
        return self._control.takes_turns and not is_over and self._runs.can_go_on

    def _next_turn(self) -> dict[str, Any] | None:
        """Return the next turn, or None when there will be none."""
        while True:
            self._control.is_cancelled = False
            if self._control.turns:
                return self._control.turns.popleft()
            self._control.take_lines()
            if self._control.turns:
                continue
            if self._control.is_cancelled:
                continue
            if self._control.is_shut_down or self._watch.is_terminated or self._stdin.has_ended:
                return None
            self._watch.idle()


def _of_every_run(invocation: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in invocation.items() if name not in OF_ONE_RUN}
    metadata = invocation.get("metadata")
    return kept | {"traceparent": metadata.get("traceparent") if isinstance(metadata, dict) else None}

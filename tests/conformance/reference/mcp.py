"""The MCP servers of a blueprint, started or connected just far enough to know that they answer (AOX-052)."""

import json
import os
from typing import Any

import programs
from errors import RunFailed
from http_exchange import ConnectionCut, HttpExchange
from ijson import NotIJson, decode_object
from watch import IN, Watch

START_SECONDS = 5.0
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "ao-reference-exec", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class McpServers:
    """The servers that are connected. They stay until `end`."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._programs: list[programs.Program] = []
        self.are_connected = False

    @property
    def have_started(self) -> bool:
        """Say whether a program was started, which may have changed something."""
        return bool(self._programs)

    def connect(self, servers: dict[str, Any]) -> None:
        """Connect all servers, once.

        Raises:
            RunFailed: one of them does not answer, or the run ended before.
        """
        if self.are_connected:
            return
        for name, server in servers.items():
            if server.get("type", "stdio") == "stdio":
                self._start(name, server)
            else:
                self._reach(name, server)
        self.are_connected = True

    def end(self) -> None:
        """End all programs."""
        for program in self._programs:
            program.end()
        self._programs = []
        self.are_connected = False

    def _start(self, name: str, server: dict[str, Any]) -> None:
        argv = [server["command"], *server.get("args", [])]
        try:
            program = programs.start(argv, programs.bare_environment() | server.get("env", {}), is_fed=True)
        except (OSError, ValueError) as error:
            raise _unavailable(name, f"{server['command']!r} does not start ({error})") from None
        self._programs.append(program)
        said = b""
        try:
            self._tell(program, INITIALIZE)
            while not _has_answered(said):
                if program.stdout not in self._watch.attend({program.stdout: IN}, "idle", START_SECONDS):
                    raise _unavailable(name, f"it did not answer within {START_SECONDS:g} s")
                chunk = os.read(program.stdout, 65536)
                if not chunk:
                    raise _unavailable(name, "it ended before it answered")
                said += chunk
            self._tell(program, INITIALIZED)
        except OSError as error:
            raise _unavailable(name, f"it takes nothing on stdin ({error})") from None

    def _tell(self, program: programs.Program, message: dict[str, Any]) -> None:
        assert program.stdin is not None
        os.write(program.stdin, json.dumps(message).encode() + b"\n")

    def _reach(self, name: str, server: dict[str, Any]) -> None:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers |= server.get("headers", {})
        method, body = ("GET", b"") if server["type"] == "sse" else ("POST", json.dumps(INITIALIZE).encode())
        try:
            with HttpExchange(self._watch, server["url"], "idle") as exchange:
                exchange.send(method, exchange.path or "/", headers, body)
                status, _ = exchange.head()
        except ConnectionCut as cut:
            raise _unavailable(name, str(cut)) from None
        if status >= 400:
            raise _unavailable(name, f"it answered {status}")


def _has_answered(said: bytes) -> bool:
    for line in said.split(b"\n")[:-1]:
        try:
            message = decode_object(line)
        except NotIJson:
            continue
        if message.get("id") == 1 and "result" in message:
            return True
    return False


def _unavailable(name: str, why: str) -> RunFailed:
    return RunFailed(
        "mcp_server_unavailable", f"the MCP server {name!r} is not to be had: {why}; correct the blueprint"
    )

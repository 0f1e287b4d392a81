"""Connect to the blueprint's MCP servers before the agent does, which reports no failure of them (AOX-052).

A server is only asked to initialize. One that is a program is started twice: here, and by the agent.
"""

import asyncio
import json
import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final

from ao_executors.acp.agent_rows import AgentRow
from ao_executors.core import RunFailed, Task
from ao_executors.core.json_rpc import running
from ao_executors.core.program import Program
from ao_executors.vendors.mcp_servers import (
    McpServer,
    blueprint_servers,
    unavailable_servers,
    unexpanded,
    warn_of_unavailable,
    without_secrets,
)
from ao_protocol.documents import RemoteMcpServer, StdioMcpServer

_CONNECT_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 1.0
_STDERR_BYTES: Final = 2048
_INITIALIZE: Final = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "ao-acp-exec", "version": "1"},
}


async def usable_servers(agent: AgentRow, task: Task, agent_takes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the blueprint's MCP servers for `session/new`, without those that are not required and not available.

    Args:
        agent: The row with the secrets, which no server gets.
        task: The task.
        agent_takes: The agent's `mcpCapabilities`.

    Raises:
        RunFailed: A required server is not available (`mcp_server_unavailable`); `details.servers` has the reasons.
    """
    servers = blueprint_servers(task.invocation)
    problems = await asyncio.gather(*(_problem_of(agent, task, server, agent_takes) for server in servers.values()))
    broken = unavailable_servers(servers, dict(zip(servers, problems, strict=True)))
    warn_of_unavailable(task.events, broken)
    return [_entry(agent, name, server) for name, server in servers.items() if name not in broken]


def _entry(agent: AgentRow, name: str, server: McpServer) -> dict[str, Any]:
    entry: dict[str, Any]
    if isinstance(server, RemoteMcpServer):
        headers = [{"name": header, "value": value} for header, value in server.headers.items()]
        entry = {"type": server.type, "name": name, "url": server.url, "headers": headers}
    else:
        given = without_secrets(server, (*agent.credentials, *agent.secrets))
        env = [{"name": variable, "value": value} for variable, value in given.items()]
        entry = {"name": name, "command": server.command, "args": server.args, "env": env}
    return unexpanded(entry) if agent.expands_variables else entry


async def _problem_of(agent: AgentRow, task: Task, server: McpServer, agent_takes: Mapping[str, Any]) -> str | None:
    if isinstance(server, StdioMcpServer):
        return await _problem_of_program(agent, task, server)
    if agent_takes.get(server.type) is not True:
        return f"the agent does not connect to servers of type {server.type}"
    return await asyncio.to_thread(_problem_of_url, server)


async def _problem_of_program(agent: AgentRow, task: Task, server: StdioMcpServer) -> str | None:
    program = shutil.which(server.command)
    if program is None:
        return f"there is no executable {server.command!r}"
    started = Program(
        [program, *server.args],
        cwd=task.project_dir,
        env={**os.environ, **without_secrets(server, (*agent.credentials, *agent.secrets))},
        stop_seconds=_STOP_SECONDS,
        max_stderr_bytes=_STDERR_BYTES,
        takes_input=True,
    )
    async with running(started, "the server") as peer:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await peer.call("initialize", dict(_INITIALIZE), bool)
        except RunFailed as failure:
            return failure.message
        except TimeoutError:
            return "did not connect in time"
    return None


def _problem_of_url(server: RemoteMcpServer) -> str | None:
    """Return why a server does not answer. Of one of type `sse`, only the beginning of the stream is awaited."""
    accepted = "text/event-stream"
    body = None
    if server.type == "http":
        accepted = f"application/json, {accepted}"
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _INITIALIZE}).encode()
    headers = {**server.headers, "Accept": accepted, "Content-Type": "application/json"}
    request = urllib.request.Request(server.url, body, headers)  # noqa: S310  # the document's model wants http(s)
    try:
        with urllib.request.urlopen(request, timeout=_CONNECT_SECONDS):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        return f"it answered {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        return f"it cannot be reached, or is no HTTP server: {error}"

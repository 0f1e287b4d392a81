"""The MCP servers of a blueprint: what their entries contain, and what happens if one is not available."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from ao_executors.core import Emitter, RunFailed
from ao_protocol.documents import Invocation, RemoteMcpServer, StdioMcpServer
from ao_protocol.errors import ErrorType
from ao_protocol.wire import JsonObject, map_texts

McpServer: TypeAlias = StdioMcpServer | RemoteMcpServer

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9-]+")
_DOLLAR: Final = "${AO_UNSET_VARIABLE:-$}"
"""The Claude CLI replaces this text by a dollar sign, the default of an unset variable, and expands no result."""


def blueprint_servers(invocation: Invocation) -> Mapping[str, McpServer]:
    """Return the MCP servers of the blueprint by name.

    A name is a part of the names of tools, and of the rules that allow them. What agents do not take there, or take as
    the end of the name, is one `_`.
    """
    blueprint, servers = invocation.agent_blueprint, dict[str, McpServer]()
    for name, server in ((blueprint and blueprint.mcp_servers) or {}).items():
        plain = _NOT_IN_NAMES.sub("_", name)
        servers[plain if plain not in servers else f"{plain}-{len(servers)}"] = server
    return servers


def without_secrets(server: StdioMcpServer, secrets: Iterable[str]) -> dict[str, str]:
    """Return the variables of a server that inherits an environment: `secrets` are empty unless it is given them."""
    return dict.fromkeys(secrets, "") | server.env


def unavailable_servers(servers: Mapping[str, McpServer], faults: Mapping[str, str | None]) -> dict[str, str]:
    """Return the reasons of the servers that are not available and not required, sorted by name.

    Args:
        servers: The servers of the blueprint.
        faults: By name: why a server is not available; None if it is.

    Raises:
        RunFailed: A required server is unavailable (`mcp_server_unavailable`); `details.servers` has the reasons.
    """
    broken = {name: why for name, why in sorted(faults.items()) if why is not None}
    missing = {name: why for name, why in broken.items() if servers[name].required}
    if missing:
        told = "; ".join(f"{name}: {why}" for name, why in missing.items())
        raise RunFailed(
            ErrorType.MCP_SERVER_UNAVAILABLE,
            f"MCP servers of the blueprint are not available: {told}",
            origin="environment",
            extra={"details": {"servers": missing}},
        )
    return broken


def warn_of_unavailable(events: Emitter, reasons: Mapping[str, str]) -> None:
    """Write a warning for each server without which the run continues."""
    for name, why in reasons.items():
        events.warn(f"MCP server {name} is not available, and the run continues without it: {why}")


def unexpanded(entry: JsonObject) -> JsonObject:
    """Return a server's entry whose texts are what they were when the Claude CLI has expanded them.

    The CLI expands `${NAME}` in every text of an entry, URLs and headers included, so that a blueprint could write a
    secret of the CLI's environment into an argument (AOX-198).
    """
    written = {name: map_texts(value, _escaped) for name, value in entry.items()}
    if "headers" in written:
        written["headers"] = map_texts(written["headers"], _escaped)  # the CLI expands them again when it connects
    return written


def _escaped(text: str) -> str:
    return text.replace("${", _DOLLAR + "{")

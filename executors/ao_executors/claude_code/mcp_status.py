"""MCP servers before the first question: the CLI goes on without one that is broken, a run only if it may."""

import asyncio
from typing import Final

from ao_executors.claude_code.sdk import ClaudeSDKClient
from ao_executors.core.failures import RunFailed
from ao_executors.core.task import Setting
from ao_protocol.errors import ErrorType

_CONNECT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.05


async def check_mcp_servers(client: ClaudeSDKClient, setting: Setting) -> dict[str, str]:
    """Wait until every MCP server of the blueprint is connected, and return what is wrong with those that need not be.

    Raises:
        RunFailed: `mcp_server_unavailable`, naming the required servers and what the CLI says of them.
    """
    blueprint = setting.invocation.agent_blueprint
    wanted = (blueprint.mcp_servers or {}) if blueprint is not None else {}
    if not wanted:
        return {}
    broken = dict.fromkeys(wanted, "did not connect in time")
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            while broken:
                status = await client.get_mcp_status()
                states = {server["name"]: server for server in status["mcpServers"]}
                broken = {
                    name: str(states[name].get("error") or states[name]["status"]) if name in states else "is unknown"
                    for name in wanted
                    if name not in states or states[name]["status"] != "connected"
                }
                if not any(name in states and states[name]["status"] == "pending" for name in broken):
                    break
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        pass
    missing = {name: why for name, why in broken.items() if wanted[name].required}
    if missing:
        told = "; ".join(f"{name}: {why}" for name, why in sorted(missing.items()))
        raise RunFailed(
            ErrorType.MCP_SERVER_UNAVAILABLE,
            f"MCP servers of the blueprint are not available: {told}",
            origin="environment",
            extra={"details": {"servers": dict(sorted(missing.items()))}},
        )
    return dict(sorted(broken.items()))

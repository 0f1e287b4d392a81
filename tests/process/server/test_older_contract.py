"""The older contract, as a real server of it has answered (tests/foreign_coordinator/recorded.json), asked of ao serve.

Statuses are the same, and every recorded field is there. What differs on purpose is listed, with the reason.
"""

from collections.abc import Iterator
from typing import Any, Final

from tests.foreign_coordinator.recording import load

Exchange = dict[str, Any]
EXCHANGES: Final[list[Exchange]] = load()["exchanges"]
SCHEMA: Final = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
SHELF: Final = {"type": "http", "url": "http://127.0.0.1:9501/mcp", "headers": {"X-Partition": "${runtime.session_id}"}}
TOOLS: Final = {"type": "http", "url": "${runner.orchestrator_mcp_url}"}
AGENTS: Final = (
    {
        "name": "recorded-tools",
        "description": "d",
        "system_prompt": "You are in ${runtime.session_id}.",
        "mcp_servers": {"shelf": SHELF, "tools": TOOLS},
    },
    {"name": "recorded-typed", "description": "d", "parameters_schema": SCHEMA, "output_schema": SCHEMA},
)
NOT_ASKED: Final = {
    "agent with MCP servers": "agents contain their MCP servers; there is no registry of them",
}
OTHERWISE: Final[dict[str, tuple[int, str]]] = {}


def flat(exchanges: list[Exchange]) -> Iterator[Exchange]:
    for exchange in exchanges:
        yield from flat(exchange.get("meanwhile", []))
        yield exchange

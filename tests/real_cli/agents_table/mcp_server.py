"""A small MCP server with one tool, over stdio and over HTTP.

usage: mcp_server.py TOOL ANSWER
"""

import json
import sys
from typing import Any

Document = dict[str, Any]


def result_of(message: Document, tool: str, answer: str) -> Document:
    """Return the result of a request to a server whose only tool always gives the same answer."""
    match message.get("method"):
        case "initialize":
            version = message["params"].get("protocolVersion", "2025-06-18")
            info = {"name": tool, "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            schema = {"type": "object", "properties": {"item": {"type": "string"}}, "additionalProperties": False}
            return {"tools": [{"name": tool, "description": "Looks up an item.", "inputSchema": schema}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": answer}]}
        case _:
            return {}


def reply_to(message: Document, tool: str, answer: str) -> Document | None:
    """Return the response to a message; None for a notification."""
    if "id" not in message:
        return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message, tool, answer)}


if __name__ == "__main__":
    for line in sys.stdin:
        if (reply := reply_to(json.loads(line), *sys.argv[1:])) is not None:
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()

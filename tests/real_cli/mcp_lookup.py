"""An MCP server with one tool, `lookup`: a program on stdin and stdout, or an `Answer` for `serving_http`."""

import json
import sys
from collections.abc import Mapping
from typing import Any

RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "t", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "lookup", "description": "Looks up.", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": [{"type": "text", "text": "found"}]},
}


def response(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": RESULTS.get(message["method"], {})}


def answer(request: str, headers: Mapping[str, str], body: bytes) -> tuple[int, object]:
    if not request.startswith("POST") or headers.get("x-key") != "k1":
        return 405, None
    message = json.loads(body)
    return (200, response(message)) if "id" in message else (202, None)


if __name__ == "__main__":
    for line in sys.stdin:
        received = json.loads(line)
        if "id" in received:
            sys.stdout.write(json.dumps(response(received)) + "\n")
            sys.stdout.flush()

"""An agent of the Agent Client Protocol with a model: it asks Anthropic's Messages API, and words errors as Claude's.

Its sessions are files below HOME.
"""

import http.client
import json
import os
import sys
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

MODES = {"currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}]}
KINDS = {402: "billing_error", 404: "model_not_found", 429: "rate_limit", 529: "overloaded"}
STOPS = {"max_tokens": "max_tokens", "model_context_window_exceeded": "max_tokens", "refusal": "refusal"}


class Refused(Exception):
    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message, "data": data}


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def post(saved: dict[str, Any]) -> dict[str, Any]:
    body = {"model": "any", "max_tokens": 4096, "messages": saved["messages"]}
    body |= {"system": saved["system"]} if saved["system"] else {}
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    headers["x-api-key"] = os.environ["ANTHROPIC_API_KEY"]
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310  # the simulator's
    try:
        with urllib.request.urlopen(request) as response:  # noqa: S310
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        if error.code == 401:
            raise Refused(-32000, "Authentication required") from error
        kind = KINDS.get(error.code, "server_error" if error.code >= 500 else "invalid_request")
        told = f"Internal error: API Error: {error.code} {error.read().decode()}"
        raise Refused(-32603, told, {"errorKind": kind}) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Refused(-32603, f"no answer: {error}", {"errorKind": "server_error"}) from error


def path_of(session: str) -> Path:
    if not session.replace("-", "").isalnum() or len(session) > 200:
        raise Refused(-32002, "Resource not found")
    return Path(os.environ.get("HOME", "."), f"{session}.json")


def prompt(params: dict[str, Any]) -> dict[str, Any]:
    path = path_of(params["sessionId"])
    saved = json.loads(path.read_text(encoding="utf-8"))
    saved["messages"].append({"role": "user", "content": params["prompt"][0]["text"]})
    reply = post(saved)
    text = "".join(block.get("text", "") for block in reply["content"])
    middle = len(text) // 2
    for piece in (text[:middle], text[middle:]):
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": piece}}
        send(method="session/update", params={"sessionId": params["sessionId"], "update": chunk})
    saved["messages"].append({"role": "assistant", "content": text or "-"})
    path.write_text(json.dumps(saved), encoding="utf-8")
    counts = reply["usage"]
    usage = {"inputTokens": counts["input_tokens"], "outputTokens": counts["output_tokens"], "totalTokens": 0}
    return {"stopReason": STOPS.get(reply["stop_reason"], "end_turn"), "usage": usage}


def result_of(method: str, params: dict[str, Any]) -> object:
    match method:
        case "initialize":
            return {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": {}}}}
        case "session/new":
            session = str(uuid.uuid4())
            system = params.get("_meta", {}).get("systemPrompt", "")
            path_of(session).write_text(json.dumps({"system": system, "messages": []}), encoding="utf-8")
            return {"sessionId": session, "modes": MODES}
        case "session/resume":
            if not path_of(params["sessionId"]).exists():
                raise Refused(-32002, "Resource not found")
            return {"modes": MODES}
        case "session/prompt":
            return prompt(params)
    raise Refused(-32601, method)


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        try:
            send(id=message["id"], result=result_of(message["method"], message["params"]))
        except Refused as refused:
            send(id=message["id"], error=refused.error)

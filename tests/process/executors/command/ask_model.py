"""A program of the kind that `ao-command-exec` is for: a prompt on stdin, an answer on stdout.

usage: ask_model.py [--system TEXT] SESSION_FILE

It asks Anthropic's Messages API at ANTHROPIC_BASE_URL. Its exit codes say what went wrong.
"""

import http.client
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

BAD_KEY, FORBIDDEN, NO_MODEL, LIMITED, UNAVAILABLE, REFUSED, CUT = 11, 12, 13, 14, 15, 16, 17
CODES = {401: BAD_KEY, 403: FORBIDDEN, 404: NO_MODEL, 429: LIMITED}
ENDS = {"refusal": REFUSED, "max_tokens": CUT, "model_context_window_exceeded": CUT}


def fail(code: int, reason: str) -> None:
    sys.stderr.write(f"{reason}\n")
    raise SystemExit(code)


def post(messages: list[dict[str, Any]], system: str) -> dict[str, Any]:
    body = {"model": "any", "max_tokens": 4096, "messages": messages, **({"system": system} if system else {})}
    headers = {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
        "x-api-key": os.environ["ANTHROPIC_API_KEY"],
    }
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # noqa: S310  # the simulator's
    try:
        with urllib.request.urlopen(request) as response:  # noqa: S310
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        delay = f", retry after {error.headers['retry-after']} s" if "retry-after" in error.headers else ""
        fail(CODES.get(error.code, UNAVAILABLE), f"status {error.code}{delay}")
    except (OSError, ValueError, http.client.HTTPException) as error:
        fail(UNAVAILABLE, f"no answer: {error}")
    raise AssertionError


def main() -> None:
    *options, file = sys.argv[1:]
    session = Path(file)
    saved: dict[str, Any]
    saved = json.loads(session.read_text()) if session.exists() else {"system": "".join(options[1:]), "messages": []}
    saved["messages"].append({"role": "user", "content": sys.stdin.read()})
    if not session.exists():
        session.write_text(json.dumps({**saved, "messages": []}))
    reply = post(saved["messages"], saved["system"])
    text = "".join(block.get("text", "") for block in reply["content"])
    if reply["stop_reason"] in ENDS:
        fail(ENDS[reply["stop_reason"]], f"the model stopped: {reply['stop_reason']}")
    saved["messages"].append({"role": "assistant", "content": text})
    session.write_text(json.dumps(saved))
    print(text)  # noqa: T201


main()

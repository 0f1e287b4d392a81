"""The Messages API: one request, and its streamed answer or what went wrong (SPEC 6.2)."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from errors import RunFailed
from http_exchange import ConnectionCut, HttpExchange
from ijson import decode_value
from watch import Watch

API_VERSION = "2023-06-01"
BY_STATUS = {
    401: "authentication_failed",
    402: "quota_exceeded",
    403: "permission_denied",
    404: "model_not_found",
    408: "provider_unavailable",
    413: "context_window_exceeded",
    429: "rate_limited",
}
BY_API_ERROR = {
    "authentication_error": "authentication_failed",
    "billing_error": "quota_exceeded",
    "permission_error": "permission_denied",
    "not_found_error": "model_not_found",
    "request_too_large": "context_window_exceeded",
    "rate_limit_error": "rate_limited",
    "overloaded_error": "provider_unavailable",
    "api_error": "provider_unavailable",
    "timeout_error": "provider_unavailable",
}
TOO_LONG = "prompt is too long"
CREDIT = "credit balance is too low"
MAX_ERROR_BYTES = 64 * 1024
MAX_MESSAGE_CHARACTERS = 500


class Answer:
    """What the model said in one go: text, thoughts, tool uses, why it stopped and what it cost."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, Any]] = []
        self.stop_reason = "end_turn"
        self.usage: dict[str, int] = {}
        self.has_begun = False
        self._partial_input: list[str] = []

    @property
    def text(self) -> str:
        """Return all text of the answer."""
        return "".join(block["text"] for block in self.blocks if block["type"] == "text")

    @property
    def thoughts(self) -> str:
        """Return what the model thought before."""
        return "".join(block["thinking"] for block in self.blocks if block["type"] == "thinking")

    @property
    def tool_uses(self) -> list[dict[str, Any]]:
        """Return what the model wants to have done."""
        return [block for block in self.blocks if block["type"] == "tool_use"]

    def receive(self, said: dict[str, Any], on_text: Callable[..., None]) -> None:
        """Take one event of the stream."""
        match said:
            case {"type": "message_start", "message": {"usage": dict(usage)}}:
                self._count(usage)
            case {"type": "content_block_start", "content_block": dict(block)}:
                self.blocks.append(block)
                self._partial_input = []
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
                self.blocks[-1]["text"] += text
                on_text(text)
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}}:
                self.blocks[-1]["thinking"] += text
                on_text(text, "reasoning")
            case {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": str(piece)}}:
                self._partial_input.append(piece)
            case {"type": "content_block_stop"} if self._partial_input:
                self.blocks[-1]["input"] = decode_value("".join(self._partial_input))
                self._partial_input = []
            case {"type": "message_delta", "delta": dict(delta)}:
                self.stop_reason = delta.get("stop_reason") or self.stop_reason
                self._count(said.get("usage", {}))

    def _count(self, usage: dict[str, Any]) -> None:
        self.usage |= {name: value for name, value in usage.items() if isinstance(value, int)}
        if isinstance(details := usage.get("output_tokens_details"), dict):
            self.usage["reasoning_tokens"] = details.get("thinking_tokens", 0)


class MessagesApi:
    """The endpoint, with its credentials and the trace that a run belongs to."""

    def __init__(self, watch: Watch, url: str, api_key: str, traceparent: str | None) -> None:
        self._watch, self._url = watch, url
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "anthropic-version": API_VERSION,
            "x-api-key": api_key,
        }
        if traceparent is not None:
            self._headers["traceparent"] = traceparent

    def ask(self, request: dict[str, Any], on_text: Callable[..., None]) -> Answer:
        """Return the answer; `on_text` is told each piece of text as it comes, and each of thoughts as `reasoning`.

        Raises:
            RunFailed: there is none.
        """
        answer = Answer()
        body = json.dumps(request | {"stream": True}).encode()
        try:
            with HttpExchange(self._watch, self._url, "model") as exchange:
                exchange.send("POST", exchange.path + "/v1/messages", self._headers, body)
                status, headers = exchange.head()
                if status != 200:
                    raise _refused(status, headers, _short_body(exchange))
                for said in _server_sent(exchange.chunks()):
                    if said.get("type") == "error":
                        raise _stream_error(said)
                    answer.receive(said, on_text)
                    if said.get("type") == "message_stop":
                        return answer
        except ConnectionCut as cut:
            raise RunFailed("provider_unavailable", f"{cut}; try again later") from None
        except (ValueError, KeyError, IndexError) as error:
            raise RunFailed(
                "provider_unavailable", f"the provider's stream is malformed ({error}); try again"
            ) from None
        raise RunFailed("provider_unavailable", "the provider's stream ended in the middle; try again later")


def _server_sent(chunks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    unread = b""
    for chunk in chunks:
        *lines, unread = (unread + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                said = json.loads(line.removeprefix(b"data:").decode())
                if isinstance(said, dict):
                    yield said


def _short_body(exchange: HttpExchange) -> bytes:
    body = b""
    for chunk in exchange.chunks():
        body += chunk
        if len(body) > MAX_ERROR_BYTES:
            break
    return body


def _refused(status: int, headers: dict[str, str], body: bytes) -> RunFailed:
    try:
        told = json.loads(body)["error"]
        message, api_error = str(told.get("message", "")), str(told.get("type", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        message, api_error = body.decode(errors="replace"), ""
    if TOO_LONG in message:
        error_type = "context_window_exceeded"
    elif CREDIT in message or api_error == "billing_error":
        error_type = "quota_exceeded"
    else:
        error_type = BY_STATUS.get(status, "provider_unavailable" if status >= 500 else "internal_error")
    told_delay = seconds_of(headers.get("retry-after"))
    delay = {} if told_delay is None else {"retry_after_seconds": told_delay}
    shown = f"the provider answered {status}: {message[:MAX_MESSAGE_CHARACTERS]}"
    return RunFailed(error_type, shown, **delay, details={"status": status})


def _stream_error(said: dict[str, Any]) -> RunFailed:
    told = said.get("error", {})
    error_type = BY_API_ERROR.get(told.get("type"), "provider_unavailable")
    message = str(told.get("message", ""))[:MAX_MESSAGE_CHARACTERS]
    return RunFailed(error_type, f"the provider broke off with {told.get('type')}: {message}")


def seconds_of(retry_after: str | None) -> float | None:
    """Return the delay that a `retry-after` header names, in seconds."""
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        return _seconds_until(retry_after)


def _seconds_until(date: str) -> float | None:
    import email.utils
    import time

    try:
        return max(0.0, email.utils.parsedate_to_datetime(date).timestamp() - time.time())
    except ValueError:
        return None

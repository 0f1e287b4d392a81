"""What OpenAI's two APIs have in common: errors, token counts and the words of server-sent events."""

from typing import Final

from pydantic import JsonValue

from ao_model_simulator.model_error import ModelError
from ao_model_simulator.script import Usage

STREAM_TYPE: Final = "text/event-stream; charset=utf-8"
TYPE_AND_CODE: Final[dict[int, tuple[str, str | None]]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("service_unavailable_error", "server_is_overloaded"),
    529: ("service_unavailable_error", "server_is_overloaded"),
}


def openai_error(error: ModelError) -> dict[str, JsonValue]:
    """Return the `error` object. A type that only the script knows goes out as the code."""
    fallback = "invalid_request_error" if error.meant_status < 500 else "server_error"
    type_, code = TYPE_AND_CODE.get(error.meant_status, (fallback, None))
    if error.own_type == "insufficient_quota":
        type_ = error.own_type
    return {"message": error.message, "type": type_, "param": None, "code": error.own_type or code}


def token_details(usage: Usage) -> tuple[JsonValue, JsonValue]:
    """Return the details of the input's and of the output's tokens."""
    cache: JsonValue = {
        "cached_tokens": usage.cache_read_input_tokens,
        "cache_write_tokens": usage.cache_creation_input_tokens,
    }
    return cache, {"reasoning_tokens": 0}

"""Errors of a model's provider: their error types, who caused them, and when a run ends instead of a retry.

One table for every agent: a provider's words are the same, whoever passes them on. docs/endings.md has what each agent
makes of them, printed by `tests/real_cli/endings.py`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from ao_executors.core import RunFailed
from ao_executors.core.described import DEFAULT_MAX_API_RETRIES, DEFAULT_MAX_RETRY_DELAY_SECONDS
from ao_protocol.errors import RETRYABLE, ErrorType

if TYPE_CHECKING:  # descriptions of agents need the error types before `run_started`
    from ao_protocol.events import RetryScheduled

_BY_STATUS: Final = {
    401: ErrorType.AUTHENTICATION_FAILED,
    402: ErrorType.QUOTA_EXCEEDED,
    403: ErrorType.PERMISSION_DENIED,
    404: ErrorType.MODEL_NOT_FOUND,
    408: ErrorType.PROVIDER_UNAVAILABLE,
    413: ErrorType.CONTEXT_WINDOW_EXCEEDED,
    429: ErrorType.RATE_LIMITED,
}
CLAUDE_ERRORS: Final = {
    "authentication_failed": ErrorType.AUTHENTICATION_FAILED,
    "billing_error": ErrorType.QUOTA_EXCEEDED,
    "rate_limit": ErrorType.RATE_LIMITED,
    "model_not_found": ErrorType.MODEL_NOT_FOUND,
    "max_output_tokens": ErrorType.OUTPUT_TRUNCATED,
    "server_error": ErrorType.PROVIDER_UNAVAILABLE,
    "overloaded": ErrorType.PROVIDER_UNAVAILABLE,
}
"""By the name that the Claude CLI gives to an error."""
_WORDS: Final = (
    ("context_length_exceeded", ErrorType.CONTEXT_WINDOW_EXCEEDED),
    ("prompt is too long", ErrorType.CONTEXT_WINDOW_EXCEEDED),
    ("maximum context length", ErrorType.CONTEXT_WINDOW_EXCEEDED),
    ("exceeds the context window", ErrorType.CONTEXT_WINDOW_EXCEEDED),
    ("exceed context limit", ErrorType.CONTEXT_WINDOW_EXCEEDED),
    ("context exceeds model limit", ErrorType.CONTEXT_WINDOW_EXCEEDED),
    ("exceeds the maximum number of tokens", ErrorType.CONTEXT_WINDOW_EXCEEDED),
    ("insufficient_quota", ErrorType.QUOTA_EXCEEDED),
    ("credit balance is too low", ErrorType.QUOTA_EXCEEDED),
    ("billing_error", ErrorType.QUOTA_EXCEEDED),
    ("perday", ErrorType.QUOTA_EXCEEDED),
    ("reason: max_output_tokens", ErrorType.OUTPUT_TRUNCATED),
    ("reason: content_filter", ErrorType.CONTENT_REFUSED),
    ("content_policy_violation", ErrorType.CONTENT_REFUSED),
    ("api key not valid", ErrorType.AUTHENTICATION_FAILED),
    ("api_key_invalid", ErrorType.AUTHENTICATION_FAILED),
    ("model_not_found", ErrorType.MODEL_NOT_FOUND),
    ("is not found for api version", ErrorType.MODEL_NOT_FOUND),
    ("does not exist or you do not have access", ErrorType.MODEL_NOT_FOUND),
)
"""By words that say more than the HTTP status with them, in lower case. The first that is found counts."""
_WORDS_WITHOUT_STATUS: Final = (
    *((str(status), kind) for status, kind in _BY_STATUS.items()),
    *((str(status), ErrorType.PROVIDER_UNAVAILABLE) for status in (500, 502, 503, 504, 529)),
    ("forbidden", ErrorType.PERMISSION_DENIED),
    ("does not have permission", ErrorType.PERMISSION_DENIED),
    ("not allowed to sample", ErrorType.PERMISSION_DENIED),
    ("unauthorized", ErrorType.AUTHENTICATION_FAILED),
    ("api key", ErrorType.AUTHENTICATION_FAILED),
    ("x-api-key", ErrorType.AUTHENTICATION_FAILED),
    ("exceeded your current quota", ErrorType.QUOTA_EXCEEDED),
    ("rate limit", ErrorType.RATE_LIMITED),
    ("resource has been exhausted", ErrorType.RATE_LIMITED),
    ("overloaded", ErrorType.PROVIDER_UNAVAILABLE),
    ("internal server error", ErrorType.PROVIDER_UNAVAILABLE),
    ("internal error has occurred", ErrorType.PROVIDER_UNAVAILABLE),
    ("the server had an error", ErrorType.PROVIDER_UNAVAILABLE),
    ("request timed out", ErrorType.PROVIDER_UNAVAILABLE),
    ("stream disconnected before completion", ErrorType.PROVIDER_UNAVAILABLE),
    ("error sending request", ErrorType.PROVIDER_UNAVAILABLE),
    ("cannot connect to api", ErrorType.PROVIDER_UNAVAILABLE),
    ("connection error", ErrorType.PROVIDER_UNAVAILABLE),
    ("fetch failed", ErrorType.PROVIDER_UNAVAILABLE),
    ('"details": "terminated"', ErrorType.PROVIDER_UNAVAILABLE),  # a stream that was cut, by Qwen
    ("in json at position", ErrorType.PROVIDER_UNAVAILABLE),
)
"""By words of an error whose HTTP status is not told; a status may be among them."""
_OF_A_SCHEMA: Final = (
    *("invalid_json_schema", "invalid schema for response_format"),
    *("input_schema", "output_config", "output_format"),  # the fields of the Messages API
)
"""Words, in lower case, by which a provider refuses the schema of native output."""
_DELAY: Final = re.compile(r"\b(?:retry|again) (?:after|in) ([0-9]{1,6}(?:\.[0-9]{1,9})?) ?s(?:ec|\b)", re.IGNORECASE)
_ORIGINS: Final = {
    ErrorType.AUTHENTICATION_FAILED: "caller",
    ErrorType.PERMISSION_DENIED: "caller",
    ErrorType.LIMIT_EXCEEDED: "caller",
    ErrorType.CONTEXT_WINDOW_EXCEEDED: "caller",
    ErrorType.MODEL_NOT_FOUND: "caller",
    ErrorType.SESSION_NOT_FOUND: "caller",
    ErrorType.CONTENT_REFUSED: "model",
    ErrorType.OUTPUT_TRUNCATED: "model",
}


def type_of_status(status: int) -> ErrorType:
    """Return the error type for the HTTP status of a provider's answer."""
    return _BY_STATUS.get(status, ErrorType.PROVIDER_UNAVAILABLE if status >= 500 else ErrorType.INTERNAL_ERROR)


def type_of_error(text: str, status: int | None = None, named: ErrorType | None = None) -> ErrorType | None:
    """Return the error type of an error; None if nothing about it is known.

    Args:
        text: What the provider, or the agent, says.
        status: The HTTP status of the provider's answer; None if it is not told.
        named: What the agent's own name of the error means.
    """
    by_status = None if status is None else type_of_status(status)
    return first_found(_WORDS, text) or by_status or named or first_found(_WORDS_WITHOUT_STATUS, text)


def first_found(table: Iterable[tuple[str, ErrorType]], text: str) -> ErrorType | None:
    """Return the error type of the first words in a table, in lower case, that a text has; None if it has none.

    A status is looked for as a whole word.
    """
    searched = text.lower()
    numbers = set(re.findall(r"\b\d{3}\b", searched))
    return next((kind for words, kind in table if words in (numbers if words.isdigit() else searched)), None)


def delay_told(text: str) -> float | None:
    """Return the seconds after which a provider says that one may try again, such as `Please retry in 34.1s`."""
    found = _DELAY.search(text)
    return None if found is None else float(found[1])


def refuses_schema(text: str) -> bool:
    """Return whether a provider that was given a schema for native output says that it does not take it."""
    return any(words in text.lower() for words in _OF_A_SCHEMA)


def origin_of(error_type: ErrorType) -> str:
    """Return the `origin` of an error that a provider, or its program, has reported."""
    return _ORIGINS.get(error_type, "provider")


@dataclass(slots=True)
class RetryPolicy:
    """The decision on each retry that a program reports: continue or fail."""

    max_retries: int
    max_delay_seconds: float

    @classmethod
    def of(cls, config: Mapping[str, Any], usual_retries: int = DEFAULT_MAX_API_RETRIES) -> Self:
        """Return the policy of a run's config."""
        return cls(
            config.get("max_api_retries", usual_retries),
            config.get("max_retry_delay_seconds", DEFAULT_MAX_RETRY_DELAY_SECONDS),
        )

    @property
    def cli_retries(self) -> int:
        """The number of retries for the program: one more, because it reports a delay only with a retry."""
        return self.max_retries + 1

    def event_for(self, failed: RunFailed, attempt: int, delay_seconds: float) -> "RetryScheduled":
        """Return the event for a retry after an error, which is given as the failure that it would be.

        Raises:
            RunFailed: The error is not transient, the retries are used up, or the delay is too long.
        """
        if failed.error_type not in RETRYABLE or attempt > self.max_retries or delay_seconds > self.max_delay_seconds:
            raise failed
        from ao_protocol.events import RetryError, RetryScheduled

        error = RetryError(type=failed.error_type, message=failed.message)
        return RetryScheduled(error=error, attempt=attempt, delay_seconds=delay_seconds)

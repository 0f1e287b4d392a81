"""Errors of the API: which error of the protocol each is, and which are retried, for how long.

It knows nothing of the SDK: the CLI is started with a number of retries while the SDK is imported.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ao_executors.claude_code.config import DEFAULT_MAX_API_RETRIES, DEFAULT_MAX_RETRY_DELAY_SECONDS
from ao_executors.core import RunFailed
from ao_protocol.errors import RETRYABLE, ErrorType
from ao_protocol.events import RetryError, RetryScheduled
from ao_protocol.wire import JsonObject

_ASKED_SHARE: Final = 0.9
"""The CLI waits as long as the API asks, plus up to a quarter of it by chance (measured): this is the middle."""

_OWN_DELAY_SECONDS: Final = 0.9
"""Where an outage names no delay, the CLI's first one is 0.5 to 0.63 s (measured): a longer one was named."""
_BY_STATUS: Final = {
    401: ErrorType.AUTHENTICATION_FAILED,
    402: ErrorType.QUOTA_EXCEEDED,
    403: ErrorType.PERMISSION_DENIED,
    404: ErrorType.MODEL_NOT_FOUND,
    408: ErrorType.PROVIDER_UNAVAILABLE,
    413: ErrorType.CONTEXT_WINDOW_EXCEEDED,
    429: ErrorType.RATE_LIMITED,
}
_BY_CLI_ERROR: Final = {
    "authentication_failed": ErrorType.AUTHENTICATION_FAILED,
    "billing_error": ErrorType.QUOTA_EXCEEDED,
    "rate_limit": ErrorType.RATE_LIMITED,
    "model_not_found": ErrorType.MODEL_NOT_FOUND,
    "max_output_tokens": ErrorType.OUTPUT_TRUNCATED,
    "server_error": ErrorType.PROVIDER_UNAVAILABLE,
    "overloaded": ErrorType.PROVIDER_UNAVAILABLE,
}
_SPECIFIC_CLI_ERRORS: Final = frozenset({"billing_error", "max_output_tokens"})
_ORIGINS: Final = {
    ErrorType.AUTHENTICATION_FAILED: "caller",
    ErrorType.PERMISSION_DENIED: "caller",
    ErrorType.LIMIT_EXCEEDED: "caller",
    ErrorType.CONTEXT_WINDOW_EXCEEDED: "caller",
    ErrorType.MODEL_NOT_FOUND: "caller",
    ErrorType.CONTENT_REFUSED: "model",
    ErrorType.OUTPUT_TRUNCATED: "model",
}


@dataclass(slots=True)
class RetryPolicy:
    """Decides over each `api_retry` message of the CLI."""

    max_retries: int
    max_delay_seconds: float
    _delays: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, config: JsonObject, environment: Mapping[str, str] = os.environ) -> "RetryPolicy":
        """Return the policy of a run: its config's, else that of the CLI's own variable, else the default."""
        retries: Any = config.get("max_api_retries")
        if retries is None:
            variables: Any = config.get("env") or {}
            written = variables.get("CLAUDE_CODE_MAX_RETRIES", environment.get("CLAUDE_CODE_MAX_RETRIES", ""))
            retries = int(written) if written.isdecimal() else DEFAULT_MAX_API_RETRIES
        delay: Any = config.get("max_retry_delay_seconds", DEFAULT_MAX_RETRY_DELAY_SECONDS)
        return cls(retries, delay)

    @property
    def cli_retries(self) -> int:
        """How many retries the CLI is told to make: one more, since it names a delay only with a retry."""
        return self.max_retries + 1

    def event_for(self, retry: Mapping[str, Any], told: str | None) -> RetryScheduled:
        """Return the event for a retry that is waited for. `told` is what the API said.

        Raises:
            RunFailed: it is not: the error will not go away, or retries or time are used up.
        """
        delay = retry["retry_delay_ms"] / 1000
        self._delays.append(delay)
        error_type = type_of_api_error(retry.get("error_status"), str(retry.get("error")))
        message = _sentence(retry) + (f": {told}" if told else "")
        if error_type not in RETRYABLE or retry["attempt"] > self.max_retries or delay > self.max_delay_seconds:
            raise RunFailed(error_type, message, origin=origin_of(error_type), extra=self._extra(error_type))
        return RetryScheduled(
            error=RetryError(type=error_type, message=message), attempt=retry["attempt"], delay_seconds=delay
        )

    def _extra(self, error_type: ErrorType) -> dict[str, object]:
        is_outage = error_type is ErrorType.PROVIDER_UNAVAILABLE
        if error_type is not ErrorType.RATE_LIMITED and not (is_outage and self._delays[0] > _OWN_DELAY_SECONDS):
            return {}
        return {"retry_after_seconds": max(1, round(min(self._delays) * _ASKED_SHARE))}


def _sentence(retry: Mapping[str, Any]) -> str:
    status, error = retry.get("error_status"), retry.get("error")
    return f"the API answered {status} ({error})" if status else f"the API could not be reached ({error})"


def type_of_api_error(status: object, cli_error: str) -> ErrorType:
    """Return the type for an HTTP status, where there was an answer, and the CLI's own word for the error."""
    if cli_error in _SPECIFIC_CLI_ERRORS:
        return _BY_CLI_ERROR[cli_error]
    if isinstance(status, int):
        return _BY_STATUS.get(status, ErrorType.PROVIDER_UNAVAILABLE if status >= 500 else ErrorType.INTERNAL_ERROR)
    return _BY_CLI_ERROR.get(cli_error, ErrorType.PROVIDER_UNAVAILABLE)


def origin_of(error_type: ErrorType) -> str:
    """Return whose fault an API error is."""
    return _ORIGINS.get(error_type, "provider")

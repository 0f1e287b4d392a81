"""Errors of the API: their error types in the protocol, and their retries.

This module does not import the SDK: the CLI is started, with a number of retries, while the SDK is imported.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ao_executors.core import RunFailed
from ao_executors.core.config_fields import DEFAULT_MAX_API_RETRIES, DEFAULT_MAX_RETRY_DELAY_SECONDS
from ao_protocol.errors import RETRYABLE, ErrorType
from ao_protocol.events import RetryError, RetryScheduled
from ao_protocol.wire import JsonObject

_ASKED_SHARE: Final = 0.9
"""The CLI waits for the API's delay plus a random part of up to a quarter (measured): this factor is the middle."""

_OWN_DELAY_SECONDS: Final = 0.9
"""If the API names no delay, the CLI's first delay is 0.5 to 0.63 s (measured). A longer one comes from the API."""
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
    """The decision on each `api_retry` message of the CLI: continue or fail."""

    max_retries: int
    max_delay_seconds: float
    _delays: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, config: JsonObject, environment: Mapping[str, str] = os.environ) -> "RetryPolicy":
        """Return the policy of a run: from its config, else from the CLI's own variable, else the default."""
        retries: Any = config.get("max_api_retries")
        if retries is None:
            variables: Any = config.get("env") or {}
            written = variables.get("CLAUDE_CODE_MAX_RETRIES", environment.get("CLAUDE_CODE_MAX_RETRIES", ""))
            retries = int(written) if written.isdecimal() else DEFAULT_MAX_API_RETRIES
        delay: Any = config.get("max_retry_delay_seconds", DEFAULT_MAX_RETRY_DELAY_SECONDS)
        return cls(retries, delay)

    @property
    def cli_retries(self) -> int:
        """The number of retries for the CLI: one more, because it reports a delay only with a retry."""
        return self.max_retries + 1

    def event_for(self, retry: Mapping[str, Any], told: str | None) -> RetryScheduled:
        """Return the event for a retry of the CLI. `told` is the API's message.

        Raises:
            RunFailed: The error is not transient, the retries are used up, or the delay is too long.
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
    """Return the error type for an HTTP status, if the API answered, and the CLI's name of the error."""
    if cli_error in _SPECIFIC_CLI_ERRORS:
        return _BY_CLI_ERROR[cli_error]
    if isinstance(status, int):
        return _BY_STATUS.get(status, ErrorType.PROVIDER_UNAVAILABLE if status >= 500 else ErrorType.INTERNAL_ERROR)
    return _BY_CLI_ERROR.get(cli_error, ErrorType.PROVIDER_UNAVAILABLE)


def origin_of(error_type: ErrorType) -> str:
    """Return the `origin` of an API error."""
    return _ORIGINS.get(error_type, "provider")

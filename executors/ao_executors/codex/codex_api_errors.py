"""Errors of the API and the CLI: their error types in the protocol, and the retries of the CLI."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ao_executors.core import RunFailed
from ao_executors.core.foreign_json import as_object, read_json, text_of
from ao_executors.vendors.provider_errors import RetryPolicy, origin_of, type_of_error
from ao_protocol.errors import ErrorType
from ao_protocol.events import RetryScheduled
from ao_protocol.framing import NotIJson
from ao_protocol.short_text import shorten

_BY_INFO: Final = {
    "contextWindowExceeded": ErrorType.CONTEXT_WINDOW_EXCEEDED,
    "cyberPolicy": ErrorType.CONTENT_REFUSED,
    "flexUnavailable": ErrorType.PROVIDER_UNAVAILABLE,
    "internalServerError": ErrorType.PROVIDER_UNAVAILABLE,
    "misalignmentPolicyViolation": ErrorType.CONTENT_REFUSED,
    "rateLimitExceeded": ErrorType.RATE_LIMITED,
    "serverOverloaded": ErrorType.PROVIDER_UNAVAILABLE,
    "sessionBudgetExceeded": ErrorType.LIMIT_EXCEEDED,
    "unauthorized": ErrorType.AUTHENTICATION_FAILED,
    "usageLimitExceeded": ErrorType.QUOTA_EXCEEDED,
}
"""By the name in `codexErrorInfo`."""
_OWN_DELAY_SECONDS: Final = 0.25
"""The CLI's own first delay is 0.2 s, a tenth more or less, and doubles (measured). A longer one is the API's."""
_MAX_CHARACTERS: Final = 1000
_RETRY: Final = re.compile(r"retrying sampling request \(\d+/\d+ in ([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|µs|ns|s)\)")
_SECONDS: Final = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def delay_in(log: str) -> float | None:
    """Return the seconds that the CLI waits, by a line of its log; None if the line is about something else."""
    found = _RETRY.search(log)
    return float(found[1]) * _SECONDS[found[2]] if found is not None else None


@dataclass(slots=True)
class CodexRetries(RetryPolicy):
    """The decision on each retry of the CLI."""

    after: float | None = None
    """The delay in seconds that the API named last; None if it named none."""

    def scheduled(self, error: Mapping[str, Any], attempt: int, delay: float) -> RetryScheduled:
        """Return the event for a retry of the CLI.

        Raises:
            RunFailed: As for `event_for`.
        """
        if delay > _OWN_DELAY_SECONDS * 2 ** (attempt - 1):
            self.after = round(delay, 1)
        failed = failure_of({**error, "message": error.get("additionalDetails") or error["message"]}, self.after)
        return self.event_for(failed, attempt, delay)


def failure_of(error: Mapping[str, Any], after: float | None = None) -> RunFailed:
    """Return the failure of a turn by its `error`. `after` is the delay that the API named, in seconds."""
    message, info = _shortened(text_of(error["message"])), error.get("codexErrorInfo")
    variant, held = next(iter(info.items())) if isinstance(info, dict) and info else (info, None)
    status = held.get("httpStatusCode") if isinstance(held, dict) else None
    named = ErrorType.PROVIDER_UNAVAILABLE if held is not None else _BY_INFO.get(str(variant))  # no answer came
    known = type_of_error(text_of(error["message"]), status if isinstance(status, int) else None, named)
    error_type = known or ErrorType.INTERNAL_ERROR
    details = {"codex_error": variant, "status": status}
    extra: dict[str, object] = {"details": {name: value for name, value in details.items() if value is not None}}
    if after is not None and error_type in {ErrorType.RATE_LIMITED, ErrorType.PROVIDER_UNAVAILABLE}:
        extra["retry_after_seconds"] = after
    return RunFailed(error_type, message, origin=origin_of(error_type), extra=extra)


def _shortened(message: str) -> str:
    """Return the API's words: the CLI shows the whole body of some errors, as JSON."""
    with suppress(NotIJson):
        told = as_object(as_object(read_json(message)).get("error")).get("message")
        message = message if told is None else text_of(told)
    return shorten(message, _MAX_CHARACTERS)

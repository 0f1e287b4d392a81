"""Errors of the API: their error types in the protocol, their retries, and the limit of a subscription.

This module does not import the SDK: the CLI is started, with a number of retries, while the SDK is imported.
"""

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from ao_executors.core import RunFailed
from ao_executors.core.described import DEFAULT_MAX_API_RETRIES
from ao_executors.vendors.provider_errors import CLAUDE_ERRORS, RetryPolicy, origin_of, type_of_error
from ao_protocol.errors import ErrorType
from ao_protocol.events import RetryScheduled

if TYPE_CHECKING:
    from ao_executors.claude_code.sdk import RateLimitInfo

RETRIES_VARIABLE: Final = "CLAUDE_CODE_MAX_RETRIES"
_ASKED_SHARE: Final = 0.9
"""The CLI waits for the API's delay plus a random part of up to a quarter (measured): this factor is the middle."""

_OWN_DELAY_SECONDS: Final = 0.9
"""If the API names no delay, the CLI's first delay is 0.5 to 0.63 s (measured). A longer one comes from the API."""
_OF_LIMITS: Final = frozenset({ErrorType.RATE_LIMITED, ErrorType.QUOTA_EXCEEDED})
_SPECIFIC_CLI_ERRORS: Final = frozenset({"billing_error", "max_output_tokens"})


@dataclass(slots=True)
class ClaudeRetries(RetryPolicy):
    """The decision on each `api_retry` message of the CLI."""

    _delays: list[float] = field(default_factory=list)

    def scheduled(self, retry: Mapping[str, Any], told: str | None) -> RetryScheduled:
        """Return the event for a retry of the CLI. `told` is the API's message.

        Raises:
            RunFailed: As for `event_for`.
        """
        delay = retry["retry_delay_ms"] / 1000
        self._delays.append(delay)
        status, error = retry.get("error_status"), retry.get("error")
        error_type = type_of_api_error(status, str(error), told or "")
        message = f"the API answered {status} ({error})" if status else f"the API could not be reached ({error})"
        if told:
            message = f"{message}: {told}"
        failed = RunFailed(error_type, message, origin=origin_of(error_type), extra=self._extra(error_type))
        return self.event_for(failed, retry["attempt"], delay)

    def _extra(self, error_type: ErrorType) -> dict[str, object]:
        is_outage = error_type is ErrorType.PROVIDER_UNAVAILABLE
        if error_type is not ErrorType.RATE_LIMITED and not (is_outage and self._delays[0] > _OWN_DELAY_SECONDS):
            return {}
        return {"retry_after_seconds": max(1, round(min(self._delays) * _ASKED_SHARE))}


def retries_of(config: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> ClaudeRetries:
    """Return the policy of a run: from its config, else from the CLI's own variable, else the default."""
    written = config.get("env", {}).get(RETRIES_VARIABLE, environment.get(RETRIES_VARIABLE, ""))
    return ClaudeRetries.of(config, int(written) if written.isdecimal() else DEFAULT_MAX_API_RETRIES)


def type_of_api_error(status: object, cli_error: str, told: str) -> ErrorType:
    """Return the error type for an HTTP status, if the API answered, the CLI's name of the error, and the words."""
    named = CLAUDE_ERRORS.get(cli_error, ErrorType.PROVIDER_UNAVAILABLE)
    known = type_of_error(told, status if isinstance(status, int) else None, named)
    return named if cli_error in _SPECIFIC_CLI_ERRORS else known or named


@dataclass
class UsageLimit:
    """The latest report of a CLI on the limit of its account, such as that of five hours.

    The CLI reports it only with the login of a subscription (`claude login`, `CLAUDE_CODE_OAUTH_TOKEN`), and only when
    it has changed. It does not retry what the limit refuses.

    Args:
        now: Returns the time in seconds since the epoch.
        info: The report; None before the first one.
    """

    now: Callable[[], float] = time.time
    info: "RateLimitInfo | None" = None

    @property
    def is_reached(self) -> bool:
        """Whether the API refuses requests. It does not if the account pays for usage beyond the limit."""
        return self.info is not None and self.info.status == "rejected" and not self.info.raw.get("isUsingOverage")

    def warning(self) -> str | None:
        """Return a warning if the limit is close, else None."""
        if self.info is None or self.info.status != "allowed_warning":
            return None
        used, resets_at = self.info.utilization, self._resets_at()
        limit = f"{self.info.rate_limit_type or 'usage'} limit"
        warning = f"the account is close to its {limit}" if used is None else f"{used:.0%} of the {limit} is used"
        return warning if resets_at is None else f"{warning}; it resets at {_written(resets_at)}"

    def explain(self, failure: RunFailed) -> RunFailed:
        """Return the failure of a turn with the limit that caused it and the time of its reset, as far as known.

        With a known limit it is `quota_exceeded`. With a known reset it is retryable.
        """
        if self.info is None or not self.is_reached or failure.error_type not in _OF_LIMITS:
            return failure
        limit, resets_at = self.info.rate_limit_type, self._resets_at()
        details: dict[str, object] = dict(cast("Any", failure.extra.get("details", {})))
        extra: dict[str, object] = {**failure.extra, "details": details}
        if limit is not None:
            details["limit"] = limit
        if resets_at is not None:
            details["resets_at"] = _written(resets_at)
            extra["retry_after_seconds"] = max(0, math.ceil(resets_at.timestamp() - self.now()))
        return RunFailed(
            failure.error_type if limit is None else ErrorType.QUOTA_EXCEEDED,
            failure.message,
            origin=failure.origin,
            retryable=None if resets_at is None else True,
            extra=extra,
        )

    def _resets_at(self) -> datetime | None:
        if self.info is not None and self.info.resets_at is not None:
            with suppress(ValueError, OverflowError, OSError):  # no time that a calendar has
                return datetime.fromtimestamp(self.info.resets_at, UTC)
        return None


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")

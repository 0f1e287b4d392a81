"""The retries of the Claude CLI, as `claude-code` and Claude's agent with ACP report them.

This module does not import the SDK: the CLI is started, with a number of retries, while the SDK is imported.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ao_executors.core import RunFailed
from ao_executors.core.described import DEFAULT_MAX_API_RETRIES
from ao_executors.vendors.provider_errors import CLAUDE_ERRORS, RetryPolicy, origin_of, type_of_error
from ao_protocol.errors import ErrorType

if TYPE_CHECKING:
    from ao_protocol.events import RetryScheduled

RETRIES_VARIABLE: Final = "CLAUDE_CODE_MAX_RETRIES"
_ASKED_SHARE: Final = 0.9
"""The CLI waits for the API's delay plus a random part of up to a quarter (measured): this factor is the middle."""

_OWN_DELAY_SECONDS: Final = 0.9
"""If the API names no delay, the CLI's first delay is 0.5 to 0.63 s (measured). A longer one comes from the API."""
_SPECIFIC_CLI_ERRORS: Final = frozenset({"billing_error", "max_output_tokens"})


@dataclass(slots=True)
class ClaudeRetries(RetryPolicy):
    """The decision on each `api_retry` message of the CLI."""

    _delays: list[float] = field(default_factory=list)

    def scheduled(self, retry: Mapping[str, Any], told: str | None) -> "RetryScheduled":
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

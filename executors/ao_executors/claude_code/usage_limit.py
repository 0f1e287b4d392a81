"""The limit of a subscription, which the Claude CLI reports."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from ao_executors.core import RunFailed
from ao_protocol.errors import ErrorType

if TYPE_CHECKING:
    from ao_executors.claude_code.sdk import RateLimitInfo

_OF_LIMITS: Final = frozenset({ErrorType.RATE_LIMITED, ErrorType.QUOTA_EXCEEDED})


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

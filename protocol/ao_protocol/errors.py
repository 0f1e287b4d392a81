"""The registry of error types (SPEC 6.2), and the exit codes (SPEC 6.4).

The registry is open: for an unknown type a receiver relies on `retryable` and `side_effects` (AOX-101).
"""

from enum import IntEnum, StrEnum
from typing import Final


class ErrorType(StrEnum):
    """The registered values of `error.type` (SPEC 6.2)."""

    INVALID_JSON = "invalid_json"
    INVALID_INVOCATION = "invalid_invocation"
    INVOCATION_TOO_LARGE = "invocation_too_large"
    UNSUPPORTED_SCHEMA_VERSION = "unsupported_schema_version"
    UNSUPPORTED_CAPABILITY = "unsupported_capability"
    INVALID_EXECUTOR_CONFIG = "invalid_executor_config"
    PARAMETERS_VALIDATION_FAILED = "parameters_validation_failed"
    INVALID_OUTPUT_SCHEMA = "invalid_output_schema"

    SESSION_NOT_FOUND = "session_not_found"
    SESSION_BUSY = "session_busy"
    AUTHENTICATION_FAILED = "authentication_failed"
    PERMISSION_DENIED = "permission_denied"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXCEEDED = "quota_exceeded"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    MODEL_NOT_FOUND = "model_not_found"
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    CONTENT_REFUSED = "content_refused"
    OUTPUT_TRUNCATED = "output_truncated"
    OUTPUT_SCHEMA_VALIDATION_FAILED = "output_schema_validation_failed"
    SCHEMA_VALIDATION_FAILED = "schema_validation_failed"

    LIMIT_EXCEEDED = "limit_exceeded"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    INPUT_REQUIRED = "input_required"
    TOOL_FAILED = "tool_failed"
    MCP_SERVER_UNAVAILABLE = "mcp_server_unavailable"
    DEPENDENCY_MISSING = "dependency_missing"
    WORKSPACE_ERROR = "workspace_error"
    RESOURCE_EXHAUSTED = "resource_exhausted"
    CANCELLED = "cancelled"
    INTERNAL_ERROR = "internal_error"

    EXECUTOR_NOT_FOUND = "executor_not_found"
    EXECUTOR_START_TIMEOUT = "executor_start_timeout"
    EXECUTOR_STALLED = "executor_stalled"
    EXECUTOR_CRASHED = "executor_crashed"
    MISSING_TERMINAL = "missing_terminal"
    PROTOCOL_VIOLATION = "protocol_violation"
    CANCEL_TIMEOUT = "cancel_timeout"
    ATTEMPT_LOST = "attempt_lost"
    SESSION_UNAVAILABLE = "session_unavailable"


REFUSALS: Final = frozenset(
    {
        ErrorType.INVALID_JSON,
        ErrorType.INVALID_INVOCATION,
        ErrorType.INVOCATION_TOO_LARGE,
        ErrorType.UNSUPPORTED_SCHEMA_VERSION,
        ErrorType.UNSUPPORTED_CAPABILITY,
        ErrorType.INVALID_EXECUTOR_CONFIG,
        ErrorType.PARAMETERS_VALIDATION_FAILED,
        ErrorType.INVALID_OUTPUT_SCHEMA,
    }
)
"""Types of refusals: failures before any work was done. Their exit code is 64."""

RUNNER_ONLY: Final = frozenset(
    {
        ErrorType.EXECUTOR_NOT_FOUND,
        ErrorType.EXECUTOR_START_TIMEOUT,
        ErrorType.EXECUTOR_STALLED,
        ErrorType.EXECUTOR_CRASHED,
        ErrorType.MISSING_TERMINAL,
        ErrorType.PROTOCOL_VIOLATION,
        ErrorType.CANCEL_TIMEOUT,
        ErrorType.ATTEMPT_LOST,
        ErrorType.SESSION_UNAVAILABLE,
    }
)
"""Types that are reserved for runners (AOX-105)."""

RETRYABLE: Final = frozenset(
    {
        ErrorType.SESSION_BUSY,
        ErrorType.RATE_LIMITED,
        ErrorType.PROVIDER_UNAVAILABLE,
        ErrorType.MCP_SERVER_UNAVAILABLE,
        ErrorType.RESOURCE_EXHAUSTED,
        ErrorType.EXECUTOR_START_TIMEOUT,
        ErrorType.EXECUTOR_STALLED,
        ErrorType.EXECUTOR_CRASHED,
        ErrorType.ATTEMPT_LOST,
        ErrorType.SESSION_UNAVAILABLE,
    }
)
"""Types that are `retryable` by default. The field `retryable` of a failure takes precedence."""


class ExitCode(IntEnum):
    """The exit codes of executors (SPEC 6.4), and of `ao run`."""

    RESULT = 0
    FAILURE = 1
    USAGE = 2
    REFUSED = 64
    RETRYABLE_FAILURE = 75
    CANCELLED = 130


def exit_code_of_failure(status: str, error_type: str, *, retryable: bool) -> ExitCode:
    """Return the exit code that agrees with a `failure` event."""
    if status == "cancelled":
        return ExitCode.CANCELLED
    if error_type in REFUSALS:
        return ExitCode.REFUSED
    return ExitCode.RETRYABLE_FAILURE if retryable else ExitCode.FAILURE

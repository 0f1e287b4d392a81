"""The registry of error types, and which exit code a way of ending has (SPEC 6).

The registry is open: a receiver takes an unknown type for what its `retryable` and `side_effects` say.
"""

from enum import IntEnum, StrEnum
from typing import Final


class ErrorType(StrEnum):
    """`error.type` of a failure."""

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
"""What an executor says before it has done any work; always with exit code 64."""

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
    }
)
"""What only a runner can say, since the executor was not there to say it."""

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
    }
)
"""What may go away by itself. It is a default: the failure at hand says `retryable`."""


class ExitCode(IntEnum):
    """The exit code of an executor, and of `ao run`."""

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

"""What ends a run other than a result: the registry of errors, the error object and the exit codes (SPEC 6)."""

from typing import Any

REFUSALS = {
    "invalid_json",
    "invalid_invocation",
    "invocation_too_large",
    "unsupported_schema_version",
    "unsupported_capability",
    "invalid_executor_config",
    "parameters_validation_failed",
    "invalid_output_schema",
}
RETRYABLE = {"session_busy", "rate_limited", "provider_unavailable", "mcp_server_unavailable", "resource_exhausted"}
ORIGINS = {
    "rate_limited": "provider",
    "quota_exceeded": "provider",
    "provider_unavailable": "provider",
    "content_refused": "model",
    "output_truncated": "model",
    "output_schema_validation_failed": "model",
    "schema_validation_failed": "model",
    "mcp_server_unavailable": "tool",
    "workspace_error": "environment",
    "internal_error": "executor",
}
OTHER_ORIGIN = "caller"


class RunFailed(Exception):
    """A run cannot go on. `error_type` is of the registry; `fields` are further fields of the error object."""

    def __init__(self, error_type: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
        self.fields = fields


def failure_fields(failed: RunFailed, *, is_touched: bool) -> dict[str, Any]:
    """Return the fields of a `failure`; `is_touched` says that something was started that may have changed things."""
    error_type = failed.error_type
    error = {
        "type": error_type,
        "message": failed.message,
        "retryable": error_type in RETRYABLE,
        "side_effects": "possible" if is_touched and error_type not in REFUSALS else "none",
        "origin": ORIGINS.get(error_type, OTHER_ORIGIN),
        **failed.fields,
    }
    return {"status": "cancelled" if error_type == "cancelled" else "failed", "error": error}


def exit_code_of(failed: RunFailed | None) -> int:
    """Return the exit code after a run that failed so, or did not fail."""
    if failed is None:
        return 0
    if failed.error_type == "cancelled":
        return 130
    if failed.error_type in REFUSALS:
        return 64
    return 75 if failed.error_type in RETRYABLE else 1

"""Which error of the protocol an error of the API is. It knows nothing of the SDK."""

from typing import Final

from ao_protocol.errors import ErrorType

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

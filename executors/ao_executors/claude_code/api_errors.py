"""What the CLI and the API report as errors, as failures of the protocol (SPEC 6)."""

from typing import Final

from ao_executors.claude_code.api_error_log import shortened
from ao_executors.claude_code.error_types import origin_of, type_of_api_error
from ao_executors.claude_code.sdk import ClaudeSDKError, ProcessError, ResultMessage
from ao_executors.core.failures import RunFailed
from ao_protocol.errors import ErrorType

_BY_TERMINAL_REASON: Final = {
    "prompt_too_long": ErrorType.CONTEXT_WINDOW_EXCEEDED,
    "blocking_limit": ErrorType.CONTEXT_WINDOW_EXCEEDED,  # by the CLI's own count, before it asks
    "max_turns": ErrorType.LIMIT_EXCEEDED,
    "budget_exhausted": ErrorType.LIMIT_EXCEEDED,
}
_UNSENDABLE_KEY: Final = "Invalid API key"
_UNKNOWN_SESSION: Final = ("No conversation found", "--resume requires a valid session ID")
_KNOWN_SESSION: Final = "already in use"
"""The CLI's words for a session that exists; whether a run is using it, the lock has told before."""
_ROOT: Final = "cannot be used with root"
_REFUSED_SCHEMA: Final = "--json-schema is not a valid JSON Schema"


def failure_of_result(result: ResultMessage, api_error: str | None, told: str | None) -> RunFailed:
    """Return the failure that a turn ended in.

    `api_error` is the CLI's own word for it, where it had one, and `told` what the API said with its last error.
    """
    if result.stop_reason == "refusal":
        error_type = ErrorType.CONTENT_REFUSED
    elif result.terminal_reason in _BY_TERMINAL_REASON:
        error_type = _BY_TERMINAL_REASON[result.terminal_reason]
    elif result.api_error_status is None and (result.result or "").startswith(_UNSENDABLE_KEY):
        error_type = ErrorType.AUTHENTICATION_FAILED
    elif result.terminal_reason == "api_error" or result.api_error_status is not None:
        error_type = type_of_api_error(result.api_error_status, api_error or "")
    else:
        error_type = ErrorType.INTERNAL_ERROR
    message = result.result or "; ".join(result.errors or ()) or f"the turn ended with {result.subtype}"
    message = shortened(message)
    if result.api_error_status is not None and told and told not in message:
        message = f"{message} The API said: {told}"
    details = {"subtype": result.subtype, "terminal_reason": result.terminal_reason, "status": result.api_error_status}
    present = {name: value for name, value in details.items() if value is not None}
    return RunFailed(error_type, message, origin=origin_of(error_type), extra={"details": present})


def failure_of_sdk(error: ClaudeSDKError) -> RunFailed:
    """Return the failure for a CLI that did not start, or ended in the middle."""
    told = str(error)
    if any(words in told for words in _UNKNOWN_SESSION):
        message = "the CLI has no such session; start a new one"
        return RunFailed(ErrorType.SESSION_NOT_FOUND, message, origin="caller")
    if _KNOWN_SESSION in told:
        message = (
            "session_id: a session with this id exists; continue it with mode resume, or start one with another id"
        )
        return RunFailed(ErrorType.INVALID_INVOCATION, message, origin="caller")
    if _ROOT in told:
        return _bypass_refused()
    if _REFUSED_SCHEMA in told:
        reason = told.partition(_REFUSED_SCHEMA)[2].strip(" :\n")
        message = f"the CLI does not accept this schema for native output ({reason}); use the strategy system_prompt"
        details = {"missing": ["output_schema.strategies:native"]}
        return RunFailed(ErrorType.UNSUPPORTED_CAPABILITY, message, origin="caller", extra={"details": details})
    is_killed = isinstance(error, ProcessError) and error.exit_code is not None and error.exit_code < 0
    return RunFailed(ErrorType.INTERNAL_ERROR, told, origin="environment", retryable=is_killed)


def _bypass_refused() -> RunFailed:
    message = (
        "the CLI does not take bypassPermissions from root: run as another user, set IS_SANDBOX=1 in a container that "
        "may be lost, or use dontAsk with allowed_tools"
    )
    violations = [{"pointer": "$.permission_mode", "message": message}]
    error_type = ErrorType.INVALID_EXECUTOR_CONFIG
    text = f"executor_config.permission_mode: {message}"
    return RunFailed(error_type, text, origin="caller", extra={"details": {"violations": violations}})

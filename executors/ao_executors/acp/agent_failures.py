"""The failures of the protocol (SPEC 6) for what goes wrong with an agent."""

from typing import Final

from ao_executors.acp.agent_rows import AgentRow
from ao_executors.core import RunFailed
from ao_executors.core.executor import refused
from ao_executors.core.json_rpc import AgentRefused, Patience
from ao_executors.vendors.provider_errors import delay_told, first_found, origin_of, type_of_error
from ao_protocol.errors import ErrorType

_AUTH_REQUIRED: Final = -32000
"""The code of the protocol for an agent that wants a login. Code -32603, internal error, may be anything."""
_HTTP_STATUSES: Final = range(400, 600)
_SHOWN_CHARACTERS: Final = 2000


def failure_of_refusal(agent: AgentRow, error: AgentRefused, *, continues: bool = False) -> RunFailed:
    """Return the failure for an error that an agent answered.

    Args:
        agent: The row with the agent's texts.
        error: The error.
        continues: Whether the request was to continue a session.
    """
    text, searched = error.message[:_SHOWN_CHARACTERS], error.message.lower()
    if error.code == _AUTH_REQUIRED:
        known = ErrorType.AUTHENTICATION_FAILED
        text = f"{text}; {login_hint(agent)}"
    elif continues and any(words in searched for words in agent.unknown_session):
        known = ErrorType.SESSION_NOT_FOUND
        text = f"the agent does not know the session ({text}); start a new one"
    else:
        status = error.code if error.code in _HTTP_STATUSES else None  # Gemini's and Qwen's code is the status
        own = first_found(agent.errors.items(), error.message)
        known = own or type_of_error(error.message, status) or ErrorType.INTERNAL_ERROR
    extra: dict[str, object] = {"details": {"method": error.method, "code": error.code}}
    if known in {ErrorType.RATE_LIMITED, ErrorType.PROVIDER_UNAVAILABLE} and (after := delay_told(text)) is not None:
        extra["retry_after_seconds"] = after
    return RunFailed(known, text, origin=origin_of(known), extra=extra)


def unfit(setting: str, reason: str) -> RunFailed:
    """Return the failure for a setting that the agent cannot keep."""
    details = {"violations": [{"pointer": f"$.{setting}", "message": reason}]}
    return refused(ErrorType.INVALID_EXECUTOR_CONFIG, f"executor_config does not fit: $.{setting}: {reason}", details)


def login_hint(agent: AgentRow) -> str:
    """Return how one gives an agent its credentials. No run opens a browser."""
    return f"set {agent.credentials[0]}" if agent.credentials else "log in with the agent's own program first"


def patience_of(setting: str, seconds: float) -> Patience:
    """Return how long the agent may be silent, by a setting of `executor_config`."""
    return Patience(seconds, f"raise executor_config.{setting} if it needs longer")

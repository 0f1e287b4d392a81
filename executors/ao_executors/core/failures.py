"""`RunFailed`: the one way for anything in an executor to end a run without a result.

Internal, but for `RunFailed`, which `ao_executors.core` exports.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ao_protocol.errors import RETRYABLE, ErrorType, ExitCode, exit_code_of_failure

if TYPE_CHECKING:  # the models take longer to import than a short run
    from ao_protocol.documents import InvocationRefused


class RunFailed(Exception):  # the situation, as the protocol words it
    """A run that ends in a `failure` event.

    Args:
        error_type: The type of the error in the protocol's registry.
        message: What happened, with the value, then what to do.
        origin: Whose fault it is: `caller`, `model`, `provider`, `tool`, `environment` or `executor`.
        retryable: Whether the same run may succeed later. None: what the registry says of the type.
        extra: Further fields of the wire's `error`: `retry_after_seconds`, `validation_errors`, `details`.
    """

    def __init__(
        self,
        error_type: ErrorType,
        message: str,
        *,
        origin: str,
        retryable: bool | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(error_type, message)
        self.error_type = error_type
        self.message = message
        self.origin = origin
        self.retryable = error_type in RETRYABLE if retryable is None else retryable
        self.extra = dict(extra or {})

    def __str__(self) -> str:
        return f"{self.error_type}: {self.message}"

    @property
    def status(self) -> str:
        """`cancelled` if the run was asked to end, else `failed`."""
        return "cancelled" if self.error_type is ErrorType.CANCELLED else "failed"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that agrees with the event."""
        return exit_code_of_failure(self.status, self.error_type, retryable=self.retryable)

    def to_fields(self, side_effects: str) -> dict[str, object]:
        """Return the fields of the `failure` event."""
        error = {
            "type": str(self.error_type),
            "message": self.message,
            "retryable": self.retryable,
            "side_effects": side_effects,
            "origin": self.origin,
        }
        return {"status": self.status, "error": error | self.extra}


def refused(error_type: ErrorType, message: str, details: Mapping[str, object] | None = None) -> RunFailed:
    """Return the failure of an invocation that no work is done for."""
    return RunFailed(error_type, message, origin="caller", extra={"details": details} if details else None)


def as_failure(refusal: "InvocationRefused") -> RunFailed:
    """Return the failure of an invocation that the rules of the protocol refuse."""
    extra: dict[str, object] = {"validation_errors": list(refusal.validation_errors), "details": refusal.details}
    present = {name: value for name, value in extra.items() if value}
    return RunFailed(refusal.error_type, refusal.message, origin="caller", extra=present)


def cancelled(reason: str) -> RunFailed:
    """Return the failure of a run that was asked to end."""
    return RunFailed(ErrorType.CANCELLED, f"the run was cancelled: {reason}", origin="caller")


class EventTooLarge(ValueError):
    """An event exceeds the line limit, and nothing in it may be cut."""

    def __init__(self, event_type: object, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(event_type, size_bytes, limit_bytes)
        self.event_type = event_type
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes

    def __str__(self) -> str:
        return (
            f"the {self.event_type} event has {self.size_bytes} bytes and {self.limit_bytes} are allowed; "
            f"raise limits.max_event_bytes to at least {self.size_bytes}"
        )

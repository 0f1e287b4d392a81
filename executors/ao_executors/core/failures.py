"""`RunFailed`: the one way for anything in an executor to end a run without a result."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ao_protocol.errors import RETRYABLE, ErrorType, ExitCode, exit_code_of_failure

if TYPE_CHECKING:  # the models take longer to import than a short run
    from ao_protocol.documents import InvocationRefused


class RunFailed(Exception):  # the situation, as the protocol words it
    """A run that ends in a `failure` event. `message` says what happened, with the value, then what to do.

    `retryable` is what the registry says of the type, unless given. `extra` holds further fields of the wire's
    `error`: `retry_after_seconds`, `validation_errors`, `details`.
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
        """`failed`, or `cancelled` where somebody asked for the end."""
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
    """Make the failure of an invocation that no work is done for."""
    return RunFailed(error_type, message, origin="caller", extra={"details": details} if details else None)


def as_failure(refusal: "InvocationRefused") -> RunFailed:
    """Make the failure of an invocation that the protocol's own rules refuse."""
    extra: dict[str, object] = {"validation_errors": list(refusal.validation_errors), "details": refusal.details}
    present = {name: value for name, value in extra.items() if value}
    return RunFailed(refusal.error_type, refusal.message, origin="caller", extra=present)


def parameters_refused(message: str, problems: Sequence[object], schema: Mapping[str, object]) -> RunFailed:
    """Make the failure of parameters that do not fit the schema that decides."""
    texts = [str(problem) for problem in problems]
    extra = {"validation_errors": texts, "details": {"validation_errors": texts, "schema": schema}}
    return RunFailed(ErrorType.PARAMETERS_VALIDATION_FAILED, message, origin="caller", extra=extra)


def cancelled(reason: str) -> RunFailed:
    """Make the failure of a run that was asked to end."""
    return RunFailed(ErrorType.CANCELLED, f"the run was cancelled: {reason}", origin="caller")


def validation_failed(error_type: ErrorType, message: str, problems: Sequence[object]) -> RunFailed:
    """Make the failure of an output that does not fit its contract."""
    return RunFailed(
        error_type, message, origin="model", extra={"validation_errors": [str(problem) for problem in problems]}
    )

"""An error of a model's API before it is worded. Scripts name its type as the Anthropic Messages API does."""

from dataclasses import dataclass
from typing import Final

TYPE_OF_STATUS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
STATUS_OF_TYPE: Final = {type_: status for status, type_ in TYPE_OF_STATUS.items()}


@dataclass(frozen=True, slots=True)
class ModelError:
    """What went wrong. `type` is the script's: a name of the table, or one that an API knows better, or None."""

    status: int
    message: str
    type: str | None = None
    retry_after: str | None = None

    @property
    def own_type(self) -> str | None:
        """The type that goes out as the script wrote it, because the table does not have it."""
        return None if self.type in STATUS_OF_TYPE else self.type

    @property
    def meant_status(self) -> int:
        """The status that the type stands for, or else the status itself: it decides how the error is worded."""
        return STATUS_OF_TYPE.get(self.type or "", self.status)


def error_in_stream(type_: str | None, message: str) -> ModelError:
    """Return an error that comes after the status was sent; without a type the model is overloaded."""
    return ModelError(STATUS_OF_TYPE.get(type_ or "overloaded_error", 500), message, type_ or "overloaded_error")

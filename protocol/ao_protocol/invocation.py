"""Invocations: the line that an executor reads on stdin to begin a run (SPEC 4)."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import Field, JsonValue, ValidationError, model_validator

from ao_protocol.blueprint import Blueprint
from ao_protocol.errors import ErrorType
from ao_protocol.upgrade import upgrade_invocation
from ao_protocol.version import (
    MalformedSchemaVersion,
    SchemaVersion,
    UnsupportedSchemaVersion,
    negotiate,
    supported_texts,
)
from ao_protocol.wire import Identifier, Integer, JsonObject, Name, Seconds, WireModel, problems_of

KNOWN_REQUIREMENTS: Final[frozenset[str]] = frozenset()
"""Features that `requires` may name. Version 3.0 defines none: each later one that changes meaning goes here."""


class Limits(WireModel):
    """How much a run may use. A limit that is absent is not set."""

    timeout_seconds: Seconds | None = None
    max_turns: Annotated[Integer, Field(ge=1)] | None = None
    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    max_event_bytes: Annotated[Integer, Field(ge=4096)] | None = None
    heartbeat_interval_seconds: Seconds | None = None
    cancel_grace_seconds: Seconds | None = None


class Control(WireModel):
    """Whether control lines follow the invocation on stdin, and whether turns may be among them."""

    stdin: Literal["open", "closed"] = "closed"
    turns: bool = False


class Invocation(WireModel):
    """One run, as the runner asks for it, in the shape of version 3.0 whatever version it came in.

    `schema_version` is the negotiated one: at most what was asked for.
    """

    schema_version: str
    mode: Literal["start", "resume"]
    run_id: Identifier | None = None
    session_id: Identifier | None = None
    parameters: JsonObject
    prompt: Name | None = None
    agent_name: str | None = None
    agent_blueprint: Blueprint | None = None
    output_schema: JsonObject | None = None
    output_schema_source: str | None = None
    output_schema_options: JsonObject | None = None
    project_dir: Annotated[str, Field(pattern=r"^/")] | None = None
    executor_session_id: Identifier | None = None
    executor_config: JsonObject = {}
    limits: Limits = Limits()
    requires: list[str] = []
    control: Control = Control()
    metadata: JsonObject = {}

    @model_validator(mode="after")
    def _resume_names_its_session(self) -> Self:
        if self.mode == "resume" and self.executor_session_id is None and self.schema_version.startswith("3."):
            raise ValueError("executor_session_id is missing; expected the one that session_bound announced")
        return self


class InvocationRefused(ValueError):
    """An invocation that no work is done for. It becomes a `failure` with exit code 64."""

    def __init__(
        self,
        error_type: ErrorType,
        message: str,
        details: JsonObject | None = None,
        *,
        validation_errors: Sequence[str] = (),
    ) -> None:
        super().__init__(error_type, message, details)
        self.error_type = error_type
        self.message = message
        self.details = details
        self.validation_errors = tuple(validation_errors)

    def __str__(self) -> str:
        return self.message


def invocation_from_document(document: dict[str, JsonValue]) -> Invocation:
    """Read an invocation of any supported version.

    Args:
        document: What `decode_object` returned for the line.

    Returns:
        The invocation in the shape of version 3.0.

    Raises:
        InvocationRefused: with `unsupported_schema_version` (`details.requested`, `details.supported`),
            `unsupported_capability` (`details.missing`) or `invalid_invocation` (`details.problems`).
    """
    version = _negotiated_version(document)
    upgraded = upgrade_invocation(document, version)
    present = {name: value for name, value in upgraded.items() if value is not None}
    try:
        invocation = Invocation.model_validate(present | {"schema_version": str(version)})
    except ValidationError as error:
        raise _invalid(problems_of(error, present)) from error
    missing = [name for name in invocation.requires if name not in KNOWN_REQUIREMENTS]
    if missing:
        raise InvocationRefused(
            ErrorType.UNSUPPORTED_CAPABILITY,
            f"the invocation requires {', '.join(missing)}, which this executor does not know",
            {"missing": list(missing)},
        )
    return invocation


def _negotiated_version(document: dict[str, JsonValue]) -> SchemaVersion:
    try:
        return negotiate(SchemaVersion.parse(document.get("schema_version")))
    except MalformedSchemaVersion as error:
        raise _invalid([f"$.{error}"]) from error
    except UnsupportedSchemaVersion as error:
        raise InvocationRefused(
            ErrorType.UNSUPPORTED_SCHEMA_VERSION,
            str(error),
            {"requested": str(error.requested), "supported": list[JsonValue](supported_texts())},
        ) from error


def _invalid(problems: list[str]) -> InvocationRefused:
    message = f"invalid invocation: {'; '.join(problems)}"
    return InvocationRefused(ErrorType.INVALID_INVOCATION, message, {"problems": list[JsonValue](problems)})

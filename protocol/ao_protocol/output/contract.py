"""Output contracts: what a final answer must look like, and where that demand came from (SPEC 9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

from ao_protocol.errors import ErrorType
from ao_protocol.output.options import DEFAULT_RETRIES, Strategy, ValidationMode

BLUEPRINT_RETRIES: Final = 1

ResponseForm: TypeAlias = Literal["xml", "json", "markdown"]


class SchemaSource(StrEnum):
    """Who demands the contract."""

    BLUEPRINT = "blueprint"
    INLINE = "inline"
    NAMED = "named"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """The answer is JSON that validates against `schema`, which has been vetted."""

    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AgentResponseFormat:
    """The answer is an agent's response, written in `form`; what becomes `result_data` is its model as JSON."""

    form: ResponseForm


OutputFormat: TypeAlias = JsonFormat | AgentResponseFormat


@dataclass(frozen=True, slots=True)
class OutputContract:
    """What a final answer must look like.

    `max_retries` is how often the model is asked again. Without `extract_json`, or with `strict_json_only`, the answer
    must be JSON from its first character to its last. `strategy` is how the model is asked, see `with_strategy`.
    """

    format: OutputFormat
    source: SchemaSource
    max_retries: int = DEFAULT_RETRIES
    extract_json: bool = True
    strict_json_only: bool = False
    validation_mode: ValidationMode = ValidationMode.STRICT
    strategy: Strategy | None = None

    @property
    def error_type(self) -> ErrorType:
        """Return the `error.type` of a run whose answer never kept this contract."""
        if self.source is SchemaSource.BLUEPRINT:
            return ErrorType.OUTPUT_SCHEMA_VALIDATION_FAILED
        return ErrorType.SCHEMA_VALIDATION_FAILED

    @property
    def is_callers(self) -> bool:
        """Tell whether the run's caller demands it, by a schema inline or by name; else the agent's designer does."""
        return self.source in {SchemaSource.INLINE, SchemaSource.NAMED}

"""Which output contract a run has, and where that demand came from (SPEC 9.1)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from ao_protocol.errors import ErrorType
from ao_protocol.output.problems import Problem, listed, shown
from ao_protocol.output.schema_vetting import check_schema
from ao_protocol.places import below

BLUEPRINT_RETRIES: Final = 1
DEFAULT_RETRIES: Final = 2
MAX_RETRIES: Final = 10


class SchemaSource(StrEnum):
    """Who demands the contract."""

    BLUEPRINT = "blueprint"
    INLINE = "inline"


class ValidationMode(StrEnum):
    """How an answer is read before it is judged; the schema is enforced in both."""

    STRICT = "strict"
    LENIENT = "lenient"
    """Trailing commas, comments and the like are read over where that cannot change data."""


@dataclass(frozen=True, slots=True)
class OutputContract:
    """What a final answer must look like.

    `schema` has been vetted. `max_retries` is how often the model is asked again. Without `extract_json`, or with
    `strict_json_only`, the answer must be JSON from its first character to its last.
    """

    schema: Mapping[str, Any]
    source: SchemaSource
    max_retries: int = DEFAULT_RETRIES
    extract_json: bool = True
    strict_json_only: bool = False
    validation_mode: ValidationMode = ValidationMode.STRICT

    @property
    def error_type(self) -> ErrorType:
        """Return the `error.type` of a run whose answer never kept this contract."""
        if self.source is SchemaSource.BLUEPRINT:
            return ErrorType.OUTPUT_SCHEMA_VALIDATION_FAILED
        return ErrorType.SCHEMA_VALIDATION_FAILED


@dataclass(eq=False)
class InvalidOptions(ValueError):
    """`output_schema_options` asks for something unknown or impossible. `problems` holds every reason."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


def resolve_contract(
    blueprint_schema: Mapping[str, Any] | None,
    inline_schema: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> OutputContract | None:
    """Return the contract of a run, or None when nobody demands one.

    The blueprint's schema is authoritative: no caller overrides it, its answers are asked for again once, and the
    caller's options do not apply to it. Otherwise the run's inline schema holds, under the caller's options.
    An empty schema is a contract: any JSON value keeps it.

    Raises:
        InvalidSchema: the schema that holds cannot be enforced.
        InvalidOptions: an option is unknown or has a wrong value, whichever schema holds.
    """
    chosen = _checked(options or {})
    if blueprint_schema is not None:
        check_schema(blueprint_schema)
        return OutputContract(blueprint_schema, SchemaSource.BLUEPRINT, max_retries=BLUEPRINT_RETRIES)
    if inline_schema is not None:
        check_schema(inline_schema)
        return OutputContract(inline_schema, SchemaSource.INLINE, **chosen)
    return None


def _checked(options: Mapping[str, Any]) -> dict[str, Any]:
    problems = [problem for name, option in options.items() if (problem := _problem_of(name, option)) is not None]
    if problems:
        raise InvalidOptions(tuple(problems))
    chosen = {name: option for name, option in options.items() if option is not None}
    if "validation_mode" in chosen:
        chosen["validation_mode"] = ValidationMode(chosen["validation_mode"])
    return chosen


def _problem_of(name: str, option: object) -> Problem | None:
    path = below("$.output_schema_options", name)
    if name not in _KNOWN_OPTIONS:
        return Problem(path, f"is not known; known are {listed(sorted(_KNOWN_OPTIONS))}")
    expected, fits = _KNOWN_OPTIONS[name]
    if option is None or fits(option):
        return None
    return Problem(path, f"expected {expected}, found {shown(option)}")


def _is_retry_count(option: object) -> bool:
    return type(option) is int and 0 <= option <= MAX_RETRIES


def _is_boolean(option: object) -> bool:
    return isinstance(option, bool)


def _is_mode(option: object) -> bool:
    return isinstance(option, str) and option in set(ValidationMode)


_KNOWN_OPTIONS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = MappingProxyType(
    {
        "max_retries": (f"an integer from 0 to {MAX_RETRIES}", _is_retry_count),
        "extract_json": ("true or false", _is_boolean),
        "strict_json_only": ("true or false", _is_boolean),
        "validation_mode": (" or ".join(repr(str(mode)) for mode in ValidationMode), _is_mode),
    }
)

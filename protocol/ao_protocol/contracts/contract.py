"""Output contracts: what a final answer must look like, and the options that a caller may give (SPEC 9.7).

For the options: what there is, what holds where nothing is said, what contradicts. For a contract: where its demand
came from.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from ao_protocol.contracts.problems import Problem, listed, shown
from ao_protocol.errors import ErrorType
from ao_protocol.json_path import below

DEFAULT_RETRIES: Final = 2
MAX_RETRIES: Final = 10
RETRIES_VARIABLE: Final = "SCHEMA_ENFORCEMENT_MAX_RETRIES"
EXTRACT_VARIABLE: Final = "SCHEMA_ENFORCEMENT_EXTRACT_JSON"

PLACE: Final = "$.output_schema_options"


class ValidationMode(StrEnum):
    """How an answer is read before it is judged; the schema is enforced in both."""

    STRICT = "strict"
    LENIENT = "lenient"
    """Trailing commas, comments and the like are read over where that cannot change data."""


class Strategy(StrEnum):
    """How a model is brought to answer in the format that is demanded."""

    PROMPT = "prompt"
    """The demand is the last section of the user's prompt."""
    SYSTEM_PROMPT = "system_prompt"
    """The demand is the last section of the system prompt."""
    EXTRACT = "extract"
    """Nothing is said to the model; what it answers is searched and judged."""
    NATIVE = "native"
    """The provider's own structured output; its value is judged here all the same."""
    AUTO = "auto"
    """`native` where the executor has it and the contract can be put so, else `system_prompt`."""


@dataclass(eq=False)
class InvalidOptions(ValueError):
    """The options hold something unknown, impossible or contradictory. `problems` holds every reason."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


@dataclass(frozen=True, slots=True)
class OptionDefaults:
    """What holds where a caller says nothing."""

    max_retries: int = DEFAULT_RETRIES
    extract_json: bool = True


USUAL_DEFAULTS: Final = OptionDefaults()


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The options of a contract, each with its value."""

    max_retries: int = DEFAULT_RETRIES
    extract_json: bool = True
    strict_json_only: bool = False
    validation_mode: ValidationMode = ValidationMode.STRICT
    strategy: Strategy | None = None


def options_from(
    given: Mapping[str, Any] | None, defaults: OptionDefaults = USUAL_DEFAULTS, place: str = PLACE
) -> OutputOptions:
    """Return the options that hold; null means that an option is not given.

    The strategy `extract` asks again only where `max_retries` says so, and extracts whatever the defaults say.

    Raises:
        InvalidOptions: naming each option that is unknown, has a wrong value, or contradicts another.
    """
    chosen = {name: option for name, option in (given or {}).items() if option is not None}
    problems = [problem for name, option in chosen.items() if (problem := _problem_of(name, option, place)) is not None]
    problems = problems or list(_contradictions(chosen, place))
    if problems:
        raise InvalidOptions(tuple(problems))
    only_extracts = chosen.get("strategy") == Strategy.EXTRACT
    strategy = chosen.get("strategy")
    return OutputOptions(
        max_retries=int(chosen.get("max_retries", 0 if only_extracts else defaults.max_retries)),
        extract_json=chosen.get("extract_json", only_extracts or defaults.extract_json),
        strict_json_only=chosen.get("strict_json_only", False),
        validation_mode=ValidationMode(chosen.get("validation_mode", ValidationMode.STRICT)),
        strategy=None if strategy is None else Strategy(strategy),
    )


def defaults_from(environ: Mapping[str, str]) -> OptionDefaults:
    """Return the defaults that two environment variables may set; an empty one is not set.

    Raises:
        InvalidOptions: naming each variable whose value cannot be meant.
    """
    retries, extract = environ.get(RETRIES_VARIABLE, "").strip(), environ.get(EXTRACT_VARIABLE, "").strip()
    problems = []
    if retries and not (retries.isascii() and retries.isdigit() and _is_retry_count(int(retries[:9]))):
        problems.append(Problem(RETRIES_VARIABLE, f"expected {_RETRY_COUNT}, found {shown(retries)}"))
    if extract and extract.lower() not in _BOOLEANS:
        problems.append(Problem(EXTRACT_VARIABLE, f"expected true or false, found {shown(extract)}"))
    if problems:
        raise InvalidOptions(tuple(problems))
    return OptionDefaults(
        max_retries=int(retries) if retries else DEFAULT_RETRIES,
        extract_json=_BOOLEANS[extract.lower()] if extract else True,
    )


def options_to_send(given: Mapping[str, Any] | None, defaults: OptionDefaults) -> dict[str, Any]:
    """Return the options to put into an invocation, whose reader has the usual defaults and not these."""
    chosen = {name: option for name, option in (given or {}).items() if option is not None}
    if chosen.get("strategy") == Strategy.EXTRACT:
        return chosen
    if defaults.max_retries != USUAL_DEFAULTS.max_retries:
        chosen.setdefault("max_retries", defaults.max_retries)
    if defaults.extract_json != USUAL_DEFAULTS.extract_json:
        chosen.setdefault("extract_json", defaults.extract_json)
    return chosen


def _problem_of(name: str, option: object, place: str) -> Problem | None:
    path = below(place, name)
    if name not in _KNOWN_OPTIONS:
        return Problem(path, f"is not known; known are {listed(sorted(_KNOWN_OPTIONS))}")
    expected, fits = _KNOWN_OPTIONS[name]
    return None if fits(option) else Problem(path, f"expected {expected}, found {shown(option)}")


def _contradictions(chosen: Mapping[str, Any], place: str) -> Iterator[Problem]:
    is_strict = chosen.get("strict_json_only") is True
    only_extracts = chosen.get("strategy") == Strategy.EXTRACT
    if is_strict and chosen.get("extract_json") is True:
        yield Problem(
            below(place, "extract_json"), "true contradicts strict_json_only, with which any prose fails; give one"
        )
    if is_strict and chosen.get("validation_mode") == ValidationMode.LENIENT:
        yield Problem(
            below(place, "validation_mode"),
            "'lenient' contradicts strict_json_only, since what it repairs is no JSON; "
            "for a whole text that may be repaired give extract_json false",
        )
    if only_extracts and is_strict:
        yield Problem(below(place, "strict_json_only"), "true contradicts strategy 'extract', which looks inside prose")
    if only_extracts and chosen.get("extract_json") is False:
        yield Problem(below(place, "extract_json"), "false contradicts strategy 'extract', which only extracts")


def _is_retry_count(option: object) -> bool:
    is_whole = type(option) is int or (type(option) is float and option.is_integer())
    return is_whole and 0 <= option <= MAX_RETRIES  # type: ignore[operator]  # a number, as the line above says


def _is_boolean(option: object) -> bool:
    return isinstance(option, bool)


def _is_mode(option: object) -> bool:
    return isinstance(option, str) and option in set(ValidationMode)


def _is_strategy(option: object) -> bool:
    return isinstance(option, str) and option in set(Strategy)


def _one_of(values: type[StrEnum]) -> str:
    *others, last = [repr(str(value)) for value in values]
    return f"{', '.join(others)} or {last}"


_RETRY_COUNT: Final = f"an integer from 0 to {MAX_RETRIES}"
_BOOLEANS: Final[Mapping[str, bool]] = MappingProxyType({"true": True, "1": True, "false": False, "0": False})
_KNOWN_OPTIONS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = MappingProxyType(
    {
        "max_retries": (_RETRY_COUNT, _is_retry_count),
        "extract_json": ("true or false", _is_boolean),
        "strict_json_only": ("true or false", _is_boolean),
        "validation_mode": (_one_of(ValidationMode), _is_mode),
        "strategy": (_one_of(Strategy), _is_strategy),
    }
)


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

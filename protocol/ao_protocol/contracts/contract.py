"""Output contracts: what a final answer must look like, who demands it, and how the model is asked (SPEC 9.1).

| order | demand | retries | a caller may replace it |
| --- | --- | --- | --- |
| 1 | the blueprint's `output_schema` or `output_format` | 1 | no: trying to is refused |
| 2 | the run's inline `output_schema` | its options | |
| 3 | a schema that the run names | its options | |
| 4 | the blueprint's `default_output_schema` | its options | yes |
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ao_protocol.contracts.problems import Problem, canonical_json, listed, shown
from ao_protocol.contracts.validation import check_schema, vetted_document
from ao_protocol.documents import Blueprint, Invocation
from ao_protocol.errors import ErrorType
from ao_protocol.json_path import below

if TYPE_CHECKING:
    from pydantic import JsonValue

DEFAULT_RETRIES: Final = 2
BLUEPRINT_RETRIES: Final = 1
MAX_RETRIES: Final = 10
RETRIES_VARIABLE: Final = "SCHEMA_ENFORCEMENT_MAX_RETRIES"
EXTRACT_VARIABLE: Final = "SCHEMA_ENFORCEMENT_EXTRACT_JSON"

PLACE: Final = "$.output_schema_options"
_DEFAULT_OPTIONS_PLACE: Final = "$.agent_blueprint.default_output_schema_options"


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


USUAL: Final = Strategy.SYSTEM_PROMPT
_FREE_OPTIONS: Final = frozenset({"strategy"})
"""What a caller may choose beside an authoritative contract: how the model is asked, never what it must deliver."""
_RESPONSE_STRATEGIES: Final = frozenset({Strategy.PROMPT, Strategy.SYSTEM_PROMPT, Strategy.AUTO})


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
    chosen = _given(given)
    problems = [problem for name in chosen for problem in _option_problems(name, chosen[name], below(place, name))]
    problems = problems or list(_contradictions(chosen, place))
    if problems:
        raise InvalidOptions(tuple(problems))
    strategy = Strategy(chosen["strategy"]) if "strategy" in chosen else None
    only_extracts = strategy is Strategy.EXTRACT
    return OutputOptions(
        max_retries=int(chosen.get("max_retries", 0 if only_extracts else defaults.max_retries)),
        extract_json=chosen.get("extract_json", only_extracts or defaults.extract_json),
        strict_json_only=chosen.get("strict_json_only", False),
        validation_mode=ValidationMode(chosen.get("validation_mode", ValidationMode.STRICT)),
        strategy=strategy,
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
    chosen = _given(given)
    if chosen.get("strategy") == Strategy.EXTRACT:
        return chosen
    ours, usual = asdict(defaults), asdict(USUAL_DEFAULTS)
    return chosen | {name: ours[name] for name in ours if ours[name] != usual[name] and name not in chosen}


def _given(options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: option for name, option in (options or {}).items() if option is not None}


def _option_problems(name: str, option: object, path: str) -> Iterator[Problem]:
    if name not in _KNOWN_OPTIONS:
        yield Problem(path, f"is not known; known are {listed(sorted(_KNOWN_OPTIONS))}")
        return
    expected, fits = _KNOWN_OPTIONS[name]
    if not fits(option):
        yield Problem(path, f"expected {expected}, found {shown(option)}")


def _contradictions(chosen: Mapping[str, Any], place: str) -> Iterator[Problem]:
    is_strict = chosen.get("strict_json_only") is True
    only_extracts = chosen.get("strategy") == Strategy.EXTRACT
    if is_strict and chosen.get("extract_json") is True:
        message = "true contradicts strict_json_only, with which any prose fails; give one"
        yield Problem(below(place, "extract_json"), message)
    if is_strict and chosen.get("validation_mode") == ValidationMode.LENIENT:
        message = (
            "'lenient' contradicts strict_json_only, since what it repairs is no JSON; "
            "for a whole text that may be repaired give extract_json false"
        )
        yield Problem(below(place, "validation_mode"), message)
    if only_extracts and is_strict:
        yield Problem(below(place, "strict_json_only"), "true contradicts strategy 'extract', which looks inside prose")
    if only_extracts and chosen.get("extract_json") is False:
        yield Problem(below(place, "extract_json"), "false contradicts strategy 'extract', which only extracts")


def _is_retry_count(option: object) -> bool:
    is_whole = type(option) is int or (type(option) is float and option.is_integer())
    return is_whole and 0 <= option <= MAX_RETRIES  # type: ignore[operator]  # a number, as the line above says


def _one_of(values: type[StrEnum]) -> tuple[str, Callable[[object], bool]]:
    *others, last = [repr(str(value)) for value in values]
    return f"{', '.join(others)} or {last}", lambda option: isinstance(option, str) and option in set(values)


_RETRY_COUNT: Final = f"an integer from 0 to {MAX_RETRIES}"
_BOOLEANS: Final[Mapping[str, bool]] = MappingProxyType({"true": True, "1": True, "false": False, "0": False})
_KNOWN_OPTIONS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = MappingProxyType(
    {
        "max_retries": (_RETRY_COUNT, _is_retry_count),
        "extract_json": ("true or false", lambda option: isinstance(option, bool)),
        "strict_json_only": ("true or false", lambda option: isinstance(option, bool)),
        "validation_mode": _one_of(ValidationMode),
        "strategy": _one_of(Strategy),
    }
)

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


@dataclass(eq=False)
class ContractOverridden(ValueError):
    """A caller asks for something else than the contract that the agent's designer has laid down."""

    what: str
    authoritative: str
    place: str = "$.output_schema"

    @property
    def problem(self) -> Problem:
        """Return it with the place in the invocation."""
        return Problem(self.place, str(self))

    def __str__(self) -> str:
        return (
            f"{self.what} cannot replace the agent's {self.authoritative}, which is authoritative; leave it out, or "
            "let the blueprint say default_output_schema, which a run may replace"
        )


@dataclass(frozen=True, slots=True)
class Demands:
    """Everything that anybody asks of a run's answer. Schemas are as they were written; None is no demand."""

    authoritative: OutputFormat | None = None
    inline: Mapping[str, Any] | None = None
    named: Mapping[str, Any] | None = None
    default: Mapping[str, Any] | None = None
    options: Mapping[str, Any] | None = None
    default_options: Mapping[str, Any] | None = None
    """The designer's options for `default`; the run's own win."""


def demands_of(invocation: Invocation) -> Demands:
    """Return what an invocation demands. A schema without a source is the caller's own.

    Raises:
        InvalidOptions: the source is none that there is.
    """
    blueprint = invocation.agent_blueprint or Blueprint(name="agent")
    demands = replace(demands_of_blueprint(blueprint), options=invocation.output_schema_options)
    schema, source = invocation.output_schema, invocation.output_schema_source or SchemaSource.INLINE
    if source not in set(SchemaSource):
        message = f"expected one of {listed(map(str, SchemaSource))}, found {shown(source)}"
        raise InvalidOptions((Problem("$.output_schema_source", message),))
    if schema is None:
        return demands
    if source == SchemaSource.NAMED:
        return replace(demands, named=schema)
    if source == SchemaSource.BLUEPRINT and demands.authoritative is None:
        return replace(demands, authoritative=JsonFormat(schema))
    if source == SchemaSource.DEFAULT and demands.authoritative is None:
        return replace(demands, default=schema)
    return replace(demands, inline=schema)


def demands_of_blueprint(blueprint: Blueprint) -> Demands:
    """Return what the designer demands."""
    authoritative: OutputFormat | None = None
    if blueprint.output_schema is not None:
        authoritative = JsonFormat(blueprint.output_schema)
    elif blueprint.output_format is not None:
        authoritative = AgentResponseFormat(blueprint.output_format.form)
    return Demands(
        authoritative=authoritative,
        default=blueprint.default_output_schema,
        default_options=blueprint.default_output_schema_options,
    )


def takes_defaults(demands: Demands) -> bool:
    """Tell whether there is a contract to which anybody's defaults apply."""
    return demands.authoritative is None and not (demands.inline is demands.named is demands.default is None)


def resolve_contract(demands: Demands, defaults: OptionDefaults = USUAL_DEFAULTS) -> OutputContract | None:
    """Return the contract of a run, or None when nobody demands one. An empty schema is a contract.

    Raises:
        ContractOverridden: a caller's schema or options stand beside an authoritative contract and differ from it.
        InvalidOptions: an option is unknown, impossible or contradictory, whichever contract holds.
        InvalidSchema: the schema that holds cannot be enforced.
    """
    options = options_from(demands.options, defaults)
    if demands.authoritative is not None:
        return _authoritative(demands, demands.authoritative, options)
    if demands.inline is not None:
        schema, source = demands.inline, SchemaSource.INLINE
    elif demands.named is not None:
        schema, source = demands.named, SchemaSource.NAMED
    elif demands.default is not None:
        schema, source = demands.default, SchemaSource.DEFAULT
        options_from(demands.default_options, defaults, _DEFAULT_OPTIONS_PLACE)
        options = options_from({**(demands.default_options or {}), **_given(demands.options)}, defaults)
    else:
        return None
    check_schema(schema)
    return OutputContract(JsonFormat(schema), source, **asdict(options))


def _authoritative(demands: Demands, wanted: OutputFormat, options: OutputOptions) -> OutputContract:
    name = "output_schema" if isinstance(wanted, JsonFormat) else "output_format"
    for schema, what in ((demands.inline, "the run's output_schema"), (demands.named, "the schema that the run names")):
        same = isinstance(wanted, JsonFormat) and canonical_json(schema) == canonical_json(wanted.schema)
        if schema is not None and not same:
            raise ContractOverridden(what, name)
    if bound := sorted(_given(demands.options).keys() - _FREE_OPTIONS):
        raise ContractOverridden(f"the run's output_schema_options ({', '.join(bound)})", name, PLACE)
    if isinstance(wanted, JsonFormat):
        check_schema(wanted.schema)
    elif options.strategy is not None and options.strategy not in _RESPONSE_STRATEGIES:
        expected = listed(sorted(map(str, _RESPONSE_STRATEGIES)))
        message = f"an agent's response is asked for by {expected}, found {shown(str(options.strategy))}"
        raise InvalidOptions((Problem(f"{PLACE}.strategy", message),))
    return OutputContract(wanted, SchemaSource.BLUEPRINT, max_retries=BLUEPRINT_RETRIES, strategy=options.strategy)


@dataclass(eq=False)
class StrategyNotOffered(ValueError):
    """The run wants a strategy that its executor does not have."""

    wanted: str
    offered: tuple[str, ...]

    def __str__(self) -> str:
        return f"strategy {str(self.wanted)!r} is not available for this contract; use {' or '.join(self.offered)}"


def with_strategy(
    contract: OutputContract, offered: Collection[str], *, is_resume: bool = False, usual: Strategy = USUAL
) -> OutputContract:
    """Return the contract with the strategy that is used.

    Nothing said means `usual`, or the first that is offered where that is not. `auto` means `native` where it
    is offered and the schema can be handed to a provider, else what nothing said means. In a resume `system_prompt`
    gives way to `prompt` where that is offered: a session may keep the system prompt that it began with.

    Raises:
        StrategyNotOffered: the run wants one that is not offered, or `native` for a contract that cannot be put so.
    """
    usual = usual if usual in offered else Strategy(next(iter(offered)))
    is_asked_for = contract.strategy in {Strategy.NATIVE, Strategy.AUTO}
    can_be_native = is_asked_for and Strategy.NATIVE in offered and _can_be_native(contract.format)
    match contract.strategy:
        case None:
            chosen = usual
        case Strategy.AUTO:
            chosen = Strategy.NATIVE if can_be_native else usual
        case Strategy.NATIVE if not can_be_native:
            raise StrategyNotOffered(contract.strategy, tuple(name for name in offered if name != Strategy.NATIVE))
        case wanted if wanted not in offered:
            raise StrategyNotOffered(wanted, tuple(offered))
        case wanted:
            chosen = wanted
    if is_resume and chosen is Strategy.SYSTEM_PROMPT and Strategy.PROMPT in offered:
        chosen = Strategy.PROMPT
    return replace(contract, strategy=chosen)


def _can_be_native(demanded: OutputFormat) -> bool:
    if not isinstance(demanded, JsonFormat):
        return False
    return len(json.dumps(native_schema(demanded.schema).document).encode()) <= MAX_NATIVE_BYTES


MAX_NATIVE_BYTES: Final = 100_000
"""A provider's client takes the schema as one argument of a program, of which Linux allows 131,072 bytes."""
_WRAPPER: Final = "value"
_NOT_AT_THE_ROOT: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf"})


@dataclass(frozen=True, slots=True)
class NativeSchema:
    """The schema to hand to a provider; where it had to be wrapped, the answer stands in the member `value`."""

    document: dict[str, Any]
    is_wrapped: bool

    def unwrap(self, value: "JsonValue") -> "JsonValue":
        """Return the answer that a provider's value holds; one that is not wrapped as agreed is left as it is."""
        if self.is_wrapped and isinstance(value, dict) and value.keys() == {_WRAPPER}:
            return value[_WRAPPER]
        return value


def native_schema(schema: Mapping[str, Any]) -> NativeSchema:
    """Return a schema as a provider takes it.

    Measured on the Claude CLI 2.1.330: `$schema` 2020-12 makes it exit, and the tool that carries the answer takes
    objects only; the Messages API takes no `allOf`, `anyOf` or `oneOf` at the root of a tool's schema. So `$schema` and
    `$id` go, references become pointers, and a schema that is not plainly one of an object becomes a member of one.

    Raises:
        InvalidSchema: the schema is not acceptable.
    """
    if schema.get("type") == "object" and _NOT_AT_THE_ROOT.isdisjoint(schema):
        return NativeSchema(vetted_document(schema), is_wrapped=False)
    inner = vetted_document(schema, f"/properties/{_WRAPPER}")
    wrapped = {"type": "object", "required": [_WRAPPER], "additionalProperties": False, "properties": {_WRAPPER: inner}}
    return NativeSchema(wrapped, is_wrapped=True)

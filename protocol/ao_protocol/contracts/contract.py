"""Output contracts: the required form of the final answer, its source, and the strategy (SPEC 9.1, 9.6, 9.7).

| order | source | retries | a caller may replace it |
| --- | --- | --- | --- |
| 1 | the blueprint's `output_schema` or `output_format` | 1 | no: the attempt is refused |
| 2 | the run's inline `output_schema` | its options | |
| 3 | a schema that the run names | its options | |
| 4 | the blueprint's `default_output_schema` | its options | yes |
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from ao_protocol.contracts.checks import check_schema
from ao_protocol.contracts.problems import Problem, canonical_json
from ao_protocol.documents import Blueprint, Invocation
from ao_protocol.errors import ErrorType
from ao_protocol.json_path import below
from ao_protocol.json_words import listed, shown

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
    """How an answer is read before it is validated. Both modes enforce the schema."""

    STRICT = "strict"
    LENIENT = "lenient"
    """Trailing commas, comments and similar slips are tolerated if that cannot change data."""


class Ambiguity(StrEnum):
    """What follows if an answer has several values that fit and differ."""

    REPORT = "report"
    """The last one of the best place is the answer, and the result says that there was another."""
    REFUSE = "refuse"
    """The answer does not fit."""


class Strategy(StrEnum):
    """How a model is asked for the required format (SPEC 9.6). The list is open: a program may declare others."""

    PROMPT = "prompt"
    """The demand is the last section of the user's prompt."""
    SYSTEM_PROMPT = "system_prompt"
    """The demand is the last section of the system prompt."""
    EXTRACT = "extract"
    """The model is not asked for a format; its answer is searched and validated."""
    NATIVE = "native"
    """The provider's own structured output, which is validated like any other answer."""
    TOOL = "tool"
    """The agent submits its answer by a call of the tool `submit_answer`, whose input is the answer."""
    AUTO = "auto"
    """`native` if the executor has it and the provider can take the contract, else `tool`, else the default."""


USUAL: Final = Strategy.SYSTEM_PROMPT
_FREE_OPTIONS: Final = frozenset({"strategy", "ambiguous"})
"""Options that a caller may set beside an authoritative schema: how the model is asked, and how clear its answer is."""
_RESPONSE_STRATEGIES: Final = frozenset({Strategy.PROMPT, Strategy.SYSTEM_PROMPT, Strategy.AUTO})


@dataclass(eq=False)
class InvalidOptions(ValueError):
    """Options that are unknown, invalid or contradictory. `problems` lists every reason."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """The options of a contract (SPEC 9.7), each with its value."""

    max_retries: int = DEFAULT_RETRIES
    extract_json: bool = True
    strict_json_only: bool = False
    validation_mode: ValidationMode = ValidationMode.STRICT
    strategy: Strategy | str | None = None
    ambiguous: Ambiguity = Ambiguity.REPORT


USUAL_OPTIONS: Final = OutputOptions()
"""The options of a contract whose caller gives none, where the environment sets no other defaults."""


def options_from(
    given: Mapping[str, Any] | None, defaults: OutputOptions = USUAL_OPTIONS, place: str = PLACE
) -> OutputOptions:
    """Return the options that apply. An option that is null counts as absent.

    With the strategy `extract`, the default of `max_retries` is 0 and that of `extract_json` is true.

    Raises:
        InvalidOptions: An option is unknown, has an invalid value, or contradicts another.
    """
    chosen = _given(given)
    problems = [problem for name in chosen for problem in _option_problems(name, chosen[name], below(place, name))]
    problems = problems or list(_contradictions(chosen, place))
    if problems:
        raise InvalidOptions(tuple(problems))
    strategy = _strategy_of(chosen["strategy"]) if "strategy" in chosen else None
    only_extracts = strategy is Strategy.EXTRACT
    return OutputOptions(
        max_retries=int(chosen.get("max_retries", 0 if only_extracts else defaults.max_retries)),
        extract_json=chosen.get("extract_json", only_extracts or defaults.extract_json),
        strict_json_only=chosen.get("strict_json_only", False),
        validation_mode=ValidationMode(chosen.get("validation_mode", ValidationMode.STRICT)),
        strategy=strategy,
        ambiguous=Ambiguity(chosen.get("ambiguous", Ambiguity.REPORT)),
    )


def default_options(environ: Mapping[str, str]) -> OutputOptions:
    """Return the defaults of options, which two environment variables may set. An empty variable counts as absent.

    Raises:
        InvalidOptions: A variable has an invalid value.
    """
    retries, extract = environ.get(RETRIES_VARIABLE, "").strip(), environ.get(EXTRACT_VARIABLE, "").strip()
    problems = []
    if retries and not (retries.isascii() and retries.isdigit() and _is_retry_count(int(retries[:9]))):
        problems.append(Problem(RETRIES_VARIABLE, f"expected {_RETRY_COUNT}, found {shown(retries)}"))
    if extract and extract.lower() not in _BOOLEANS:
        problems.append(Problem(EXTRACT_VARIABLE, f"expected true or false, found {shown(extract)}"))
    if problems:
        raise InvalidOptions(tuple(problems))
    return OutputOptions(
        max_retries=int(retries) if retries else DEFAULT_RETRIES,
        extract_json=_BOOLEANS[extract.lower()] if extract else True,
    )


def options_to_send(given: Mapping[str, Any] | None, defaults: OutputOptions) -> dict[str, Any]:
    """Return the options to write into an invocation, whose reader has the usual defaults and not these."""
    chosen = _given(given)
    if chosen.get("strategy") == Strategy.EXTRACT:
        return chosen
    ours, usual = asdict(defaults), asdict(USUAL_OPTIONS)
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
            '"lenient" contradicts strict_json_only, since what it repairs is no JSON; '
            "for a whole text that may be repaired give extract_json false"
        )
        yield Problem(below(place, "validation_mode"), message)
    if only_extracts and is_strict:
        yield Problem(below(place, "strict_json_only"), 'true contradicts strategy "extract", which looks inside prose')
    if only_extracts and chosen.get("extract_json") is False:
        yield Problem(below(place, "extract_json"), 'false contradicts strategy "extract", which only extracts')


def _is_retry_count(option: object) -> bool:
    is_whole = type(option) is int or (type(option) is float and option.is_integer())
    return is_whole and 0 <= option <= MAX_RETRIES  # type: ignore[operator]  # is_whole implies a number


def _strategy_of(name: str) -> Strategy | str:
    return Strategy(name) if name in set(Strategy) else name


def _one_of(values: type[StrEnum]) -> tuple[str, Callable[[object], bool]]:
    *others, last = [shown(str(value)) for value in values]
    return f"{', '.join(others)} or {last}", lambda option: isinstance(option, str) and option in set(values)


_RETRY_COUNT: Final = f"an integer from 0 to {MAX_RETRIES}"
_BOOLEANS: Final[Mapping[str, bool]] = MappingProxyType({"true": True, "1": True, "false": False, "0": False})
_KNOWN_OPTIONS: Final[Mapping[str, tuple[str, Callable[[object], bool]]]] = MappingProxyType(
    {
        "max_retries": (_RETRY_COUNT, _is_retry_count),
        "extract_json": ("true or false", lambda option: isinstance(option, bool)),
        "strict_json_only": ("true or false", lambda option: isinstance(option, bool)),
        "validation_mode": _one_of(ValidationMode),
        "ambiguous": _one_of(Ambiguity),
        "strategy": ("a text that is not empty", lambda option: isinstance(option, str) and option != ""),
    }
)

ResponseForm: TypeAlias = Literal["xml", "json", "markdown"]


class SchemaSource(StrEnum):
    """The source of a contract (SPEC 9.1)."""

    BLUEPRINT = "blueprint"
    INLINE = "inline"
    NAMED = "named"
    DEFAULT = "default"


class JsonFormat(NamedTuple):
    """An answer that is JSON and validates against `schema`."""

    schema: Mapping[str, Any]


class AgentResponseFormat(NamedTuple):
    """An answer that is an agent's response, written in `form` (SPEC 9.8). `result_data` is its model as JSON."""

    form: ResponseForm


OutputFormat: TypeAlias = JsonFormat | AgentResponseFormat


@dataclass(frozen=True, slots=True)
class OutputContract:
    """The required form of the final answer.

    `max_retries` is the number of retries. Without `extract_json`, or with `strict_json_only`, the whole answer must be
    JSON. `strategy` is how the model is asked; see `with_strategy`.
    """

    format: OutputFormat
    source: SchemaSource
    max_retries: int = DEFAULT_RETRIES
    extract_json: bool = True
    strict_json_only: bool = False
    validation_mode: ValidationMode = ValidationMode.STRICT
    strategy: Strategy | str | None = None
    ambiguous: Ambiguity = Ambiguity.REPORT

    @property
    def error_type(self) -> ErrorType:
        """The `error.type` of a run whose answer does not fit this contract."""
        if self.source is SchemaSource.BLUEPRINT:
            return ErrorType.OUTPUT_SCHEMA_VALIDATION_FAILED
        return ErrorType.SCHEMA_VALIDATION_FAILED

    @property
    def is_callers(self) -> bool:
        """Whether the run's caller demands it, by an inline or a named schema; otherwise the agent's designer does."""
        return self.source in {SchemaSource.INLINE, SchemaSource.NAMED}


@dataclass(eq=False)
class ContractOverridden(ValueError):
    """A demand of the caller differs from the authoritative contract of the blueprint."""

    what: str
    authoritative: str
    place: str = "$.output_schema"

    @property
    def problem(self) -> Problem:
        """The problem, with its path in the invocation."""
        return Problem(self.place, str(self))

    def __str__(self) -> str:
        return (
            f"{self.what} cannot replace the agent's {self.authoritative}, which is authoritative; leave it out, or "
            "let the blueprint say default_output_schema, which a run may replace"
        )


class Demand(NamedTuple):
    """What designer and caller demand of the answer of a run. Schemas are as written; None means no demand."""

    authoritative: OutputFormat | None = None
    schema: Mapping[str, Any] | None = None
    """The schema of the run itself."""
    source: SchemaSource = SchemaSource.INLINE
    """Whether the run has its schema inline, or names it."""
    default: Mapping[str, Any] | None = None
    options: Mapping[str, Any] | None = None
    default_options: Mapping[str, Any] | None = None
    """The designer's options for `default`. The run's options take precedence."""

    @property
    def has_schema(self) -> bool:
        """Whether the run has a contract to which options, and their defaults in the environment, apply."""
        return self.authoritative is None and not (self.schema is self.default is None)


def demand_of(
    blueprint: Blueprint,
    schema: Mapping[str, Any] | None = None,
    source: SchemaSource = SchemaSource.INLINE,
    options: Mapping[str, Any] | None = None,
) -> Demand:
    """Return the demand of an agent's designer, and that of a caller with a schema, its source, and options.

    A schema whose source is `blueprint` or `default` is the designer's, whom a program has asked in place of us.
    """
    authoritative: OutputFormat | None = None
    if blueprint.output_schema is not None:
        authoritative = JsonFormat(blueprint.output_schema)
    elif blueprint.output_format is not None:
        authoritative = AgentResponseFormat(blueprint.output_format.form)
    demand = Demand(
        authoritative=authoritative,
        default=blueprint.default_output_schema,
        options=options,
        default_options=blueprint.default_output_schema_options,
    )
    if schema is None:
        return demand
    if source == SchemaSource.BLUEPRINT and authoritative is None:
        return demand._replace(authoritative=JsonFormat(schema))
    if source == SchemaSource.DEFAULT and authoritative is None:
        return demand._replace(default=schema)
    return demand._replace(schema=schema, source=SchemaSource.NAMED if source == "named" else SchemaSource.INLINE)


def demand_in(invocation: Invocation) -> Demand:
    """Return the demand of an invocation. A schema without a source is inline.

    Raises:
        InvalidOptions: The value of `output_schema_source` is unknown.
    """
    source = invocation.output_schema_source or SchemaSource.INLINE
    if source not in set(SchemaSource):
        message = f"expected one of {listed(map(str, SchemaSource))}, found {shown(source)}"
        raise InvalidOptions((Problem("$.output_schema_source", message),))
    blueprint = invocation.agent_blueprint or Blueprint(name="agent")
    return demand_of(blueprint, invocation.output_schema, SchemaSource(source), invocation.output_schema_options)


def resolve_contract(demand: Demand, environ: Mapping[str, str] = MappingProxyType({})) -> OutputContract | None:
    """Return the contract of a run; None without a demand. An empty schema is a contract.

    Args:
        demand: The demand of designer and caller.
        environ: The variables, of which two set the defaults of options (SPEC 9.7).

    Raises:
        ContractOverridden: A caller's schema or options differ from the authoritative contract.
        InvalidOptions: An option is unknown, invalid or contradictory, whichever contract applies.
        InvalidSchema: The schema that applies is not acceptable.
    """
    defaults = default_options(environ) if demand.has_schema else USUAL_OPTIONS
    options = options_from(demand.options, defaults)
    if demand.authoritative is not None:
        return _authoritative(demand, demand.authoritative, options)
    schema, source = demand.schema, demand.source
    if schema is None:
        schema, source = demand.default, SchemaSource.DEFAULT
        options_from(demand.default_options, defaults, _DEFAULT_OPTIONS_PLACE)
        options = options_from({**(demand.default_options or {}), **_given(demand.options)}, defaults)
    if schema is None:
        return None
    check_schema(schema)
    return OutputContract(JsonFormat(schema), source, **asdict(options))


def _authoritative(demand: Demand, wanted: OutputFormat, options: OutputOptions) -> OutputContract:
    name = "output_schema" if isinstance(wanted, JsonFormat) else "output_format"
    if demand.schema is not None:
        is_named = demand.source is SchemaSource.NAMED
        if not isinstance(wanted, JsonFormat) or canonical_json(demand.schema) != canonical_json(wanted.schema):
            raise ContractOverridden("the schema that the run names" if is_named else "the run's output_schema", name)
    free = _FREE_OPTIONS if isinstance(wanted, JsonFormat) else {"strategy"}
    if bound := sorted(_given(demand.options).keys() - free):
        raise ContractOverridden(f"the run's output_schema_options ({', '.join(bound)})", name, PLACE)
    if isinstance(wanted, JsonFormat):
        check_schema(wanted.schema)
    elif options.strategy is not None and options.strategy not in _RESPONSE_STRATEGIES:
        expected = listed(sorted(map(str, _RESPONSE_STRATEGIES)))
        message = f"an agent's response is asked for by {expected}, found {shown(str(options.strategy))}"
        raise InvalidOptions((Problem(f"{PLACE}.strategy", message),))
    source, retries = SchemaSource.BLUEPRINT, BLUEPRINT_RETRIES
    return OutputContract(wanted, source, retries, strategy=options.strategy, ambiguous=options.ambiguous)


@dataclass(eq=False)
class StrategyNotOffered(ValueError):
    """The run requests a strategy that is not available for its contract."""

    wanted: str
    offered: tuple[str, ...]

    def __str__(self) -> str:
        return f"strategy {shown(str(self.wanted))} is not available for this contract; use {' or '.join(self.offered)}"


def with_strategy(
    contract: OutputContract, offered: Collection[str], *, is_resume: bool = False, usual: Strategy | str = USUAL
) -> OutputContract:
    """Return the contract with the strategy that is used.

    A run without a strategy uses `usual`, or the first offered one if `usual` is not offered. `auto` is `native` if
    that is offered and the provider can take the schema, else `tool` if that is offered and the contract has a schema,
    else as without a strategy. In a resume, `prompt` replaces `system_prompt` if it is offered, because a session may
    keep its first system prompt.

    Raises:
        StrategyNotOffered: The strategy is not offered, or the provider cannot take the contract as `native`.
    """
    usual = usual if usual in offered else _strategy_of(next(iter(offered)))
    is_asked_for = contract.strategy in {Strategy.NATIVE, Strategy.AUTO}
    can_be_native = is_asked_for and Strategy.NATIVE in offered and _can_be_native(contract.format)
    match contract.strategy:
        case None:
            chosen = usual
        case Strategy.AUTO:
            by_tool = Strategy.TOOL in offered and isinstance(contract.format, JsonFormat)
            chosen = Strategy.NATIVE if can_be_native else Strategy.TOOL if by_tool else usual
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
"""The maximum size of a schema for the strategy `native`, as JSON.

A provider's client takes the schema as one argument of a program, which has at most 131,072 bytes on Linux.
"""
_NOT_AT_THE_ROOT: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf"})


class NativeSchema(NamedTuple):
    """The schema for a provider. If it is wrapped, the answer is the only member of the provider's value."""

    document: dict[str, Any]
    is_wrapped: bool

    def unwrap(self, value: "JsonValue") -> "JsonValue":
        """Return the answer in a provider's value. A value without the expected wrapper is returned unchanged."""
        if self.is_wrapped and isinstance(value, dict) and value.keys() == self.document["properties"].keys():
            (value,) = value.values()
        return value


def native_schema(schema: Mapping[str, Any], member: str = "value") -> NativeSchema:
    """Return a schema in a form that providers accept; if it has to be wrapped, the answer is `member`.

    Measured on the Claude CLI 2.1.330: it exits on `$schema` 2020-12, and the tool that carries the answer accepts
    objects only. The Messages API accepts no `allOf`, `anyOf` or `oneOf` at the root of a tool's schema. So `$schema`
    and `$id` are removed, references become pointers, and a schema that is not plainly one of an object becomes a
    member of an object.

    Raises:
        InvalidSchema: The schema is not acceptable.
    """
    from ao_protocol.contracts.vetting import vetted_document

    if schema.get("type") == "object" and _NOT_AT_THE_ROOT.isdisjoint(schema):
        return NativeSchema(vetted_document(schema), is_wrapped=False)
    inner = vetted_document(schema, f"/properties/{member}")
    wrapped = {"type": "object", "required": [member], "additionalProperties": False, "properties": {member: inner}}
    return NativeSchema(wrapped, is_wrapped=True)

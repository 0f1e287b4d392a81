"""Which output contract a run has: several may be demanded, one holds (SPEC 9.1).

| order | demand | retries | a caller may replace it |
| --- | --- | --- | --- |
| 1 | the blueprint's `output_schema` or `output_format` | 1 | no: trying to is refused |
| 2 | the run's inline `output_schema` | its options | |
| 3 | a schema that the run names | its options | |
| 4 | the blueprint's `default_output_schema` | its options | yes |
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ao_protocol.contracts.contract import (
    BLUEPRINT_RETRIES,
    PLACE,
    USUAL_DEFAULTS,
    AgentResponseFormat,
    InvalidOptions,
    JsonFormat,
    OptionDefaults,
    OutputContract,
    OutputFormat,
    OutputOptions,
    SchemaSource,
    Strategy,
    options_from,
)
from ao_protocol.contracts.problems import Problem, canonical_json, listed, shown
from ao_protocol.contracts.schema_vetting import check_schema
from ao_protocol.documents import Blueprint, Invocation

FREE_OPTIONS: Final = frozenset({"strategy"})
"""What a caller may choose beside an authoritative contract: how the model is asked, never what it must deliver."""
RESPONSE_STRATEGIES: Final = frozenset({Strategy.PROMPT, Strategy.SYSTEM_PROMPT, Strategy.AUTO})

_DEFAULT_OPTIONS_PLACE: Final = "$.agent_blueprint.default_output_schema_options"


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
        return _callers(demands.inline, SchemaSource.INLINE, options)
    if demands.named is not None:
        return _callers(demands.named, SchemaSource.NAMED, options)
    if demands.default is not None:
        merged = {**(demands.default_options or {}), **_given(demands.options)}
        options_from(demands.default_options, defaults, _DEFAULT_OPTIONS_PLACE)
        return _callers(demands.default, SchemaSource.DEFAULT, options_from(merged, defaults))
    return None


def takes_defaults(demands: Demands) -> bool:
    """Tell whether there is a contract to which anybody's defaults apply."""
    return demands.authoritative is None and not (demands.inline is demands.named is demands.default is None)


def demands_of(invocation: Invocation) -> Demands:
    """Return what an invocation demands. A schema without a source is the caller's own.

    Raises:
        InvalidOptions: the source is none that there is.
    """
    blueprint = invocation.agent_blueprint or Blueprint(name="agent")
    demands = replace(demands_of_blueprint(blueprint), options=invocation.output_schema_options)
    schema, source = invocation.output_schema, _source_of(invocation)
    if schema is None:
        return demands
    match source:
        case SchemaSource.BLUEPRINT if demands.authoritative is None:
            return replace(demands, authoritative=JsonFormat(schema))
        case SchemaSource.DEFAULT if demands.authoritative is None:
            return replace(demands, default=schema)
        case SchemaSource.BLUEPRINT | SchemaSource.INLINE | SchemaSource.DEFAULT:
            return replace(demands, inline=schema)
        case SchemaSource.NAMED:
            return replace(demands, named=schema)


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


def _authoritative(demands: Demands, wanted: OutputFormat, options: OutputOptions) -> OutputContract:
    name = "output_schema" if isinstance(wanted, JsonFormat) else "output_format"
    for schema, what in ((demands.inline, "the run's output_schema"), (demands.named, "the schema that the run names")):
        if schema is not None and not _is_same(schema, wanted):
            raise ContractOverridden(what, name)
    if bound := sorted(_given(demands.options).keys() - FREE_OPTIONS):
        raise ContractOverridden(f"the run's output_schema_options ({', '.join(bound)})", name, PLACE)
    if isinstance(wanted, JsonFormat):
        check_schema(wanted.schema)
    elif options.strategy is not None and options.strategy not in RESPONSE_STRATEGIES:
        expected = listed(sorted(map(str, RESPONSE_STRATEGIES)))
        message = f"an agent's response is asked for by {expected}, found {shown(str(options.strategy))}"
        raise InvalidOptions((Problem(f"{PLACE}.strategy", message),))
    return OutputContract(wanted, SchemaSource.BLUEPRINT, max_retries=BLUEPRINT_RETRIES, strategy=options.strategy)


def _is_same(schema: Mapping[str, Any], wanted: OutputFormat) -> bool:
    return isinstance(wanted, JsonFormat) and canonical_json(schema) == canonical_json(wanted.schema)


def _callers(schema: Mapping[str, Any], source: SchemaSource, options: OutputOptions) -> OutputContract:
    check_schema(schema)
    return OutputContract(
        JsonFormat(schema),
        source,
        max_retries=options.max_retries,
        extract_json=options.extract_json,
        strict_json_only=options.strict_json_only,
        validation_mode=options.validation_mode,
        strategy=options.strategy,
    )


def _given(options: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: option for name, option in (options or {}).items() if option is not None}


def _source_of(invocation: Invocation) -> SchemaSource:
    try:
        return SchemaSource(invocation.output_schema_source or SchemaSource.INLINE)
    except ValueError as error:
        found = shown(invocation.output_schema_source)
        message = f"expected one of {listed(map(str, SchemaSource))}, found {found}"
        raise InvalidOptions((Problem("$.output_schema_source", message),)) from error

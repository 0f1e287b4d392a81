"""Output contracts: the demand, the value in the answer, and its validation (SPEC 9)."""

from importlib import import_module
from typing import TYPE_CHECKING

from ao_protocol.contracts.checks import InvalidSchema, check_schema, validate
from ao_protocol.contracts.contract import (
    AgentResponseFormat,
    Ambiguity,
    ContractOverridden,
    Demand,
    InvalidOptions,
    JsonFormat,
    NativeSchema,
    OutputContract,
    OutputFormat,
    OutputOptions,
    SchemaSource,
    Strategy,
    StrategyNotOffered,
    ValidationMode,
    demand_in,
    demand_of,
    native_schema,
    options_from,
    options_to_send,
    resolve_contract,
    with_strategy,
)
from ao_protocol.contracts.problems import Problem

if TYPE_CHECKING:
    from ao_protocol.contracts.enforcement import (
        Accepted,
        AlreadyDecided,
        AskAgain,
        Enforcement,
        GiveUp,
        NativeOutput,
        Outcome,
        enrich,
        missing_answer_feedback,
        problems_of_data,
        submission_schema,
        summary_of,
        validation_feedback,
    )
    from ao_protocol.contracts.validation import Validator, is_valid, validator_for

__all__ = [
    "Accepted",
    "AgentResponseFormat",
    "AlreadyDecided",
    "Ambiguity",
    "AskAgain",
    "ContractOverridden",
    "Demand",
    "Enforcement",
    "GiveUp",
    "InvalidOptions",
    "InvalidSchema",
    "JsonFormat",
    "NativeOutput",
    "NativeSchema",
    "Outcome",
    "OutputContract",
    "OutputFormat",
    "OutputOptions",
    "Problem",
    "SchemaSource",
    "Strategy",
    "StrategyNotOffered",
    "ValidationMode",
    "Validator",
    "check_schema",
    "demand_in",
    "demand_of",
    "enrich",
    "is_valid",
    "missing_answer_feedback",
    "native_schema",
    "options_from",
    "options_to_send",
    "problems_of_data",
    "resolve_contract",
    "submission_schema",
    "summary_of",
    "validate",
    "validation_feedback",
    "validator_for",
    "with_strategy",
]


def __getattr__(name: str) -> object:
    """Return a name of `enforcement` or `validation`, imported at its first use: a run is started without them."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "validation" if name in {"Validator", "is_valid", "validator_for"} else "enforcement"
    return getattr(import_module(f"{__name__}.{home}"), name)

"""What an answer must look like, how it is asked for, found in text, and judged."""

from ao_protocol.output.assessment import problems_of_data
from ao_protocol.output.contract import AgentResponseFormat, JsonFormat, OutputContract, OutputFormat, SchemaSource
from ao_protocol.output.enforcement import Accepted, AlreadyDecided, AskAgain, Enforcement, GiveUp, Outcome
from ao_protocol.output.enrichment import enrich
from ao_protocol.output.extraction import Extraction, NoJsonFound, extract_json
from ao_protocol.output.feedback import missing_answer_feedback, validation_feedback
from ao_protocol.output.native import NativeOutput, NativeSchema, native_schema
from ao_protocol.output.options import (
    InvalidOptions,
    OptionDefaults,
    OutputOptions,
    Strategy,
    ValidationMode,
    defaults_from,
    options_from,
    options_to_send,
)
from ao_protocol.output.problems import Problem
from ao_protocol.output.resolution import (
    ContractOverridden,
    Demands,
    demands_of,
    demands_of_blueprint,
    resolve_contract,
    takes_defaults,
)
from ao_protocol.output.schema_vetting import InvalidSchema, check_schema
from ao_protocol.output.strategies import StrategyNotOffered, with_strategy
from ao_protocol.output.summary import summary_of
from ao_protocol.output.validation import Validator, is_valid, validate, validator_for

__all__ = [
    "Accepted",
    "AgentResponseFormat",
    "AlreadyDecided",
    "AskAgain",
    "ContractOverridden",
    "Demands",
    "Enforcement",
    "Extraction",
    "GiveUp",
    "InvalidOptions",
    "InvalidSchema",
    "JsonFormat",
    "NativeOutput",
    "NativeSchema",
    "NoJsonFound",
    "OptionDefaults",
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
    "defaults_from",
    "demands_of",
    "demands_of_blueprint",
    "enrich",
    "extract_json",
    "is_valid",
    "missing_answer_feedback",
    "native_schema",
    "options_from",
    "options_to_send",
    "problems_of_data",
    "resolve_contract",
    "summary_of",
    "takes_defaults",
    "validate",
    "validation_feedback",
    "validator_for",
    "with_strategy",
]

"""What an answer must look like, how it is asked for, found in text, and judged."""

from ao_protocol.output.contract import (
    InvalidOptions,
    OutputContract,
    SchemaSource,
    ValidationMode,
    resolve_contract,
)
from ao_protocol.output.enforcement import Accepted, AlreadyDecided, AskAgain, Enforcement, GiveUp, Outcome
from ao_protocol.output.enrichment import enrich_system_prompt
from ao_protocol.output.extraction import Extraction, NoJsonFound, extract_json
from ao_protocol.output.feedback import (
    missing_answer_feedback,
    validation_feedback,
)
from ao_protocol.output.problems import Problem
from ao_protocol.output.schema_vetting import InvalidSchema, check_schema
from ao_protocol.output.validation import Validator, is_valid, validate, validator_for

__all__ = [
    "Accepted",
    "AlreadyDecided",
    "AskAgain",
    "Enforcement",
    "Extraction",
    "GiveUp",
    "InvalidOptions",
    "InvalidSchema",
    "NoJsonFound",
    "Outcome",
    "OutputContract",
    "Problem",
    "SchemaSource",
    "ValidationMode",
    "Validator",
    "check_schema",
    "enrich_system_prompt",
    "extract_json",
    "is_valid",
    "missing_answer_feedback",
    "resolve_contract",
    "validate",
    "validation_feedback",
    "validator_for",
]

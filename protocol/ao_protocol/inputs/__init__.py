"""What an agent is given: parameters that fit its contract, as the text that the model reads."""

from ao_protocol.inputs.block import format_inputs
from ao_protocol.inputs.parameters import (
    PROMPT_SCHEMA,
    ParametersInvalid,
    agent_text,
    check_parameters,
    parameters_schema_for,
    text_for_agent,
)

__all__ = [
    "PROMPT_SCHEMA",
    "ParametersInvalid",
    "agent_text",
    "check_parameters",
    "format_inputs",
    "parameters_schema_for",
    "text_for_agent",
]

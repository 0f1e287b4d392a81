"""Parameters against the contract that they must fit (SPEC 8.1)."""

from typing import Final

from ao_protocol.inputs.block import format_inputs
from ao_protocol.invocation import Invocation
from ao_protocol.output.problems import Problem
from ao_protocol.wire import JsonObject

PROMPT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["prompt"],
    "properties": {"prompt": {"type": "string", "minLength": 1}},
}
"""What a run takes when its blueprint does not say, and what every resume takes."""


class ParametersInvalid(ValueError):
    """Parameters that do not fit. `schema` is the one that decided."""

    def __init__(self, problems: list[Problem], schema: JsonObject) -> None:
        super().__init__(problems, schema)
        self.problems = problems
        self.schema = schema

    def __str__(self) -> str:
        return f"the parameters do not fit the agent: {'; '.join(map(str, self.problems))}"


def parameters_schema_for(invocation: Invocation) -> JsonObject:
    """Return the schema that decides: the blueprint's for a start, a prompt alone for a resume or without one."""
    blueprint = invocation.agent_blueprint
    if invocation.mode == "start" and blueprint is not None and blueprint.parameters_schema is not None:
        return blueprint.parameters_schema
    return PROMPT_SCHEMA


def check_parameters(invocation: Invocation) -> None:
    """Check an invocation's parameters.

    Raises:
        ParametersInvalid: with every problem.
    """
    check_against(parameters_schema_for(invocation), invocation.parameters)


def check_against(schema: JsonObject | None, parameters: JsonObject) -> None:
    """Check the parameters of a start against a blueprint's `parameters_schema`; None takes a prompt alone.

    Raises:
        ParametersInvalid: with every problem.
        InvalidSchema: the schema is none.
    """
    from ao_protocol.output.validation import validate

    if schema is None or schema is PROMPT_SCHEMA:
        prompt = parameters.get("prompt")
        if isinstance(prompt, str) and prompt:
            return  # the usual case needs no validator
        schema = PROMPT_SCHEMA
    problems = validate(parameters, schema)
    if problems:
        raise ParametersInvalid(problems, schema)


def agent_text(invocation: Invocation) -> str:
    """Return what the model reads for checked parameters: the prompt itself, or the `<inputs>` block."""
    return text_for_agent(invocation.parameters, has_schema=parameters_schema_for(invocation) is not PROMPT_SCHEMA)


def text_for_agent(parameters: JsonObject, *, has_schema: bool) -> str:
    """Return what the model reads for parameters; `has_schema` says whether a `parameters_schema` decides on them."""
    return format_inputs(parameters) if has_schema else str(parameters["prompt"])

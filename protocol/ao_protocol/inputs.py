"""The inputs of an agent: the check of the parameters (SPEC 8.1), and their text for the model (8.2)."""

import json
import re
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from ao_protocol.contracts.problems import Problem
from ao_protocol.documents import Invocation
from ao_protocol.wire import JsonObject

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_BLOCK_TAG: Final = re.compile(r"<(?=\s*/?\s*inputs\b)", re.IGNORECASE)
_LINE_END_IN_JSON: Final = re.compile("[\x85\u2028\u2029]")


def format_inputs(parameters: JsonObject) -> str:
    """Return the `<inputs>` block for validated parameters, in their order (SPEC 8.2).

    | value | form |
    | --- | --- |
    | string of one line | `key: text` |
    | string of several lines | `key: |`, then each line indented by two spaces |
    | empty string | `key: ""` |
    | number, boolean, null | as JSON: `key: 3`, `key: true`, `key: null` |
    | list, object | as compact JSON on one line: `key: ["a","b"]` |

    A key that is not a plain word is written as a JSON string. In keys and values, the `<` of a tag of the block is
    written `&lt;`, so that no value can close the block or open another (AOX-151).
    """
    keys = (name if _PLAIN_KEY.fullmatch(name) else _json(name) for name in parameters)
    lines = (f"{key}: {_value(value)}" for key, value in zip(keys, parameters.values(), strict=True))
    body = _BLOCK_TAG.sub("&lt;", "\n".join(lines))
    return f"<inputs>\n{body}\n</inputs>" if body else "<inputs>\n</inputs>"


def _value(value: JsonValue) -> str:
    if not isinstance(value, str) or not value:
        return _json(value)
    lines = value.splitlines()
    if lines == [value]:
        return value
    # Every line end of SPEC 8.2 counts, otherwise a value could imitate another field (AOX-152).
    if value[-1].splitlines() == [""]:
        lines.append("")
    return "\n".join(("|", *(f"  {line}" for line in lines)))


def _json(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _LINE_END_IN_JSON.sub(lambda end: f"\\u{ord(end[0]):04x}", text)


PROMPT_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["prompt"],
    "properties": {"prompt": {"type": "string", "minLength": 1}},
}
"""The prompt schema: for a start without `parameters_schema`, and for every resume and turn (SPEC 8.1)."""
NO_PARAMETERS_SCHEMA: Final[JsonObject] = {"type": "object", "maxProperties": 0}
"""The schema for a resume that carries answers, which adds no user message (SPEC 8.3)."""


@dataclass(eq=False)
class ParametersInvalid(ValueError):
    """Parameters that do not fit. `schema` is the schema that applies."""

    problems: list[Problem]
    schema: JsonObject

    def __str__(self) -> str:
        return f"the parameters do not fit the agent: {'; '.join(map(str, self.problems))}"


def parameters_schema_for(invocation: Invocation) -> JsonObject:
    """Return the schema that applies: that of the blueprint for a start, none for answers, else the prompt schema."""
    blueprint = invocation.agent_blueprint
    if invocation.input_responses is not None:
        return NO_PARAMETERS_SCHEMA
    if invocation.mode == "start" and blueprint is not None and blueprint.parameters_schema is not None:
        return blueprint.parameters_schema
    return PROMPT_SCHEMA


def check_parameters(invocation: Invocation) -> None:
    """Check the parameters of an invocation.

    Raises:
        ParametersInvalid: The parameters do not fit; `problems` lists the problems.
        InvalidSchema: The blueprint's `parameters_schema` is not acceptable.
    """
    check_against(parameters_schema_for(invocation), invocation.parameters)


def check_against(schema: JsonObject | None, parameters: JsonObject) -> None:
    """Check the parameters of a start against a blueprint's `parameters_schema`; None selects the prompt schema.

    Raises:
        ParametersInvalid: The parameters do not fit; `problems` lists the problems.
        InvalidSchema: The schema is not acceptable.
    """
    from ao_protocol.contracts.checks import validate

    if schema is None or schema is PROMPT_SCHEMA:
        prompt = parameters.get("prompt")
        if isinstance(prompt, str) and prompt:
            return  # the usual case needs no validator
        schema = PROMPT_SCHEMA
    problems = validate(parameters, schema)
    if problems:
        raise ParametersInvalid(problems, schema)


def agent_text(invocation: Invocation) -> str:
    """Return the text for the agent from checked parameters: the prompt itself, or the `<inputs>` block.

    That of a resume with answers is empty: it adds no user message.
    """
    if invocation.input_responses is not None:
        return ""
    return text_for_agent(invocation.parameters, has_schema=parameters_schema_for(invocation) is not PROMPT_SCHEMA)


def text_for_agent(parameters: JsonObject, *, has_schema: bool) -> str:
    """Return the text for the agent from parameters; `has_schema` is whether a `parameters_schema` applies."""
    return format_inputs(parameters) if has_schema else str(parameters["prompt"])

"""What the agent is told of its parameters: the prompt itself, or the `<inputs>` block (SPEC 8)."""

import json
import re
from typing import Any

from errors import RunFailed
from json_schema import problems_of

PROMPT_SCHEMA = {
    "type": "object",
    "required": ["prompt"],
    "properties": {"prompt": {"type": "string", "minLength": 1}},
}
NO_PARAMETERS = {"type": "object", "maxProperties": 0}
PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
LINE_END = re.compile("\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
ESCAPED_IN_JSON = re.compile("[\x85\u2028\u2029]")
TAG_OF_THE_BLOCK = re.compile(r"<(?=\s*/?\s*inputs(?![A-Za-z0-9_]))", re.IGNORECASE)


def prompt_of(asked: dict[str, Any], blueprint: dict[str, Any], *, is_start: bool) -> str:
    """Return what the agent receives for an invocation or a turn: its `prompt`, or what its parameters become.

    That of a resume with answers is empty: nothing new is said.

    Raises:
        RunFailed: the parameters do not fit the schema that decides.
    """
    parameters = asked["parameters"]
    designed = blueprint.get("parameters_schema") if is_start else None
    schema = PROMPT_SCHEMA if designed is None else designed
    if is_answer := "input_responses" in asked:
        schema = NO_PARAMETERS
    problems = problems_of(schema, parameters)
    if problems:
        message = f"the parameters have {len(problems)} problem(s), first {problems[0]}; correct them"
        details = {"validation_errors": problems, "schema": schema}
        raise RunFailed("parameters_validation_failed", message, validation_errors=problems, details=details)
    if is_answer:
        return ""
    if "prompt" in asked:
        return str(asked["prompt"])
    return str(parameters["prompt"]) if designed is None else inputs_block(parameters)


def inputs_block(parameters: dict[str, Any]) -> str:
    """Return the `<inputs>` block."""
    fields = [TAG_OF_THE_BLOCK.sub("&lt;", _field(key, value)) for key, value in parameters.items()]
    return "\n".join(["<inputs>", *fields, "</inputs>"])


def _field(key: str, value: Any) -> str:
    name = key if PLAIN_KEY.fullmatch(key) else _json(key)
    if not isinstance(value, str):
        return f"{name}: {_json(value)}"
    if not value:
        return f'{name}: ""'
    lines = LINE_END.split(value)
    if len(lines) == 1:
        return f"{name}: {value}"
    return "\n".join([f"{name}: |", *(f"  {line}" for line in lines)])


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return ESCAPED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

"""Asking for an output format: the section that goes last in a prompt (SPEC 9.3)."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, assert_never

from ao_protocol.output.contract import AgentResponseFormat, JsonFormat, OutputFormat

_HEADING: Final = "## Required Output Format"
_JSON_DEMAND: Final = """\
You MUST provide structured output as JSON conforming to this schema:

{schema}

Your response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no additional text."""

_BACKTICKS: Final = re.compile(r"`+")


def enrich(prompt: str | None, demanded: OutputFormat) -> str:
    """Return a prompt with the output format as its last section (AOX-166).

    The prompt itself, the system's or the user's, stays as it is, with two line ends after it; where it is absent or
    blank, the section stands alone. A schema is a JSON document in a fence, indented by two spaces, with non-ASCII
    characters as they are.
    """
    section = f"{_HEADING}\n\n{demand_text(demanded)}"
    if prompt is None or not prompt.strip():
        return section
    return f"{prompt}\n\n{section}"


def demand_text(demanded: OutputFormat) -> str:
    """Return what a model is told of a format."""
    match demanded:
        case JsonFormat(schema):
            return _JSON_DEMAND.format(schema=fenced_schema(schema))
        case AgentResponseFormat(form):
            from ao_protocol.output.agent_response import Form, instructions_for

            return instructions_for(Form(form))
        case never:
            assert_never(never)


def fenced_schema(schema: Mapping[str, Any]) -> str:
    """Return a schema in a `json` fence that no run of backticks in it can close (CommonMark 4.5)."""
    return fenced(json.dumps(schema, indent=2, ensure_ascii=False), "json")


def fenced(text: str, language: str) -> str:
    """Return a text in a fence that is longer than any run of backticks in it."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"

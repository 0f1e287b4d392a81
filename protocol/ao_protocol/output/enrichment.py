"""Asking for structured output: the section that goes last in a system prompt."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

_SECTION: Final = """\
## Required Output Format

You MUST provide structured output as JSON conforming to this schema:

{schema}

Your response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no additional text."""

_BACKTICKS: Final = re.compile(r"`+")


def enrich_system_prompt(system_prompt: str | None, schema: Mapping[str, Any]) -> str:
    """Return the system prompt with the output contract as its last section (SPEC 9.3, AOX-166).

    The prompt itself stays as it is, with two line ends after it; where it is absent or blank, the section stands
    alone. The schema is a JSON document in a fence, indented by two spaces, with non-ASCII characters as they are.
    """
    section = _SECTION.format(schema=fenced_schema(schema))
    if system_prompt is None or not system_prompt.strip():
        return section
    return f"{system_prompt}\n\n{section}"


def fenced_schema(schema: Mapping[str, Any]) -> str:
    """Return a schema in a `json` fence that no run of backticks in it can close (CommonMark 4.5)."""
    text = json.dumps(schema, indent=2, ensure_ascii=False)
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}json\n{text}\n{fence}"

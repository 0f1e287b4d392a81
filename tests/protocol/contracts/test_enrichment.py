"""How an output contract is asked for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.agent_response import Form, instructions_for
from ao_protocol.contracts.contract import AgentResponseFormat, JsonFormat, ResponseForm
from ao_protocol.contracts.enforcement import enrich

SECTION = """\
## Required Output Format

You MUST provide structured output as JSON conforming to this schema:

```json
{
  "type": "object",
  "required": [
    "größe"
  ]
}
```

Your response MUST be valid JSON that matches this schema exactly. Output ONLY the JSON, no additional text."""

SCHEMA = {"type": "object", "required": ["größe"]}


def test_the_contract_is_the_last_section_after_one_blank_line() -> None:
    assert enrich("You review code.", JsonFormat(SCHEMA)) == f"You review code.\n\n{SECTION}"


@pytest.mark.parametrize(
    "system_prompt", [pytest.param(None, id="none"), pytest.param("", id="empty"), pytest.param(" \n", id="blank")]
)
def test_without_a_system_prompt_the_section_stands_alone(system_prompt: str | None) -> None:
    assert enrich(system_prompt, JsonFormat(SCHEMA)) == SECTION


def test_backticks_in_a_schema_do_not_close_its_fence() -> None:
    enriched = enrich(None, JsonFormat({"description": "Use ```json or ````."}))

    assert '`````json\n{\n  "description": "Use ```json or ````."\n}\n`````\n' in enriched


@given(st.text(), st.dictionaries(st.text("ab`\n"), st.text("`\n~")))
def test_the_prompt_stays_and_the_schema_can_be_read_back(system_prompt: str, schema: dict[str, Any]) -> None:
    enriched = enrich(system_prompt, JsonFormat(schema))
    lines = enriched.removeprefix(system_prompt).strip("\n").split("\n")
    opening = next(index for index, line in enumerate(lines) if line.endswith("`json"))
    closing = lines.index(lines[opening].removesuffix("json"))

    assert not system_prompt.strip() or enriched.startswith(system_prompt)
    assert json.loads("\n".join(lines[opening + 1 : closing])) == schema


@pytest.mark.parametrize("form", ["xml", "json", "markdown"])
def test_a_response_is_asked_for_by_the_instructions_of_its_form(form: ResponseForm) -> None:
    enriched = enrich("You review code.", AgentResponseFormat(form))

    assert enriched == f"You review code.\n\n## Required Output Format\n\n{instructions_for(Form(form))}"

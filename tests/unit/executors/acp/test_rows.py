"""The rows of known agents: what they declare, and how an agent is started from one."""

from typing import Any

import jsonschema
import pytest

from ao_executors.acp.acp_executors import executor_for
from ao_executors.acp.agent_rows import ANY, CLAUDE, GEMINI, OPENCODE, QWEN, AgentRow
from ao_executors.acp.launch import filled, inherited_environment, named_with_provider
from ao_protocol.documents import OutputSchemaCapability

ROWS = [pytest.param(row, id=row.name) for row in (ANY, CLAUDE, GEMINI, OPENCODE, QWEN)]


@pytest.mark.parametrize("row", ROWS)
def test_a_description_is_valid_and_honest(row: AgentRow) -> None:
    description = executor_for(row).describe()
    jsonschema.Draft7Validator.check_schema(description.config_schema)
    properties: Any = description.config_schema["properties"]

    assert description.capabilities.resume is row.resumes
    assert isinstance(description.capabilities.output_schema, OutputSchemaCapability)
    assert ("system_prompt" in description.capabilities.output_schema.strategies) is row.takes("system_prompt")
    assert ("system_prompt" in properties) is not row.takes("system_prompt")
    assert set(row.credentials) <= set(description.secrets)


def test_the_generic_executor_declares_only_what_every_agent_has() -> None:
    description = executor_for(ANY).describe()

    assert not description.capabilities.resume
    assert description.secrets == []
    assert description.model_endpoint == {}
    assert description.config_schema["required"] == ["command"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("{a} and {{b}}", "1 and {b}"),
        ("{none} and {a}", None),
        ({"x": "{a}", "y": {"z": "{none}"}}, {"x": "1"}),
        (["{none}", "{a}", True], ["1", True]),
        ("{number}", 3),
    ],
    ids=["text", "without a value", "object", "list", "number"],
)
def test_placeholders_are_filled(document: Any, expected: Any) -> None:
    assert filled(document, {"a": "1", "none": None, "number": 3}) == expected


def test_one_credential_reaches_an_agent_unless_each_belongs_to_a_provider() -> None:
    both = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b", "CLAUDE_CODE_OAUTH_TOKEN": "c", "npm_lifecycle": "x"}

    assert inherited_environment(CLAUDE, both).keys() == {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}
    assert inherited_environment(OPENCODE, both).keys() == both.keys() - {"npm_lifecycle"}


@pytest.mark.parametrize(
    ("row", "model", "credentials", "named"),
    [
        (OPENCODE, "gpt-5", ["OPENAI_API_KEY"], "openai/gpt-5"),
        (OPENCODE, "claude-opus-4-6", ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"], "anthropic/claude-opus-4-6"),
        (OPENCODE, "google/gemini-3", ["OPENAI_API_KEY"], "google/gemini-3"),
        (OPENCODE, "gpt-5", [], "gpt-5"),
        (CLAUDE, "opus", ["ANTHROPIC_API_KEY"], "opus"),
        (CLAUDE, None, ["ANTHROPIC_API_KEY"], None),
    ],
    ids=["one key", "two keys", "a provider is named", "no key", "one provider", "no model"],
)
def test_the_first_key_says_whose_a_model_is(
    row: AgentRow, model: str | None, credentials: list[str], named: str | None
) -> None:
    assert named_with_provider(row, model, dict.fromkeys(credentials, "key")) == named

"""The strategy `native`: the CLI's structured output, judged here all the same, and what follows where it is silent."""

from typing import Any

import pytest

from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA
from tests.real_cli.claude_code.conftest import StartClaude

NATIVE = {"strategy": "native"}
SAID = {"text": '{"severity": "low"}'}
PROSE = {"text": 'MARK It is {"severity": "MARK critical"}, I think.'}


def given(value: object, text: str = "MARK Let me say it.") -> dict[str, Any]:
    """Return an answer that calls the output tool."""
    tool = {"type": "tool_use", "name": "StructuredOutput", "input": value}
    return {"content": [{"type": "text", "text": text}, tool]}


@pytest.mark.requirement("AOX-177")
def test_the_providers_structured_output_becomes_the_result_data(start_claude: StartClaude) -> None:
    claude = start_claude(given({"severity": "high"}))
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options=NATIVE)

    assert run.terminal["result_data"] == {"severity": "high"}
    assert run.terminal["stop_reason"] == "end_turn"
    assert run.terminal["output"] == {
        "schema_source": "inline",
        "retry_count": 0,
        "ambiguous": False,
        "strategy": "native",
        "sent": ["native"],
        "delivered_by": "native",
    }
    (request,) = claude.model.requests
    (tool,) = [tool for tool in request.tools if tool["name"] == "StructuredOutput"]
    assert tool["input_schema"] == SEVERITY_SCHEMA
    assert "Required Output Format" not in request.system_text + request.last_user_text


def test_the_call_that_carries_the_answer_is_no_tool_call_of_the_agents(start_claude: StartClaude) -> None:
    claude = start_claude(given({"severity": "MARK critical"}), given({"severity": "high"}))
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options=NATIVE)

    assert run.terminal["result_data"] == {"severity": "high"}
    assert run.types == ["run_started", "session_bound", "usage", "output_validation", "result"]
    assert b"MARK" not in run.stdout


@pytest.mark.requirement("AOX-175", "AOX-178")
def test_a_model_that_only_talks_is_asked_again_in_the_loop(start_claude: StartClaude) -> None:
    # The CLI itself nudges once and then says nothing.
    claude = start_claude(PROSE, PROSE, given({"severity": "low"}))
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options=NATIVE)

    assert run.terminal["result_data"] == {"severity": "low"}
    assert run.terminal["output"]["sent"] == ["native", "re_prompt"]
    assert run.terminal["output"]["delivered_by"] == "native"
    assert [(v["attempt"], v["valid"]) for v in run.of_type("output_validation")] == [(1, False), (2, True)]
    assert run.of_type("message") == []
    reprompt = claude.model.requests[2].last_user_text
    assert "<output-validation-error>" in reprompt
    assert "## Required Schema" in reprompt


@pytest.mark.requirement("AOX-178")
def test_a_provider_that_gives_up_is_one_answer_that_does_not_fit(start_claude: StartClaude) -> None:
    # The CLI lets the model try five times before it gives up.
    claude = start_claude({**given({"severity": "MARK critical"}), "repeat": 20}, satisfied=False)
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options={**NATIVE, "max_retries": 1})

    assert run.error["type"] == "schema_validation_failed"
    assert [(v["attempt"], v["valid"]) for v in run.of_type("output_validation")] == [(1, False), (2, False)]
    assert b"MARK" not in run.stdout


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        pytest.param({"type": "array", "items": {"type": "integer"}}, [1, 2], id="array"),
        pytest.param({"enum": ["yes", "no"]}, "yes", id="text"),
        pytest.param({"$ref": "#/definitions/n", "definitions": {"n": {"type": ["integer", "null"]}}}, None, id="null"),
    ],
)
def test_what_is_no_object_is_wrapped_for_the_provider_and_unwrapped_again(
    start_claude: StartClaude, schema: dict[str, Any], answer: object
) -> None:
    run = start_claude(given({"value": answer})).run(output_schema=schema, output_schema_options=NATIVE)

    assert run.terminal["result_data"] == answer
    assert run.exit_code == 0


def test_a_dialect_that_the_cli_refuses_is_taken_out(start_claude: StartClaude) -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", **SEVERITY_SCHEMA}
    run = start_claude(given({"severity": "low"})).run(output_schema=schema, output_schema_options=NATIVE)

    assert run.terminal["result_data"] == {"severity": "low"}


def test_what_the_cli_would_refuse_is_kept_from_it(start_claude: StartClaude) -> None:
    severity = {"enum": [1, 1.0, 2], "nullable": True, "x-unit": "level"}
    schema = {
        "type": "object",
        "required": ["severity"],
        "properties": {"severity": severity, "id": {"pattern": r"\_"}},
    }
    run = start_claude(given({"severity": 2})).run(output_schema=schema, output_schema_options=NATIVE)

    assert run.terminal["result_data"] == {"severity": 2}


@pytest.mark.requirement("AOX-177")
def test_a_schema_that_the_cli_refuses_all_the_same_is_told_with_what_to_do(start_claude: StartClaude) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/components/a"}},
        "components": {"a": {"type": "integer"}},
    }
    run = start_claude(satisfied=False).run(output_schema=schema, output_schema_options=NATIVE)

    assert (run.error["type"], run.exit_code) == ("unsupported_capability", 64)
    assert 'unknown keyword: "components"' in run.error["message"]
    assert "use another strategy" in run.error["message"]


@pytest.mark.requirement("AOX-177")
def test_auto_asks_in_words_if_the_provider_refuses_the_schema(start_claude: StartClaude) -> None:
    message = "tools.3.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    refusal = {"status": 400, "error": {"type": "invalid_request_error", "message": message}}
    # The CLI repeats the request without some of its beta headers, one after another.
    claude = start_claude({**refusal, "repeat": 6, "expect": {"tool_names_include": ["StructuredOutput"]}}, SAID)
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options={"strategy": "auto"})

    assert run.terminal["result_data"] == {"severity": "low"}
    assert run.terminal["output"]["strategy"] == "prompt"
    assert message in run.of_type("log")[0]["message"]
    assert "StructuredOutput" not in claude.model.requests[-1].tool_names


def test_a_session_that_was_native_can_be_resumed(start_claude: StartClaude) -> None:
    claude = start_claude(given({"severity": "low"}), given({"severity": "high"}))
    first = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options=NATIVE)
    (bound,) = first.of_type("session_bound")
    second = claude.run(
        mode="resume",
        executor_session_id=bound["executor_session_id"],
        output_schema=SEVERITY_SCHEMA,
        output_schema_options=NATIVE,
    )

    assert second.terminal["result_data"] == {"severity": "high"}

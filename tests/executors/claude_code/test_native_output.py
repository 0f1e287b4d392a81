"""The strategy `native`: the CLI's structured output, judged here all the same, and what follows where it is silent."""

from typing import Any

import pytest

from tests.executors.claude_code.claude import SEVERITY_SCHEMA, agent
from tests.executors.claude_code.conftest import StartClaude

NATIVE = {"strategy": "native"}
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


@pytest.mark.requirement("AOX-178")
@pytest.mark.requirement("AOX-175")
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


def test_an_answer_in_text_that_fits_is_as_good(start_claude: StartClaude) -> None:
    claude = start_claude(PROSE, {"text": '{"severity": "low"}'})
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options=NATIVE)

    assert run.terminal["result_data"] == {"severity": "low"}
    assert run.terminal["output"]["delivered_by"] == "text"


def test_a_model_that_never_delivers_fails_the_run(start_claude: StartClaude) -> None:
    claude = start_claude({**PROSE, "repeat": 4})
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options={**NATIVE, "max_retries": 1})

    assert run.error["type"] == "schema_validation_failed"
    assert b"MARK It is" not in run.stdout


@pytest.mark.slow
@pytest.mark.requirement("AOX-178")
def test_a_provider_that_gives_up_is_one_answer_that_does_not_fit(start_claude: StartClaude) -> None:
    # The CLI lets the model try five times before it gives up.
    claude = start_claude({**given({"severity": "MARK critical"}), "repeat": 20}, satisfied=False)
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options={**NATIVE, "max_retries": 1})

    assert run.error["type"] == "schema_validation_failed"
    assert [(v["attempt"], v["valid"]) for v in run.of_type("output_validation")] == [(1, False), (2, False)]
    assert b"MARK" not in run.stdout


@pytest.mark.requirement("AOX-178")
def test_what_only_our_validation_notices_is_asked_for_again(start_claude: StartClaude) -> None:
    # The CLI is shown 2**53 + 1 as a plain integer; I-JSON has no such number.
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "number"}}}
    claude = start_claude(given({"n": 9007199254740993}), given({"n": 1}))
    run = claude.run(output_schema=schema, output_schema_options=NATIVE)

    assert run.terminal["result_data"] == {"n": 1}
    assert run.terminal["output"]["sent"] == ["native", "re_prompt"]


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
    assert "use the strategy system_prompt" in run.error["message"]


@pytest.mark.requirement("AOX-177")
def test_auto_is_native_here_also_for_the_designers_contract(start_claude: StartClaude) -> None:
    claude = start_claude(given({"severity": "low"}))
    run = claude.run(agent_blueprint=agent(output_schema=SEVERITY_SCHEMA), output_schema_options={"strategy": "auto"})

    assert run.terminal["output"]["strategy"] == "native"
    assert run.terminal["output"]["schema_source"] == "blueprint"


def test_the_strategy_prompt_puts_the_demand_at_the_end_of_the_prompt(start_claude: StartClaude) -> None:
    claude = start_claude({"json": {"severity": "low"}})
    claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options={"strategy": "prompt"})

    (request,) = claude.model.requests
    assert request.last_user_text.startswith("Hi\n\n## Required Output Format\n\n")
    assert "Required Output Format" not in request.system_text


def test_the_strategy_extract_tells_the_model_nothing(start_claude: StartClaude) -> None:
    claude = start_claude({"text": 'I say {"severity": "low"}.'})
    run = claude.run(output_schema=SEVERITY_SCHEMA, output_schema_options={"strategy": "extract"})

    (request,) = claude.model.requests
    assert run.terminal["result_data"] == {"severity": "low"}
    assert request.last_user_text == "Hi"
    assert "severity" not in request.system_text


@pytest.mark.slow
@pytest.mark.requirement("AOX-162")
@pytest.mark.requirement("AOX-177")
def test_a_resume_is_asked_in_its_prompt_since_the_cli_keeps_the_system_prompt(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hello."}, {"json": {"severity": "low"}})
    (bound,) = claude.run(agent_blueprint=agent()).of_type("session_bound")
    resumed = claude.run(
        mode="resume",
        executor_session_id=bound["executor_session_id"],
        agent_blueprint=agent(output_schema=SEVERITY_SCHEMA),
    )

    assert resumed.terminal["output"]["sent"] == ["prompt"]
    assert "## Required Output Format" in claude.model.requests[1].last_user_text


@pytest.mark.slow
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

"""Output contracts: the provider's strict structured output, and what it cannot express."""

from typing import Any

import pytest

from tests.real_cli.codex.conftest import StartCodex

STRICT = {
    "type": "object",
    "required": ["severity"],
    "properties": {"severity": {"enum": ["low", "high"], "default": "low"}},
    "additionalProperties": False,
}
OPTIONAL = {"type": "object", "properties": {"severity": {"type": "string"}}}


@pytest.mark.requirement("AOX-175", "AOX-179")
def test_native_output_is_validated_and_an_answer_that_does_not_fit_is_in_no_event(start_codex: StartCodex) -> None:
    codex = start_codex({"json": {"severity": "MARK"}}, {"json": {"severity": "high"}})
    run = codex.run(output_schema=STRICT, output_schema_options={"strategy": "native"})

    assert run.terminal["result_data"] == {"severity": "high"}
    assert run.terminal["output"]["sent"] == ["native", "re_prompt"]
    assert run.terminal["output"]["delivered_by"] == "native"
    assert b"MARK" not in run.stdout.replace(rb"\"MARK\" is not one of", b"")
    assert run.of_type("message_delta") == []
    for number in (0, 1):
        sent = codex.sent(number)["text"]["format"]
        assert (sent["strict"], sent["schema"]["properties"]) == (
            True,
            {"severity": {"type": "string", "enum": ["low", "high"]}},
        )


def submitted(severity: object) -> dict[str, Any]:
    call = {"type": "tool_use", "name": "submit_answer", "input": {"severity": severity}}
    return {"content": [{"type": "text", "text": "MARK"}, call]}


@pytest.mark.requirement("AOX-177", "AOX-183", "AOX-184", "AOX-185")
def test_a_schema_beyond_the_strict_dialect_is_refused_as_native_and_auto_has_the_tool(start_codex: StartCodex) -> None:
    codex = start_codex(submitted(1), submitted("low"), {"text": "Done."})
    refused = codex.run(output_schema=OPTIONAL, output_schema_options={"strategy": "native"})
    assert (refused.error["type"], refused.exit_code) == ("unsupported_capability", 64)
    assert refused.error["details"]["missing"] == ["output_schema.strategies:native"]

    run = codex.run(output_schema=OPTIONAL, output_schema_options={"strategy": "auto"})
    assert run.terminal["result_data"] == {"severity": "low"}
    assert run.terminal["output"]["strategy"] == run.terminal["output"]["delivered_by"] == "tool"
    assert "text" not in codex.sent(0) or "format" not in codex.sent(0)["text"]
    assert [event["valid"] for event in run.of_type("output_validation")] == [False, True]
    assert not run.of_type("tool_started")
    assert b"MARK" not in run.stdout


@pytest.mark.requirement("AOX-162")
def test_a_thread_that_began_without_the_tool_has_it_in_a_resume(start_codex: StartCodex) -> None:
    codex = start_codex({"text": "Begun."}, submitted("low"), {"text": "Done."})
    settings = {"model": "plain"}  # with others, tools of MCP servers are called in JavaScript
    session = codex.run(executor_config=settings).of_type("session_bound")[0]["executor_session_id"]
    contract = {"output_schema": OPTIONAL, "output_schema_options": {"strategy": "tool"}}
    run = codex.run(mode="resume", executor_session_id=session, executor_config=settings, **contract)

    assert run.terminal["output"]["delivered_by"] == "tool"
    assert not run.of_type("tool_started")


def test_a_schema_that_the_provider_refuses_is_no_native_output(start_codex: StartCodex) -> None:
    told = {"type": "invalid_json_schema", "message": "Invalid schema for response_format 'codex_output_schema'"}
    run = start_codex({"status": 400, "error": told}).run(
        output_schema=STRICT, output_schema_options={"strategy": "native"}
    )
    assert (run.error["type"], run.error["details"]) == (
        "unsupported_capability",
        {"missing": ["output_schema.strategies:native"]},
    )


@pytest.mark.requirement("AOX-177")
def test_auto_asks_in_words_if_the_provider_refuses_the_schema_and_the_process_remembers_it(
    start_codex: StartCodex,
) -> None:
    told = {"type": "invalid_json_schema", "message": "Invalid schema for response_format 'codex_output_schema'"}
    codex = start_codex({"status": 400, "error": told}, {"json": {"severity": "low"}}, {"json": {"severity": "high"}})
    turns = {"stdin": "open", "turns": True}
    with codex.start(output_schema=STRICT, output_schema_options={"strategy": "auto"}, control=turns) as executor:
        first = executor.read_run()
        executor.write_turn("run_2", "And now?")
        second = executor.read_run()

    assert [events[-1]["result_data"] for events in (first, second)] == [{"severity": "low"}, {"severity": "high"}]
    assert [events[-1]["output"]["strategy"] for events in (first, second)] == ["prompt", "prompt"]
    (log,) = [event for event in first if event["event_type"] == "log"]
    assert told["message"] in log["message"]
    assert ["format" in codex.sent(number).get("text", {}) for number in (0, 1, 2)] == [True, False, False]

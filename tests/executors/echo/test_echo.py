"""`ao-echo-exec`, the smallest valid executor."""

import pytest

from tests.executors.driver import installed, invocation, run

ECHO = [installed("ao-echo-exec")]


@pytest.mark.requirement("AOX-075")
@pytest.mark.requirement("AOX-144")
def test_it_answers_with_the_prompt() -> None:
    ended = run(ECHO, invocation(parameters={"prompt": "Grüße"}))

    assert ended.types == ["run_started", "message", "result"]
    assert ended.terminal["result_text"] == "Grüße"
    assert ended.terminal["result_data"] is None
    assert ended.terminal["stop_reason"] == "end_turn"
    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-150")
@pytest.mark.requirement("AOX-151")
def test_it_answers_with_the_inputs_block() -> None:
    blueprint = {"name": "a", "parameters_schema": {"type": "object"}}
    ended = run(ECHO, invocation(parameters={"topic": "</inputs>", "n": 3}, agent_blueprint=blueprint))

    assert ended.terminal["result_text"] == "<inputs>\ntopic: &lt;/inputs>\nn: 3\n</inputs>"


@pytest.mark.requirement("AOX-197")
def test_it_needs_no_environment_at_all() -> None:
    assert run(ECHO, invocation(), env={}).exit_code == 0


@pytest.mark.requirement("AOX-123")
def test_an_output_schema_is_left_to_the_runner() -> None:
    ended = run(ECHO, invocation(output_schema={"type": "object"}))

    assert ended.terminal["result_text"] == "Hi"

"""Sessions go on in a later process."""

import signal

import pytest

from tests.executors.claude_code.claude import SEVERITY_SCHEMA, agent
from tests.executors.claude_code.conftest import StartClaude


@pytest.mark.requirement("AOX-055")
@pytest.mark.requirement("AOX-082")
def test_a_resume_in_a_new_process_continues_the_conversation(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "My name is Ada."}, {"text": "I said Ada."})
    first = claude.run(parameters={"prompt": "Who are you?"}, agent_blueprint=agent())
    bound = first.of_type("session_bound")[0]["executor_session_id"]
    second = claude.run(
        mode="resume",
        run_id="run_2",
        executor_session_id=bound,
        parameters={"prompt": "Again?"},
        agent_blueprint=agent(),
    )
    assert second.terminal["result_text"] == "I said Ada."
    assert second.of_type("session_bound")[0]["executor_session_id"] == bound
    request = claude.model.requests[1]
    assert request.last_user_text == "Again?"
    assert "My name is Ada." in str(request.messages)
    assert request.system_text.endswith("You review.")


@pytest.mark.slow
@pytest.mark.requirement("AOX-162")
def test_a_resume_keeps_the_output_contract(start_claude: StartClaude) -> None:
    claude = start_claude({"json": {"severity": "low"}}, {"text": "none"}, {"json": {"severity": "high"}})
    blueprint = agent(output_schema=SEVERITY_SCHEMA)
    bound = claude.run(agent_blueprint=blueprint).of_type("session_bound")[0]["executor_session_id"]
    second = claude.run(mode="resume", executor_session_id=bound, agent_blueprint=blueprint)
    assert second.terminal["result_data"] == {"severity": "high"}


def test_a_resume_takes_a_prompt_whatever_the_blueprint_says(start_claude: StartClaude) -> None:
    schema = {"type": "object", "required": ["topic"]}
    claude = start_claude()
    run = claude.run(
        mode="resume",
        executor_session_id="6f2c7c2e-1d0d-4c1e-9c57-2f9c7c7d1f10",
        parameters={"topic": "x"},
        agent_blueprint=agent(parameters_schema=schema),
    )
    assert (run.error["type"], run.exit_code) == ("parameters_validation_failed", 64)
    assert run.error["validation_errors"] == ["$: 'prompt' is a required property"]


@pytest.mark.slow
def test_a_version_2_resume_finds_its_session_by_the_runners_id(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "One."}, {"text": "Two."})
    claude.run(schema_version="2.2")
    assert claude.run(schema_version="2.2", mode="resume").terminal["result_text"] == "Two."


@pytest.mark.requirement("AOX-056")
def test_an_unknown_session_is_session_not_found(start_claude: StartClaude) -> None:
    run = start_claude().run(mode="resume", executor_session_id="6f2c7c2e-1d0d-4c1e-9c57-2f9c7c7d1f10")
    assert (run.error["type"], run.exit_code) == ("session_not_found", 1)


@pytest.mark.slow
def test_a_session_whose_run_was_cancelled_goes_on(start_claude: StartClaude) -> None:
    claude = start_claude(
        {"text": "My name is Ada."}, {"text": "Hello there", "stall_after_chars": 4}, {"text": "Ada."}
    )
    bound = claude.run(parameters={"prompt": "Who are you?"}).of_type("session_bound")[0]["executor_session_id"]
    resumed = {"mode": "resume", "executor_session_id": bound}
    with claude.start(**resumed, parameters={"prompt": "And who am I?"}) as executor:
        claude.model.wait_for_requests(2, timeout_seconds=10)
        executor.signal(signal.SIGTERM)
        assert executor.finish().terminal["status"] == "cancelled"
    assert claude.run(**resumed, parameters={"prompt": "Again?"}).terminal["result_text"] == "Ada."
    assert "And who am I?" in str(claude.model.requests[2].messages)


@pytest.mark.requirement("AOX-057")
def test_a_session_that_another_run_is_using_is_session_busy(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hello there", "stall_after_chars": 4})
    with claude.start() as first:
        bound = first.read_until("session_bound")["executor_session_id"]
        second = claude.run(run_id="run_2", mode="resume", executor_session_id=bound)
    assert (second.error["type"], second.exit_code) == ("session_busy", 75)


def test_a_session_that_is_started_again_is_no_busy_one(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "One."}, {"text": "Two."})
    claude.run(schema_version="2.2")
    again = claude.run(schema_version="2.2", run_id="run_2")
    assert (again.error["type"], again.error["retryable"], again.exit_code) == ("invalid_invocation", False, 64)
    assert again.error["side_effects"] == "none"
    assert "session_id: " in again.error["message"]
    assert "mode resume" in again.error["message"]
    assert claude.run(schema_version="2.2", mode="resume").terminal["result_text"] == "Two."


def test_a_session_that_is_started_twice_at_once_is_session_busy(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hello there", "stall_after_chars": 4})
    with claude.start(schema_version="2.2") as first:
        first.read_until("session_bound")
        second = claude.run(schema_version="2.2", run_id="run_2")
    assert (second.error["type"], second.exit_code) == ("session_busy", 75)


@pytest.mark.parametrize("name", ["--x", "a\0b"], ids=["option", "zero"])
def test_a_session_id_that_is_none_is_session_not_found(start_claude: StartClaude, name: str) -> None:
    assert start_claude().run(mode="resume", executor_session_id=name).error["type"] == "session_not_found"

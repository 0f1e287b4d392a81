"""Sessions go on in a later process."""

import pytest

from tests.real_cli.claude_code.conftest import StartClaude


def test_a_version_2_resume_finds_its_session_by_the_runners_id(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "One."}, {"text": "Two."})
    claude.run(schema_version="2.2")
    assert claude.run(schema_version="2.2", mode="resume").terminal["result_text"] == "Two."


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
        claude.model.wait_for_requests(1, timeout_seconds=60)
        second = claude.run(schema_version="2.2", run_id="run_2")
    assert (second.error["type"], second.exit_code) == ("session_busy", 75)


@pytest.mark.parametrize("name", ["--x", "a\0b"], ids=["option", "zero"])
def test_a_session_id_that_is_none_is_session_not_found(start_claude: StartClaude, name: str) -> None:
    assert start_claude().run(mode="resume", executor_session_id=name).error["type"] == "session_not_found"

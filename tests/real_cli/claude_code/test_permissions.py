"""The real CLI waits for a person: allowed, denied, expired, and parked beyond the end of its process."""

from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import EventDocument
from tests.real_cli.claude_code.claude import Claude
from tests.real_cli.claude_code.conftest import StartClaude

ASKING: dict[str, object] = {"stdin": "open", "input": True}
CALL: dict[str, Any] = {
    "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "touch made"}}]
}


def run_with(claude: Claude, *lines: dict[str, object], **fields: object) -> list[EventDocument]:
    """Perform a run, and write these lines when it asks."""
    with claude.start(control=ASKING, **fields) as executor:
        events = []
        for event in executor.events():
            events.append(event)
            if event["event_type"] == "input_requested":
                for line in lines:
                    executor.write_line(line)
    return events


def answer(**fields: object) -> dict[str, object]:
    return {"type": "input_response", "request_id": "toolu_1", **fields}


def of_type(events: list[EventDocument], event_type: str) -> EventDocument:
    (event,) = [event for event in events if event["event_type"] == event_type]
    return event


@pytest.mark.parametrize(
    ("line", "outcome", "status", "is_made"),
    [
        pytest.param(answer(option_id="allow"), "accepted", "completed", True, id="allowed"),
        pytest.param(answer(option_id="deny"), "declined", "denied", False, id="denied"),
        pytest.param(answer(outcome="expired", by="timeout"), "expired", "denied", False, id="expired"),
    ],
)
def test_a_call_happens_only_if_a_person_allows_it(
    start_claude: StartClaude, line: dict[str, object], outcome: str, status: str, is_made: bool
) -> None:
    claude = start_claude(CALL, {"text": "So be it."})

    events = run_with(claude, line)

    request, resolved = of_type(events, "input_requested"), of_type(events, "input_resolved")
    assert (request["tool_call_id"], request["tool_input"]) == ("toolu_1", {"command": "touch made"})
    assert resolved["outcome"] == outcome
    assert of_type(events, "tool_finished")["status"] == status
    assert (claude.home / "made").exists() is is_made
    assert of_type(events, "result")["result_text"] == "So be it."


def test_an_answer_for_the_session_is_asked_for_once(start_claude: StartClaude) -> None:
    again = {"content": [{"type": "tool_use", "id": "toolu_2", "name": "Bash", "input": {"command": "touch more"}}]}
    claude = start_claude(CALL, again, {"text": "Both."})

    events = run_with(claude, answer(option_id="session"))

    assert of_type(events, "input_requested")["request_id"] == "toolu_1"
    assert (claude.home / "more").exists()


@pytest.mark.parametrize(("option", "is_made"), [("allow", True), ("deny", False)])
def test_a_parked_call_is_met_again_by_another_process(start_claude: StartClaude, option: str, is_made: bool) -> None:
    claude = start_claude(CALL, {"text": "So be it."})

    parked = run_with(claude, {"type": "park"})
    error = of_type(parked, "failure")["error"]
    session = of_type(parked, "session_bound")["executor_session_id"]
    resumed = run_with(
        claude,
        mode="resume",
        run_id="run_2",
        parameters={},
        executor_session_id=session,
        requires=["input"],
        input_responses=[{"request_id": error["details"]["requests"][0]["request_id"], "option_id": option}],
    )

    assert error["type"] == "input_required"
    assert of_type(resumed, "input_resolved")["outcome"] == ("accepted" if is_made else "declined")
    assert of_type(resumed, "tool_finished")["status"] == ("completed" if is_made else "denied")
    assert of_type(resumed, "result")["result_text"] == "So be it."
    assert (claude.home / "made").exists() is is_made


def test_answers_to_a_session_that_waits_for_none_end_the_run(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "Hello."})
    session = claude.run().of_type("session_bound")[0]["executor_session_id"]

    resumed = run_with(
        claude,
        mode="resume",
        parameters={},
        executor_session_id=session,
        requires=["input"],
        input_responses=[{"request_id": "toolu_1", "option_id": "allow"}],
    )

    assert of_type(resumed, "failure")["error"]["type"] == "session_not_found"


def test_what_a_rule_leaves_open_is_asked_and_expires_when_parked(start_claude: StartClaude) -> None:
    claude = start_claude(CALL, {"text": "So be it."})

    events = run_with(claude, {"type": "park"}, executor_config={"allowed_tools": ["Bash(git *)"]})

    assert of_type(events, "tool_finished")["error"] == "nobody answered in time"
    assert of_type(events, "result")["result_text"] == "So be it."


def test_nobody_is_asked_about_an_allowed_tool(start_claude: StartClaude, tmp_path: Path) -> None:
    events = run_with(start_claude(CALL, {"text": "Done."}), executor_config={"allowed_tools": ["Bash"]})

    assert not [event for event in events if event["event_type"] == "input_requested"]
    assert (tmp_path / "made").exists()

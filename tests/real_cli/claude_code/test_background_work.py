"""What an agent leaves running at the end of its turn ends with the run, and the events say so."""

import json
from typing import Any

import pytest

from tests.process.executors.driver import Run
from tests.real_cli.claude_code.claude import Claude
from tests.real_cli.claude_code.conftest import StartClaude

WITH_BACKGROUND = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": ""}
ENDLESS = "tail -f /dev/null"
DONE = {"text": "It is running."}


def call(tool: str, **given: object) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "name": tool, "input": given}]}


def perform(claude: Claude, env: dict[str, str], **fields: Any) -> Run:
    config = {"tools": ["Bash", "Task"], "allowed_tools": ["Bash"], "env": env}
    return claude.run(executor_config=config, **fields)


def warnings_of(run: Run) -> list[str]:
    return [event["message"] for event in run.of_type("log")]


def test_a_run_offers_no_work_in_the_background(start_claude: StartClaude) -> None:
    claude = start_claude(call("Bash", command="touch made", run_in_background=True), {"text": "It did not work."})
    run = perform(claude, {})

    offered = {tool["name"]: json.dumps(tool["input_schema"]) for tool in claude.model.requests[0].tools}
    assert [name for name, schema in offered.items() if "run_in_background" in schema] == []
    (finished,) = run.of_type("tool_finished")
    assert (finished["status"], warnings_of(run)) == ("failed", [])
    assert "run_in_background" in finished["error"]
    assert not (claude.home / "made").exists()


def test_a_command_that_takes_too_long_fails_and_does_not_move_to_the_background(start_claude: StartClaude) -> None:
    run = perform(start_claude(call("Bash", command=ENDLESS, timeout=1000), {"text": "It took too long."}), {})

    (finished,) = run.of_type("tool_finished")
    assert (finished["status"], warnings_of(run)) == ("failed", [])
    assert "timed out" in finished["error"]


@pytest.mark.parametrize(
    "given",
    [{"command": ENDLESS, "run_in_background": True}, {"command": ENDLESS, "timeout": 1000}],
    ids=["asked for", "after its timeout"],
)
def test_a_command_that_is_left_in_the_background_is_no_completed_call(
    start_claude: StartClaude, given: dict[str, Any]
) -> None:
    run = perform(start_claude(call("Bash", **given), DONE), WITH_BACKGROUND)

    (finished,), (warning,) = run.of_type("tool_finished"), warnings_of(run)
    assert run.terminal["result_text"] == "It is running."
    assert (finished["status"], finished["error"]) == ("failed", "the run ended first")
    assert ENDLESS in warning


def test_a_subagent_is_waited_for_although_it_is_asked_for_in_the_background(start_claude: StartClaude) -> None:
    task = call("Task", description="d", prompt="Look.", subagent_type="general-purpose", run_in_background=True)
    run = perform(start_claude(task, {"text": "I looked around."}, {"text": "Done."}), {})

    (finished,) = run.of_type("tool_finished")
    assert (run.terminal["result_text"], finished["status"], warnings_of(run)) == ("Done.", "completed", [])
    assert "I looked around." in str(finished["tool_output"])


@pytest.mark.parametrize("starter", ["nohup", "setsid"])
def test_a_process_that_a_command_leaves_is_named(start_claude: StartClaude, starter: str) -> None:
    is_running = "until grep -qa ^tail /proc/$!/cmdline; do :; done"
    command = f"{starter} {ENDLESS} >/dev/null 2>&1 & {is_running}"
    run = perform(start_claude(call("Bash", command=command), DONE), {})

    assert [event["status"] for event in run.of_type("tool_finished")] == ["completed"]
    assert any("left running" in warning and ENDLESS in warning for warning in warnings_of(run))

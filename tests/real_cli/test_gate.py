"""Real CLIs deny a call, leave work behind, or fail: `ao run --fail-on` refuses the result, the step of CI is red."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.process.runner.cli.calling import Ao
from tests.process.runner.cli.ci_job import make_job

BOTH = ("--fail-on", "denied,unfinished")
SLOW = pytest.mark.slow  # test_denied_tools.py and test_tools.py see the events that decide
BACKGROUND = "env.CLAUDE_CODE_DISABLE_BACKGROUND_TASKS="
REVIEWER = {"description": "d", "prompt": "Review it.", "subagent_type": "general-purpose", "run_in_background": True}
LEFT = {"cmd": "tail -f /dev/null", "yield_time_ms": 250}
ESCALATED = {"cmd": "touch no", "sandbox_permissions": "require_escalated", "justification": "Needed."}


def call(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "name": tool, "input": given} for tool, given in calls]}


@pytest.mark.parametrize(
    ("options", "answers", "reason"),
    [
        pytest.param((), [call(("Bash", {"command": "touch no"}))], "denied: Bash", marks=SLOW),
        pytest.param(("--allow", "Bash"), [call(("Bash", {"command": "ls /no/such"}))], None, marks=SLOW),
        pytest.param(("--executor", "codex"), [call(("exec_command", ESCALATED))], "denied: exec_command", marks=SLOW),
        (("--executor", "codex"), [call(("exec_command", LEFT))], "unfinished: the run ends before"),
    ],
    ids=["claude, denied", "claude, failed", "codex, denied", "codex, command killed"],
)
def test_what_an_agent_was_denied_or_left_behind_refuses_its_result(
    options: tuple[str, ...], answers: list[dict[str, Any]], reason: str | None, tmp_path: Path
) -> None:
    ao = Ao(tmp_path)
    ao.write("agent.yaml", "name: reviewer\n")
    ao.write("answers.json", json.dumps({"answers": [*answers, {"text": "All reviewed."}]}))

    called = ao("run", "agent.yaml", "-p", "Review.", "--model-script", "answers.json", *options, *BOTH)

    assert called.exit_code == (0 if reason is None else 3), called.stderr
    assert called.stdout == "All reviewed.\n"
    assert (reason or "✓ completed") in called.stderr


@pytest.mark.parametrize(
    ("options", "answers", "code", "reason"),
    [
        (
            f'--set {BACKGROUND} --set \'tools=["Task","Bash"]\' --allow Bash',
            # While the agent waits for the file, only the reviewer asks the model.
            [
                call(("Task", REVIEWER), ("Bash", {"command": "until [ -e begun ]; do sleep 0.02; done"})),
                call(("Bash", {"command": "touch begun; tail -f /dev/null"})),
                {"json": {"approval": "approve", "comments": []}},
            ],
            *(3, "unfinished: the run ends before its call of Task"),
        ),
        ("", [{"status": 401, "repeat": "forever"}], 1, "authentication_failed"),
    ],
    ids=["a reviewer in the background is killed", "the run fails at once"],
)
def test_the_step_of_ci_is_red_where_those_of_vendors_were_green(
    options: str, answers: list[dict[str, Any]], code: int, reason: str, tmp_path: Path
) -> None:
    """anthropics/claude-code#85275 and #1646 of its action; #1495 of its action."""
    job = make_job(tmp_path)
    (tmp_path / "answers.json").write_text(json.dumps({"answers": answers}))
    left = job.step(executor="claude-code", options=f"--model-script ../answers.json {options}")

    assert left.exit_code == code, left.log
    assert reason in left.outputs["reasons"]
    assert {command.partition(" ")[0] for command in left.commands} == {"::error"}

"""Real CLIs deny a call, or leave work behind, and `ao run --fail-on` refuses the result."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.process.runner.cli.calling import Ao

BOTH = ("--fail-on", "denied,unfinished")
BACKGROUND = "env.CLAUDE_CODE_DISABLE_BACKGROUND_TASKS="
REVIEWER = {"description": "d", "prompt": "Review it.", "subagent_type": "general-purpose", "run_in_background": True}
LEFT = {"cmd": "tail -f /dev/null", "yield_time_ms": 250}
ESCALATED = {"cmd": "touch no", "sandbox_permissions": "require_escalated", "justification": "Needed."}


def call(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "name": tool, "input": given} for tool, given in calls]}


# While the agent waits for the file, only the reviewer asks the model.
IN_BACKGROUND = [
    call(("Task", REVIEWER), ("Bash", {"command": "until [ -e begun ]; do sleep 0.02; done"})),
    call(("Bash", {"command": "touch begun; tail -f /dev/null"})),
]


@pytest.mark.parametrize(
    ("options", "answers", "reason"),
    [
        ((), [call(("Bash", {"command": "touch no"}))], "denied: Bash"),
        (("--set", BACKGROUND, "--set", 'tools=["Task","Bash"]', "--allow", "Bash"), IN_BACKGROUND, "call of Task"),
        (("--allow", "Bash"), [call(("Bash", {"command": "ls /no/such"}))], None),
        (("--executor", "codex"), [call(("exec_command", ESCALATED))], "denied: exec_command"),
        (("--executor", "codex"), [call(("exec_command", LEFT))], "unfinished: the run ends before"),
    ],
    ids=["claude, denied", "claude, reviewer killed", "claude, failed", "codex, denied", "codex, command killed"],
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

"""The figures of `usage` are those of a run, whatever the session has used before."""

from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import Run, wait_until
from tests.real_cli.claude_code.claude import SEVERITY_SCHEMA
from tests.real_cli.claude_code.conftest import StartClaude
from tests.real_cli.programs import CLAUDE_CLI

pytestmark = pytest.mark.requirement("AOX-078")
USED = {"input_tokens": 1000, "output_tokens": 100, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 9}
ANSWER = {"text": "Hello.", "usage": USED}
COST_USD = 0.0060464
WITHOUT_ITS_OWN_FIGURES = """#!/bin/sh
'{cli}' "$@" | sed -u s/model_usage_since_last_result/unknown/
"""


def call(tool: str, **given: object) -> dict[str, Any]:
    return {"content": [{"type": "tool_use", "name": tool, "input": given}], "usage": USED}


def session_of(run: Run) -> str:
    return str(run.of_type("session_bound")[0]["executor_session_id"])


def used(times: int) -> dict[str, Any]:
    return {name: times * count for name, count in USED.items()} | {"cost_usd": pytest.approx(times * COST_USD)}


def test_each_resume_tells_its_own_tokens_and_cost(start_claude: StartClaude) -> None:
    claude = start_claude(*[ANSWER] * 4, {"text": "none", "usage": USED}, {"json": {"severity": "low"}, "usage": USED})
    runs = [claude.run()]
    again = {"mode": "resume", "executor_session_id": session_of(runs[0])}
    runs += [claude.run(**again) for _ in range(3)]
    under_a_contract = claude.run(**again, output_schema=SEVERITY_SCHEMA)

    assert [run.terminal["usage"] for run in runs] == [used(1)] * 4
    assert under_a_contract.terminal["usage"] == used(2)


def test_a_cost_limit_is_about_the_run_and_not_about_its_session(start_claude: StartClaude) -> None:
    claude = start_claude(*[ANSWER] * 3)
    again = {"mode": "resume", "executor_session_id": session_of(claude.run())}

    assert claude.run(**again, limits={"max_cost_usd": 1.5 * COST_USD}).terminal["usage"] == used(1)
    assert claude.run(**again, limits={"max_cost_usd": 0.5 * COST_USD}).error["type"] == "limit_exceeded"


def test_subagents_count_and_so_does_a_run_that_is_cancelled(start_claude: StartClaude, tmp_path: Path) -> None:
    claude = start_claude(
        call("Task", description="d", prompt="Look.", subagent_type="general-purpose"),
        *[ANSWER] * 2,
        call("Bash", command=f"touch {tmp_path}/begun; tail -f /dev/null"),
        ANSWER,
    )
    config = {"tools": ["Bash", "Task"], "allowed_tools": ["Bash"]}
    with claude.start(control={"stdin": "open", "turns": True}, executor_config=config) as executor:
        with_a_subagent = executor.read_run()
        executor.write_turn("run_2", "Wait.")
        wait_until((tmp_path / "begun").exists)  # then the model has told all of its usage
        executor.write_line({"type": "cancel"})
        cancelled = executor.read_run()
        executor.write_turn("run_3", "And then?")
        last = executor.read_run()

    assert with_a_subagent[-1]["usage"] == used(3)
    assert (cancelled[-1]["status"], cancelled[-1]["usage"]) == ("cancelled", used(1))
    assert last[-1]["usage"] == used(1)


def test_a_cli_that_tells_only_what_its_session_cost_leads_to_no_cost(
    start_claude: StartClaude, tmp_path: Path
) -> None:
    older = tmp_path / "claude"
    older.write_text(WITHOUT_ITS_OWN_FIGURES.format(cli=CLAUDE_CLI))
    older.chmod(0o755)
    claude, config = start_claude(*[ANSWER] * 2), {"cli_path": str(older)}
    begun = claude.run(executor_config=config)
    resumed = claude.run(executor_config=config, mode="resume", executor_session_id=session_of(begun))

    assert [run.terminal["usage"] for run in (begun, resumed)] == [USED, USED]

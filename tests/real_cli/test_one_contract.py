"""One blueprint with an output contract, by four real programs: the model's first answer is wrong, its second right."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import installed
from tests.real_cli.programs import CLAUDE_CLI, needs_claude_agent

BLUEPRINT = {
    "name": "triage",
    "system_prompt": "You triage.",
    "output_schema": {
        "type": "object",
        "required": ["severity"],
        "properties": {"severity": {"enum": ["low", "high"]}},
    },
}
ANSWERS = {"answers": [{"json": {"severity": "huge"}}, {"json": {"severity": "high"}}]}
PLAIN = ["--setting-sources=", "--tools="]
PROFILES: dict[str, dict[str, Any]] = {
    "claude-code": {},
    "codex": {},
    "claude-acp": {"environment": {"set": {"CLAUDE_CODE_EXECUTABLE": str(CLAUDE_CLI)}}},
    "command": {
        "config": {
            "argv": [str(CLAUDE_CLI), "-p", "--session-id={session_id}", "--system-prompt={system_prompt}", *PLAIN],
            "resume_argv": [str(CLAUDE_CLI), "-p", "--resume={session_id}", *PLAIN],
        }
    },
}


@pytest.mark.parametrize(
    "executor", [pytest.param(name, marks=needs_claude_agent) if name == "claude-acp" else name for name in PROFILES]
)
def test_the_same_events_come_whatever_program_answers(executor: str, tmp_path: Path) -> None:
    for name, document in (
        ("agent.json", BLUEPRINT),
        ("answers.json", ANSWERS),
        ("profile.json", {"executor": executor, **PROFILES[executor]}),
    ):
        write(tmp_path / name, document)

    events = run_events(tmp_path)

    told = [event["event_type"] for event in events if event["event_type"] != "usage"]
    assert told == ["run_started", "session_bound", "output_validation", "output_validation", "message", "result"]
    assert [event["valid"] for event in events if event["event_type"] == "output_validation"] == [False, True]
    assert events[-1]["result_data"] == {"severity": "high"}
    assert events[-1]["output"]["retry_count"] == 1


def write(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")


def run_events(folder: Path) -> list[dict[str, Any]]:
    """Run the agent in the folder with the simulated model, and return its events."""
    argv = [installed("ao"), "run", "agent.json", "-p", "The login fails.", "--profile", "./profile.json"]
    home = {"AO_HOME": str(folder / "home"), "AO_STORE": "local"}
    ended = subprocess.run(
        [*argv, "--model-script", "answers.json", "--events"],
        cwd=folder,
        env={**os.environ, **home},
        capture_output=True,
        check=False,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr.decode() + ended.stdout.decode()[-2000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]

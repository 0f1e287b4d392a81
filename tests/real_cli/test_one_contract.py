"""One blueprint by four real programs: the events under an output contract, and what a killed runner leaves."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import WAIT_SECONDS, installed, wait_until
from tests.process.lifeline.leftovers import name_of, processes_in
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


each_executor = pytest.mark.parametrize(
    "executor", [pytest.param(name, marks=needs_claude_agent) if name == "claude-acp" else name for name in PROFILES]
)


@each_executor
def test_the_same_events_come_whatever_program_answers(executor: str, tmp_path: Path) -> None:
    with started(executor, ANSWERS, tmp_path) as runner:
        stdout, stderr = runner.communicate(timeout=280)
    assert runner.returncode == 0, stderr.decode() + stdout.decode()[-2000:]
    events = [json.loads(line) for line in stdout.splitlines()]

    told = [event["event_type"] for event in events if event["event_type"] != "usage"]
    assert told == ["run_started", "session_bound", "output_validation", "output_validation", "message", "result"]
    assert [event["valid"] for event in events if event["event_type"] == "output_validation"] == [False, True]
    assert events[-1]["result_data"] == {"severity": "high"}
    assert events[-1]["output"]["retry_count"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="a lifeline needs Linux")
@each_executor
def test_a_killed_runner_leaves_no_process(executor: str, tmp_path: Path) -> None:
    """The model never finishes its answer, so that all programs run when the runner is killed."""
    program = "codex" if executor == "codex" else "claude"
    with started(executor, {"answers": [{"text": "Hello there.", "stall_after_chars": 3}]}, tmp_path) as runner:
        wait_until(lambda: program in [name_of(pid) for pid in processes_in(tmp_path, 0)])
        runner.kill()
        assert processes_in(tmp_path, WAIT_SECONDS) == []


@contextmanager
def started(executor: str, answers: Mapping[str, Any], folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run the agent in the folder with a simulated model."""
    profile = {"executor": executor, **PROFILES[executor]}
    for name, document in (("agent", BLUEPRINT), ("answers", answers), ("profile", profile)):
        (folder / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    argv = [installed("ao"), "run", "agent.json", "-p", "The login fails.", "--profile", "./profile.json"]
    with subprocess.Popen(
        [*argv, "--model-script", "answers.json", "--events"],
        cwd=folder,
        env={**os.environ, "AO_HOME": str(folder / "home"), "AO_STORE": "local"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as runner:
        try:
            yield runner
        finally:
            runner.kill()

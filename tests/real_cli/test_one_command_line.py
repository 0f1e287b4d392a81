"""One blueprint, one configuration and one command line by five real programs: `--executor` alone differs.

The model calls each program's own tools; it is what this test replaces.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import installed
from tests.real_cli.programs import CLAUDE_CLI, needs_claude_agent, needs_gemini, needs_opencode

MODEL = "claude-opus-4-6"
THOUGHT = {"type": "thinking", "thinking": "I write three files."}


def writes_by_tool(tool: str, argument: str, path: Path) -> dict[str, Any]:
    return {"type": "tool_use", "name": tool, "input": {argument: str(path), "content": "new\n"}}


def writes_by_command(path: Path) -> dict[str, Any]:
    return {"type": "tool_use", "name": "exec_command", "input": {"cmd": f"echo new > {path}"}}


WRITING: dict[str, Any] = {
    "claude-code": lambda path: writes_by_tool("Write", "file_path", path),
    "codex": writes_by_command,
    "claude-acp": lambda path: writes_by_tool("Write", "file_path", path),
    "gemini": lambda path: writes_by_tool("write_file", "file_path", path),
    "opencode": lambda path: writes_by_tool("write", "filePath", path),
}
NEEDS = {"claude-acp": needs_claude_agent, "gemini": needs_gemini, "opencode": needs_opencode}


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that is not below /tmp, where Codex lets every command write."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("executor", [pytest.param(name, marks=NEEDS.get(name, ())) for name in WRITING])
def test_a_command_line_moves_from_agent_to_agent(executor: str, tmp_path: Path, elsewhere: Path) -> None:
    folders = [tmp_path / "project", tmp_path / "extra", elsewhere]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    first, *others = [WRITING[executor](folder / "new.txt") for folder in folders]
    contents = [[THOUGHT, first], *([call] for call in others), [{"type": "text", "text": "Two are written."}]]
    documents = {
        "agent": {"name": "writer", "system_prompt": "You write."},
        "settings": {
            "model": MODEL,
            "reasoning_effort": "high",
            "show_reasoning": True,
            "access": "edit",
            "allowed_tools": [],
            "additional_folders": [str(tmp_path / "extra")],
        },
        "answers": {"answers": [{"content": content, "expect": {"model": MODEL}} for content in contents]},
    }
    for name, document in documents.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    argv = ["ao", "run", "agent.json", "-p", "Write.", "--config", "settings.json", "--project-dir", "project"]
    ended = subprocess.run(
        [installed(argv[0]), *argv[1:], "--model-script", "answers.json", "--events", "--executor", executor],
        cwd=tmp_path,
        env={**os.environ, "AO_HOME": str(tmp_path / "home"), "CLAUDE_CODE_EXECUTABLE": str(CLAUDE_CLI)},
        capture_output=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode() + ended.stdout.decode()[-2000:]
    events = [json.loads(line) for line in ended.stdout.splitlines()]

    assert [(folder / "new.txt").exists() for folder in folders] == [True, True, False]
    statuses = [event["status"] for event in events if event["event_type"] == "tool_finished"]
    assert [status == "completed" for status in statuses] == [True, True, False]
    reasoning, answer = [event["content"][0] for event in events if event["event_type"] == "message"]
    assert reasoning["type"] == "reasoning"
    assert reasoning["text"].endswith(THOUGHT["thinking"])  # Gemini puts a title in front
    assert answer == {"type": "text", "text": "Two are written."}
    assert events[-1]["result_text"] == "Two are written."

"""What `check` finds, and what no event shows."""

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.real_cli.claude_code.claude import EXECUTOR
from tests.real_cli.claude_code.conftest import StartClaude
from tests.real_cli.programs import CLAUDE_CLI

CANARY = 'canary-7f3a"quoted'


def check(tmp_path: Path, **variables: str) -> tuple[int, dict[str, Any]]:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **variables}
    done = subprocess.run([*EXECUTOR, "check"], env=env, capture_output=True, timeout=100, check=False)
    verdict: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, verdict


@pytest.mark.requirement("AOX-126")
def test_check_finds_nothing_missing_where_there_is_a_key(tmp_path: Path) -> None:
    code, verdict = check(tmp_path, ANTHROPIC_API_KEY="sk-ant-x")
    (program,) = verdict.pop("programs")
    assert (code, verdict) == (0, {"ok": True, "problems": []})
    assert (program["name"], program["path"]) == ("claude", str(CLAUDE_CLI))
    assert program["version"].startswith("2.")
    assert list(tmp_path.iterdir()) == []  # the home


@pytest.mark.requirement("AOX-126")
def test_check_leaves_the_credentials_of_a_cloud_to_the_cloud(tmp_path: Path) -> None:
    assert check(tmp_path, CLAUDE_CODE_USE_BEDROCK="1")[0] == 0
    assert check(tmp_path, AWS_SECRET_ACCESS_KEY="for-something-else")[0] == 1


@pytest.mark.requirement("AOX-126")
def test_check_says_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    code, verdict = check(tmp_path)
    assert code == 1
    assert verdict["problems"] == [
        "no credentials; set ANTHROPIC_API_KEY, or install Claude Code and log in with `claude`"
    ]


def test_check_names_a_package_that_is_missing_once(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['claude_agent_sdk'] = None\n")

    code, verdict = check(tmp_path, PYTHONPATH=str(tmp_path), PATH=str(tmp_path), ANTHROPIC_API_KEY="sk-ant-x")

    told = "the Claude Agent SDK is not installed; pip install 'ao-executor-protocol[claude]'"
    assert (code, verdict) == (1, {"ok": False, "problems": [told]})


@pytest.mark.requirement("AOX-198")
def test_a_tool_is_given_no_secret_and_what_the_user_runs_before_every_command_is_run(
    start_claude: StartClaude, tmp_path: Path
) -> None:
    activation = tmp_path / "my activation"
    activation.write_text("export GREETING=Hello\n")
    tool = {"type": "tool_use", "name": "Bash", "input": {"command": 'echo "$GREETING <$ANTHROPIC_API_KEY>"'}}
    claude = start_claude({"content": [tool]}, {"text": "Done."}, env={"ANTHROPIC_API_KEY": CANARY})
    run = claude.run(executor_config={"allowed_tools": ["Bash"], "env": {"CLAUDE_ENV_FILE": str(activation)}})
    assert run.of_type("tool_finished")[0]["tool_output"]["stdout"] == "Hello <>"


@pytest.mark.requirement("AOX-198")
def test_secrets_and_the_system_prompt_are_no_arguments_and_in_no_file(
    start_claude: StartClaude, tmp_path: Path
) -> None:
    temporary = tmp_path / "private"
    temporary.mkdir()
    env = {"ANTHROPIC_AUTH_TOKEN": CANARY, "TMPDIR": str(temporary)}
    claude = start_claude({"text": "Hello there", "stall_after_chars": 4}, env=env)
    with claude.start(agent_blueprint={"name": "a", "system_prompt": CANARY}) as executor:
        executor.read_until("session_bound")
        claude.model.wait_for_requests(1, timeout_seconds=10)
        assert CANARY in claude.model.requests[0].system_text
        assert [line for line in command_lines() if CANARY.encode() in line] == []
        files = [path for path in temporary.rglob("*") if path.is_file()]
        assert [path for path in files if CANARY in path.read_text(errors="replace")] == []


def command_lines() -> list[bytes]:
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            lines.append((process / "cmdline").read_bytes())
    return lines

"""The real Claude command line against the simulator: only the model is replaced."""

import json
import os
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ao_model_simulator import ModelSimulator, claude_environment

StartModel = Callable[..., ModelSimulator]
WAIT_SECONDS = 60.0
"""A run takes half a second on an idle machine."""


@pytest.fixture(scope="module")
def claude() -> Path:
    package = find_spec("claude_agent_sdk")
    assert package is not None, "claude_agent_sdk is not installed: install the extra [claude]"
    assert package.origin is not None
    return Path(package.origin).with_name("_bundled") / "claude"


def run_claude(claude: Path, sim: ModelSimulator, home: Path, **variables: str) -> dict[str, Any]:
    """Let the command line do one prompt with all tools allowed. Return its result document."""
    inherited = {"PATH": os.environ["PATH"], "IS_SANDBOX": "1"}
    command = [str(claude), "-p", "Say hello", "--output-format", "json", "--dangerously-skip-permissions"]
    completed = subprocess.run(
        command,
        env=inherited | claude_environment(sim.url, home) | variables,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    document: dict[str, Any] = json.loads(completed.stdout)
    return document


def test_a_text_answer_takes_exactly_one_request(claude: Path, tmp_path: Path, start_model: StartModel) -> None:
    sim = start_model({"text": "Hello from the script.", "expect": {"stream": True}})
    result = run_claude(claude, sim, tmp_path)
    assert (result["is_error"], result["result"]) == (False, "Hello from the script.")
    assert [request.last_user_text for request in sim.requests] == ["Say hello"]
    assert sim.all_requests == sim.requests


def test_a_tool_is_run_and_its_output_comes_back(claude: Path, tmp_path: Path, start_model: StartModel) -> None:
    use = {"type": "tool_use", "name": "Bash", "input": {"command": "echo from-bash"}}
    expect = {"tool_result_contains": "from-bash", "tool_names_include": ["Bash"]}
    sim = start_model({"content": [use]}, {"text": "Done.", "expect": expect})
    assert run_claude(claude, sim, tmp_path)["result"] == "Done."


def test_the_client_waits_as_long_as_retry_after_says(claude: Path, tmp_path: Path, start_model: StartModel) -> None:
    sim = start_model({"status": 429, "headers": {"retry-after": "1"}}, {"text": "After a while."})
    result = run_claude(claude, sim, tmp_path, CLAUDE_CODE_MAX_RETRIES="1")
    assert result["result"] == "After a while."
    assert result["duration_ms"] >= 1000


@pytest.mark.parametrize("fault", ["cut", "malformed"])
def test_after_a_broken_stream_the_client_asks_again_without_one(
    claude: Path, tmp_path: Path, start_model: StartModel, fault: str
) -> None:
    sim = start_model({"text": "Lost.", fault: True}, {"text": "Whole.", "expect": {"stream": False}})
    assert run_claude(claude, sim, tmp_path)["result"] == "Whole."


def test_a_request_beyond_the_script_reaches_the_user_as_an_error(
    claude: Path, tmp_path: Path, start_model: StartModel
) -> None:
    sim = start_model(satisfied=False)
    result = run_claude(claude, sim, tmp_path)
    assert (result["is_error"], result["api_error_status"]) == (True, 400)
    assert "is not in the script (0 answers)" in result["result"]

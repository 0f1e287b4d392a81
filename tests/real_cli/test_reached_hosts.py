"""What the processes of a run connect to: the address of the model, and no other host."""

import os
import re
from pathlib import Path

import pytest

from tests.conftest import StartModel
from tests.process.executors.driver import installed, invocation, run
from tests.real_cli.claude_code.claude import agent
from tests.real_cli.programs import CLAUDE_CLI, STRACE, needs_claude_agent, needs_strace

CONNECT = re.compile(r'_port=htons\((?P<port>\d+)\).*?"(?P<host>[^"]+)"')


def reached_in(trace: Path) -> set[str]:
    """Return what traced processes connected to, as URLs, name servers included."""
    calls = [line for line in trace.read_text(errors="replace").splitlines() if "sa_family=AF_INET" in line]
    return {f"http://{found['host']}:{found['port']}" for found in map(CONNECT.search, calls) if found}


@needs_strace
@pytest.mark.parametrize(
    "executor", ["ao-claude-code-exec", pytest.param("ao-claude-acp-exec", marks=needs_claude_agent)]
)
def test_a_run_of_claude_reaches_its_model_only(executor: str, start_model: StartModel, tmp_path: Path) -> None:
    model = start_model({"text": "Hello."})
    ended = run(
        [*STRACE, str(tmp_path / "trace"), installed(executor)],
        invocation(project_dir=str(tmp_path), agent_blueprint=agent()),
        env={  # nothing that says what to leave out
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "sk-ant-model-sim",
            "CLAUDE_CODE_EXECUTABLE": str(CLAUDE_CLI),
        },
    )

    assert ended.terminal["result_text"] == "Hello."
    assert reached_in(tmp_path / "trace") == {model.url}

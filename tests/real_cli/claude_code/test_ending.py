"""A run that is cancelled or killed leaves no process behind."""

import signal
import time
from pathlib import Path
from uuid import uuid4

import pytest

from tests.real_cli.claude_code.conftest import StartClaude

FOREVER = {"content": [{"type": "tool_use", "name": "Bash", "input": {"command": "tail -f /dev/null"}}]}
BACKGROUND = {
    "content": [
        {
            "type": "tool_use",
            "name": "Bash",
            "input": {"command": "setsid nohup tail -f /dev/null >/dev/null 2>&1 & echo"},
        }
    ]
}
STALLED = {"text": "Hello there", "stall_after_chars": 4}
ALLOWED = {"allowed_tools": ["Bash"]}


def processes_with(mark: str) -> list[int]:
    """Return the processes that inherited a variable with this value, by which none can hide."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def wait_until_gone(mark: str, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while left := processes_with(mark):
        assert time.monotonic() < deadline, f"still alive: {left}"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "until"),
    [
        pytest.param(STALLED, "session_bound", id="streaming"),
        pytest.param(FOREVER, "tool_started", id="tool"),
        pytest.param(BACKGROUND, "tool_finished", id="background-process"),
    ],
)
def test_nothing_is_left_when_the_executor_is_killed(
    start_claude: StartClaude, answer: dict[str, object], until: str
) -> None:
    mark = uuid4().hex
    claude = start_claude(answer, satisfied=False, env={"AO_TEST_MARK": mark})
    with claude.start(executor_config=ALLOWED) as executor:
        executor.read_until(until)
        executor.signal(signal.SIGKILL)
        assert executor.wait() == -signal.SIGKILL
        wait_until_gone(mark)

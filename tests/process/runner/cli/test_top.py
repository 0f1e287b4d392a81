"""`ao top`: what goes on now."""

import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from ao_runner.cli.runs import doing
from tests.process.runner.cli.calling import SECONDS, Ao, at_a_terminal, miniature, read_until
from tests.process.runner.cli.test_run import TAKES_THE_TERMINAL
from tests.process.runner.cli.test_submit import a_worker


def line(event_type: str, **fields: object) -> str:
    import json

    envelope = {"seq": 1, "timestamp": "2026-01-01T00:00:00Z", "run_id": "r", "session_id": "s"}
    return json.dumps({"event_type": event_type, **envelope, **fields})


TOOL = line("tool_started", tool_call_id="1", tool_name="Bash", tool_input={"command": "ls"})
HEARTBEAT = line("heartbeat", phase="tool", last_progress_seq=1)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ((), "starting"),
        ((TOOL,), "→ Bash ls"),
        ((TOOL, HEARTBEAT), "→ Bash ls"),
        ((HEARTBEAT,), "working"),
        ((TOOL, line("heartbeat", phase="retry_wait", last_progress_seq=1)), "waiting to try again"),
        ((TOOL, line("message", message_id="1", role="assistant", content=[{"type": "text", "text": "Hi"}])), "│ Hi"),
        (("not an event",), "working"),
    ],
)
def test_what_a_run_does_is_told_by_its_last_event_that_says_so(lines: tuple[str, ...], told: str) -> None:
    assert doing(lines) == told


def test_what_runs_and_waits_is_shown_with_its_worker(ao: Ao) -> None:
    for prompt in ("first", "second"):
        ao("submit", "agent.yaml", "-p", prompt, "--profile", miniature("works_for_ever"))
    with a_worker(ao, "--concurrency", "1"):
        document = ao("top", "--json").document
        while not document["runs"][0]["events"]:
            document = ao("top", "--json").document
        table = ao("top", "--once").stdout.splitlines()
        ao("cancel", *(run["run_id"] for run in document["runs"]))

    assert (document["running"], document["queued"]) == (1, 1)
    running, waits = document["runs"]
    assert [worker["pid"] for worker in document["workers"]] == [running["pid"]]
    assert (running["status"], running["agent_name"], running["now"]) == ("running", "agent", "thinking")
    assert (waits["status"], waits["worker"], waits["now"]) == ("queued", None, "")
    assert table[0] == "1 running · 1 queued · 0 ended in the last minute · 1 worker"
    assert table[2].split()[2:4] == ["works_for_ever", "running"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("streams", [{}, {"stdin": subprocess.DEVNULL}], ids=["keys", "no terminal to read from"])
def test_at_a_terminal_it_leaves_cleanly(number: signal.Signals, streams: dict[str, int | None], ao: Ao) -> None:
    with at_a_terminal(ao, "top", streams=streams) as (top, ours):
        read_until(ours, b"0 running")
        top.send_signal(number)
        shown = read_until(ours)
        assert top.wait(SECONDS) == 0

    assert b"\x1b[?1049l" in shown
    assert b"Traceback" not in shown


@pytest.mark.parametrize(("key", "starter"), [(b"q", [sys.executable, "-c", TAKES_THE_TERMINAL]), (b"Q", [])])
def test_q_leaves_and_the_terminal_is_as_before(key: bytes, starter: list[str], ao: Ao) -> None:
    with at_a_terminal(ao, "top", starter=starter) as (top, ours):
        before = termios.tcgetattr(ours)
        read_until(ours, b"0 running")
        assert termios.tcgetattr(ours)[3] & (termios.ECHO | termios.ICANON) == 0
        os.write(ours, b"x" + key)
        assert top.wait(SECONDS) == 0
        assert termios.tcgetattr(ours) == before
        assert b"\x1b[?1049l" in read_until(ours)


def test_an_empty_home_has_nothing_to_show(ao: Ao) -> None:
    called = ao("top")

    assert called.stdout == "0 running · 0 queued · 0 ended in the last minute · 0 workers\n"
    assert not (Path(ao.folder) / "ao-home" / "bells").exists()

"""What a killed run leaves behind, what a cancelled one ends, and which hosts a run reaches."""

import os
import signal
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from tests.process.executors.driver import wait_until
from tests.process.lifeline.leftovers import name_of
from tests.real_cli.claude_code.test_ending import processes_with
from tests.real_cli.codex.codex import command
from tests.real_cli.codex.conftest import StartCodex
from tests.real_cli.programs import STRACE, needs_strace
from tests.real_cli.test_reached_hosts import reached_in


@pytest.mark.skipif(sys.platform != "linux", reason="a lifeline needs Linux")
@pytest.mark.parametrize("access", ["read", "all"])
def test_nothing_is_left_when_the_executor_is_killed(start_codex: StartCodex, access: str) -> None:
    mark = uuid4().hex
    codex = start_codex(command("setsid sleep 1000 & sleep 1000"), satisfied=False, env={"AO_TEST_MARK": mark})
    with codex.start(executor_config={"access": access}) as executor:
        executor.read_until("tool_started")
        wait_until(lambda: any("sleep" in name_of(process) for process in processes_with(mark)))
        executor.signal(signal.SIGKILL)
        assert executor.wait() == -signal.SIGKILL
        wait_until(lambda: not processes_with(mark))


@pytest.mark.skipif(sys.platform != "linux", reason="the CLI is found in /proc")
@pytest.mark.requirement("AOX-068")
def test_a_cancel_while_a_turn_begins_ends_that_turn_only(start_codex: StartCodex) -> None:
    mark = uuid4().hex
    answers = [{"text": "One."}, {"text": "Two."}, {"text": "Three."}]
    codex = start_codex(*answers, satisfied=False, env={"AO_TEST_MARK": mark})
    with codex.start(control={"stdin": "open", "turns": True}) as executor:
        assert executor.read_run()[-1]["result_text"] == "One."
        (cli,) = (process for process in processes_with(mark) if name_of(process) == "codex")
        os.kill(cli, signal.SIGSTOP)
        executor.write_turn("run_2", "Go on")
        executor.read_until("session_bound")
        executor.write_line({"type": "cancel"})
        os.kill(cli, signal.SIGCONT)
        assert executor.read_run()[-1]["error"]["type"] == "cancelled"
        executor.write_turn("run_3", "And now?")
        assert executor.read_run()[-1]["event_type"] == "result"
        executor.write_line({"type": "shutdown"})
        assert executor.wait() == 0


@needs_strace
def test_a_run_reaches_the_model_and_no_other_host(start_codex: StartCodex, tmp_path: Path) -> None:
    codex = start_codex({"text": "Hello."})
    trace, traced = tmp_path / "trace", tmp_path / "codex"
    from ao_executors.codex.codex_process import CODEX

    traced.write_text(f'#!/bin/sh\nexec {" ".join(STRACE)} {trace} {CODEX.find()} "$@"\n')
    traced.chmod(0o755)
    assert codex.run(executor_config={"codex_path": str(traced)}).terminal["result_text"] == "Hello."

    assert reached_in(trace) == {codex.model.url}

"""What hangs on a lifeline ends with whoever holds it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ao_lifeline import CANNOT_START, IS_THERE, KILL_ALL, tied
from tests.process.executors.driver import ExecutorProcess, invocation
from tests.process.executors.homemade import homemade
from tests.process.lifeline.held_pipe import assert_everybody_is_gone, held_pipe

pytestmark = pytest.mark.skipif(not IS_THERE, reason="only Linux tells a process of its parent's death")


@pytest.mark.requirement("AOX-194")
@pytest.mark.parametrize(
    "script",
    ["sleep 1000", "sleep 1000 & sleep 1000", "trap '' TERM; setsid sleep 1000 & wait"],
    ids=["a program", "its child", "a daemon of a stubborn one"],
)
def test_nothing_on_a_lifeline_outlives_a_killed_executor(tmp_path: Path, script: str) -> None:
    with held_pipe() as (reading, writing):
        body = f"""
        from ao_lifeline import tied
        subprocess.Popen(tied(["/bin/sh", "-c", "echo up >&2; " + {script!r}]), pass_fds=[{writing}])
        await asyncio.sleep(1000)
        """
        with ExecutorProcess(homemade(tmp_path, body), pass_fds=[writing]) as executor:
            os.close(writing)
            executor.write_line(invocation())
            executor.await_stderr("up")
            executor.signal(signal.SIGKILL)
            assert executor.wait() == -signal.SIGKILL
            assert_everybody_is_gone(reading)


@contextmanager
def on_a_lifeline(script: str) -> Iterator[ExecutorProcess]:
    with ExecutorProcess(tied(["/bin/sh", "-c", script])) as lifeline:
        yield lifeline
        with suppress(ProcessLookupError):
            lifeline.signal(KILL_ALL)
        lifeline.wait()


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15), ("kill -KILL $$", -9), ("sleep 1000 & exit 3", 3)],
)
def test_a_lifeline_ends_as_its_program_did(script: str, code: int) -> None:
    with on_a_lifeline(script) as lifeline:
        assert lifeline.wait() == code


def test_a_lifeline_passes_a_signal_on_to_the_group_of_its_program() -> None:
    with on_a_lifeline("trap 'exit 5' TERM; echo up >&2; sleep 1000 & wait") as lifeline:
        lifeline.await_stderr("up")
        lifeline.signal(signal.SIGTERM)
        assert lifeline.wait() == 5


def test_a_lifeline_kills_everything_when_told_to() -> None:
    with on_a_lifeline("trap '' TERM; echo up >&2; sleep 1000") as lifeline:
        lifeline.await_stderr("up")
        lifeline.signal(KILL_ALL)
        assert lifeline.wait() == -signal.SIGKILL


def test_a_program_that_cannot_be_started_is_told_apart_from_one_that_fails(tmp_path: Path) -> None:
    with ExecutorProcess(tied([str(tmp_path / "absent")])) as lifeline:
        assert lifeline.wait() == -CANNOT_START
        assert lifeline.stderr.endswith("absent cannot be started: No such file or directory\n")


def test_a_broken_pipe_ends_a_program_on_a_lifeline_as_it_does_in_a_shell() -> None:
    with on_a_lifeline("kill -PIPE $$") as lifeline:
        assert lifeline.wait() == -signal.SIGPIPE


def test_the_streams_are_the_programs_alone() -> None:
    with on_a_lifeline("exec 1>&-; echo closed >&2; sleep 1000") as lifeline:
        lifeline.await_stderr("closed")
        assert lifeline.read_event() is None

"""What the work has started is gone when the executor is, however it went."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ao_executors.core.leash import CANNOT_START, IS_LEASHED, KILL_ALL, leashed
from tests.executors.driver import ExecutorProcess, invocation
from tests.executors.homemade import homemade

STARTED_BY_WORK = {
    "a child": "subprocess.Popen(['/bin/sleep', '1000'], pass_fds=[{fd}])",
    "a grandchild": "subprocess.run(['/bin/sh', '-c', 'sleep 1000 &'], pass_fds=[{fd}])",
    "a daemon": "subprocess.run(['/bin/sh', '-c', 'setsid sh -c \"sleep 1000 & sleep 1000\" &'], pass_fds=[{fd}])",
    "one that ignores signals": "subprocess.Popen(['/bin/sh', '-c', 'trap \"\" TERM; sleep 1000'], pass_fds=[{fd}])",
}
ENDS = {
    "return done": None,
    "raise ValueError": None,
    "await asyncio.sleep(1000)": signal.SIGTERM,
    "time.sleep(1000)": signal.SIGTERM,
}

pytestmark = pytest.mark.skipif(not IS_LEASHED, reason="only Linux can find every descendant")


@contextmanager
def life_line() -> Iterator[tuple[int, int]]:
    """Yield the ends of a pipe: the reading one ends when nobody has the writing one any more."""
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)


def assert_everybody_is_gone(reading: int) -> None:
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    assert poll.poll(5000), "a descendant is alive"


@pytest.mark.requirement("AOX-193")
@pytest.mark.requirement("AOX-194")
@pytest.mark.parametrize("start", [pytest.param(start, id=name) for name, start in STARTED_BY_WORK.items()])
@pytest.mark.parametrize(("end", "number"), [pytest.param(end, number, id=end) for end, number in ENDS.items()])
def test_nothing_outlives_a_run(tmp_path: Path, start: str, end: str, number: int | None) -> None:
    with life_line() as (reading, writing):
        body = start.format(fd=writing) + "\ntask.events.emit(Log(level='info', message='started'))\n" + end
        with ExecutorProcess.start(homemade(tmp_path, body), pass_fds=[writing]) as executor:
            os.close(writing)
            executor.write_line(invocation(limits={"cancel_grace_seconds": 0.5}))
            executor.read_until("log")
            if number is not None:
                executor.signal(number)
            executor.finish()
            assert_everybody_is_gone(reading)


@pytest.mark.requirement("AOX-194")
@pytest.mark.parametrize(
    "script",
    ["sleep 1000", "sleep 1000 & sleep 1000", "trap '' TERM; setsid sleep 1000 & wait"],
    ids=["a program", "its child", "a daemon of a stubborn one"],
)
def test_nothing_on_a_leash_outlives_a_killed_executor(tmp_path: Path, script: str) -> None:
    with life_line() as (reading, writing):
        body = f"""
        from ao_executors.core.leash import leashed
        subprocess.Popen(leashed(["/bin/sh", "-c", "echo up >&2; " + {script!r}]), pass_fds=[{writing}])
        await asyncio.sleep(1000)
        """
        with ExecutorProcess.start(homemade(tmp_path, body), pass_fds=[writing]) as executor:
            os.close(writing)
            executor.write_line(invocation())
            executor.await_stderr("up")
            executor.signal(signal.SIGKILL)
            assert executor.wait() == -signal.SIGKILL
            assert_everybody_is_gone(reading)


@contextmanager
def on_a_leash(script: str) -> Iterator[ExecutorProcess]:
    with ExecutorProcess.start(leashed(["/bin/sh", "-c", script])) as leash:
        yield leash


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15), ("kill -KILL $$", -9), ("sleep 1000 & exit 3", 3)],
)
def test_a_leash_ends_as_its_program_did(script: str, code: int) -> None:
    with on_a_leash(script) as leash:
        assert leash.wait() == code


def test_a_leash_passes_a_signal_on_to_the_group_of_its_program() -> None:
    with on_a_leash("trap 'exit 5' TERM; echo up >&2; sleep 1000 & wait") as leash:
        leash.await_stderr("up")
        leash.signal(signal.SIGTERM)
        assert leash.wait() == 5


def test_a_leash_kills_everything_when_told_to() -> None:
    with on_a_leash("trap '' TERM; echo up >&2; sleep 1000") as leash:
        leash.await_stderr("up")
        leash.signal(KILL_ALL)
        assert leash.wait() == 128 + KILL_ALL


def test_a_program_that_cannot_be_started_is_told_apart_from_one_that_fails(tmp_path: Path) -> None:
    with ExecutorProcess.start(leashed([str(tmp_path / "absent")])) as leash:
        assert leash.wait() == -CANNOT_START
        assert leash.stderr.endswith("absent cannot be started: No such file or directory\n")


def test_a_broken_pipe_ends_a_program_on_a_leash_as_it_does_in_a_shell() -> None:
    with on_a_leash("kill -PIPE $$") as leash:
        assert leash.wait() == -signal.SIGPIPE

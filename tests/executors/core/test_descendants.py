"""What the work has started is gone when the executor is, however it went."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ao_lifeline import IS_THERE
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

pytestmark = pytest.mark.skipif(not IS_THERE, reason="only Linux can find every descendant")


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

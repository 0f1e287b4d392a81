"""What the work has started is gone when the executor is, however it went."""

import os
import signal
from pathlib import Path

import pytest

from ao_lifeline import IS_THERE
from tests.executors.driver import ExecutorProcess, invocation
from tests.executors.homemade import homemade
from tests.lifeline.held_pipe import assert_everybody_is_gone, held_pipe

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

pytestmark = pytest.mark.skipif(
    not IS_THERE, reason="the lifeline, which finds every descendant, is there on Linux only"
)


@pytest.mark.requirement("AOX-193", "AOX-194")
@pytest.mark.parametrize("start", [pytest.param(start, id=name) for name, start in STARTED_BY_WORK.items()])
@pytest.mark.parametrize(("end", "number"), [pytest.param(end, number, id=end) for end, number in ENDS.items()])
def test_nothing_outlives_a_run(tmp_path: Path, start: str, end: str, number: int | None) -> None:
    with held_pipe() as (reading, writing):
        body = start.format(fd=writing) + "\ntask.events.emit(Log(level='info', message='started'))\n" + end
        with ExecutorProcess.start(homemade(tmp_path, body), pass_fds=[writing]) as executor:
            os.close(writing)
            executor.write_line(invocation(limits={"cancel_grace_seconds": 0.5}))
            executor.read_until("log")
            if number is not None:
                executor.signal(number)
            executor.finish()
            assert_everybody_is_gone(reading)

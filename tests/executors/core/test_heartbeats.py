"""Signs of life while nothing else happens."""

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.executors.driver import ExecutorProcess, invocation, run
from tests.executors.homemade import homemade

EVERY = {"heartbeat_interval_seconds": 0.4}
PHASES = """
task.events.emit(Message(message_id='m', role='assistant', content=[TextBlock(text='Hm.')]))
await asyncio.sleep(1.0)
task.events.emit(ToolStarted(tool_call_id='1', tool_name='Bash'))
await asyncio.sleep(1.0)
task.events.emit(ToolFinished(tool_call_id='1', tool_name='Bash', status='completed'))
return done
"""


@pytest.mark.requirement("AOX-080")
def test_two_events_are_never_two_intervals_apart(tmp_path: Path) -> None:
    ended = run(homemade(tmp_path, PHASES), invocation(limits=EVERY))

    # The time of importing before the first event of the work is not the event loop's.
    times = [datetime.fromisoformat(event["timestamp"]) for event in ended.events[1:]]
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) < timedelta(seconds=0.8)


@pytest.mark.requirement("AOX-081")
def test_a_heartbeat_says_what_the_run_waits_for_and_how_far_it_has_come(tmp_path: Path) -> None:
    ended = run(homemade(tmp_path, PHASES), invocation(limits=EVERY))

    beats = {(beat["phase"], beat["last_progress_seq"]) for beat in ended.of_type("heartbeat")}
    tool_seq = ended.of_type("tool_started")[0]["seq"]
    assert beats == {("model", 2), ("tool", tool_seq)}


def test_a_heartbeat_notices_that_nobody_reads_any_more(tmp_path: Path) -> None:
    with ExecutorProcess.start(homemade(tmp_path, "await asyncio.sleep(1000)")) as executor:
        executor.write_line(invocation(limits=EVERY))
        executor.read_event()
        executor.close_stdout()
        assert executor.wait(timeout=100) == 130

"""SIGTERM, `cancel` and the end of stdin: three ways to ask for the end of a run."""

import signal
from pathlib import Path

import pytest

from tests.process.executors.driver import ExecutorProcess, Run, invocation
from tests.process.executors.homemade import homemade

OPEN = {"stdin": "open"}
WAITING = "task.events.emit(Log(level='info', message='waiting'))\n"
BODIES = {
    "waits": "await asyncio.sleep(1000)",
    "ignores its cancellation": (
        "while True:\n    try:\n        await asyncio.sleep(1000)\n    except asyncio.CancelledError:\n        pass"
    ),
    "fails while cleaning up": "try:\n    await asyncio.sleep(1000)\nfinally:\n    raise OSError('clean-up failed')",
    "blocks the event loop": "time.sleep(1000)",
}


def assert_cancelled(ended: Run) -> None:
    assert ended.terminal["status"] == "cancelled"
    assert ended.error["type"] == "cancelled"
    assert ended.exit_code == 130


@pytest.mark.requirement("AOX-102", "AOX-196")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in BODIES.items()])
def test_a_signal_ends_the_run_as_cancelled(tmp_path: Path, body: str, number: int) -> None:
    with ExecutorProcess(homemade(tmp_path, WAITING + body)) as executor:
        executor.write_line(invocation(limits={"cancel_grace_seconds": 0.5}))
        executor.read_until("log")
        executor.signal(number)
        ended = executor.finish(timeout=100)

    assert_cancelled(ended)
    assert signal.Signals(number).name in ended.error["message"]


@pytest.mark.requirement("AOX-196")
def test_a_signal_right_after_run_started_ends_the_run_as_cancelled(tmp_path: Path) -> None:
    # What the work imports first holds the event loop, which then gives way to a signal that came meanwhile.
    body = "await asyncio.sleep(10)\n(task.project_dir / 'worked').touch()\nreturn done"
    with ExecutorProcess(homemade(tmp_path, body)) as executor:
        executor.write_line(invocation(project_dir=str(tmp_path)))
        executor.read_event()
        executor.signal(signal.SIGTERM)
        ended = executor.finish()

    assert_cancelled(ended)
    assert not (tmp_path / "worked").exists()


@pytest.mark.requirement("AOX-064")
def test_a_completion_that_wins_the_race_stands(tmp_path: Path) -> None:
    body = WAITING + "while not (task.project_dir / 'go').exists():\n    time.sleep(0.01)\nreturn done"
    with ExecutorProcess(homemade(tmp_path, body)) as executor:
        executor.write_line(invocation(control=OPEN, project_dir=str(tmp_path)))
        executor.read_until("log")
        executor.write(b'{"type":"cancel"}\n')  # nothing hears it before the work is done
        (tmp_path / "go").touch()
        ended = executor.finish()

    assert (ended.terminal["event_type"], ended.exit_code) == ("result", 0)


@pytest.mark.requirement("AOX-063", "AOX-196")
@pytest.mark.parametrize("how", ["cancel", "SIGTERM"])
def test_work_that_catches_the_cancel_and_goes_on_is_cancelled_all_the_same(tmp_path: Path, how: str) -> None:
    body = WAITING + "try:\n    await asyncio.sleep(1000)\nexcept BaseException:\n    return done"
    with ExecutorProcess(homemade(tmp_path, body)) as executor:
        executor.write_line(invocation(control=OPEN))
        executor.read_until("log")
        if how == "cancel":
            executor.write(b'{"type":"cancel"}\n')
        else:
            executor.signal(signal.SIGTERM)
        ended = executor.finish()

    assert_cancelled(ended)


@pytest.mark.requirement("AOX-190")
def test_the_work_finds_an_empty_stdin(tmp_path: Path) -> None:
    body = "seen = sys.stdin.read() + os.read(0, 10).decode()\nassert seen == '', seen\nreturn done"
    with ExecutorProcess(homemade(tmp_path, body)) as executor:
        executor.write_line(invocation(control=OPEN))
        ended = executor.finish()

    assert ended.exit_code == 0


@pytest.mark.requirement("AOX-196")
def test_a_signal_in_the_middle_of_an_event_does_not_spoil_it(tmp_path: Path) -> None:
    body = "task.events.emit(Log(level='info', message='x' * 500_000))\ntime.sleep(1000)"
    with ExecutorProcess(homemade(tmp_path, body)) as executor:
        executor.write_line(invocation(limits={"cancel_grace_seconds": 0.2}))
        executor.read_event()
        executor.await_output()  # the event is larger than the pipe, so its writer now waits for this reader
        executor.signal(signal.SIGTERM)
        ended = executor.finish(timeout=100)

    assert ended.types == ["log", "failure"]
    assert_cancelled(ended)

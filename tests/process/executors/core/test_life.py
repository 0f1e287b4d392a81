"""From the first event to the exit code, whatever happens in between."""

import os
import signal
import sys
from pathlib import Path

import pytest

from ao_lifeline import IS_THERE
from tests.process.executors.driver import ExecutorProcess, bare_environment, installed, invocation, run
from tests.process.executors.homemade import homemade
from tests.process.lifeline.held_pipe import assert_everybody_is_gone, held_pipe

ECHO = [installed("ao-echo-exec")]


@pytest.mark.requirement("AOX-090", "AOX-091", "AOX-192")
def test_run_started_is_out_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").write_text("raise ImportError('pydantic is broken')")
    resumed = invocation(mode="resume", executor_session_id="1")
    ended = run(ECHO, resumed, env={**bare_environment(), "PYTHONPATH": str(tmp_path)})

    assert ended.types == ["run_started", "failure"]
    assert ended.error["message"] == "ImportError: pydantic is broken"


@pytest.mark.requirement("AOX-191")
def test_an_event_is_out_while_the_work_goes_on(tmp_path: Path) -> None:
    argv = homemade(tmp_path, "task.events.emit(Log(level='info', message='working'))\nawait asyncio.sleep(1000)")
    with ExecutorProcess(argv) as executor:
        executor.write_line(invocation())
        assert executor.read_until("log")["message"] == "working"


@pytest.mark.requirement("AOX-108", "AOX-192")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise ValueError('no such thing')", "ValueError: no such thing"),
        ("sys.exit('enough')", "SystemExit: enough"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("raise TimeoutError('a socket')", "TimeoutError: a socket"),
        ("raise BrokenPipeError('a child')", "BrokenPipeError: a child"),
        ("return None", "AttributeError: 'NoneType' object has no attribute 'model_dump'"),
        ("sys.stdout.close(); sys.stderr.close(); raise OSError('without streams')", "OSError: without streams"),
    ],
    ids=["exception", "sys.exit", "interrupt", "timeout", "broken pipe", "no result", "closed streams"],
)
def test_whatever_is_raised_becomes_a_failure(tmp_path: Path, body: str, message: str) -> None:
    ended = run(homemade(tmp_path, body), invocation())

    assert ended.types == ["run_started", "failure"]
    assert ended.error["type"] == "internal_error"
    assert ended.error["origin"] == "executor"
    assert ended.error["message"] == message
    assert ended.exit_code == 1


@pytest.mark.requirement("AOX-193")
@pytest.mark.parametrize(
    "left_behind",
    [
        "asyncio.create_task(asyncio.sleep(1000))",
        "threading.Thread(target=time.sleep, args=(1000,)).start()",
        "asyncio.create_task(asyncio.to_thread(time.sleep, 1000))",
        "import atexit; atexit.register(time.sleep, 1000)",
    ],
    ids=["task", "thread", "task in a thread", "atexit"],
)
def test_the_process_leaves_whatever_the_work_has_left(tmp_path: Path, left_behind: str) -> None:
    with ExecutorProcess(homemade(tmp_path, f"{left_behind}\nreturn done")) as executor:
        executor.write_line(invocation())
        executor.read_until("result")
        assert executor.wait(timeout=100) == 0


def test_what_the_work_has_left_running_can_clean_up(tmp_path: Path) -> None:
    body = """
    async def own_something():
        try:
            await asyncio.sleep(1000)
        finally:
            (task.project_dir / "cleaned up").touch()

    asyncio.create_task(own_something())
    await asyncio.sleep(0)
    return done
    """
    run(homemade(tmp_path, body), invocation(project_dir=str(tmp_path)))

    assert (tmp_path / "cleaned up").exists()


@pytest.mark.requirement("AOX-044")
@pytest.mark.parametrize(
    "body",
    [
        "await asyncio.sleep(1000)",
        "while True:\n    try:\n        await asyncio.sleep(1000)\n    except asyncio.CancelledError:\n        pass",
        "time.sleep(1000)",
    ],
    ids=["waits", "ignores its cancellation", "blocks the event loop"],
)
def test_the_deadline_ends_a_run(tmp_path: Path, body: str) -> None:
    limits = {"timeout_seconds": 0.2, "cancel_grace_seconds": 0.5}
    ended = run(homemade(tmp_path, body), invocation(limits=limits))

    assert ended.error["type"] == "deadline_exceeded"
    assert "0.2 s" in ended.error["message"]
    assert ended.exit_code == 1


@pytest.mark.requirement("AOX-029")
def test_a_result_that_may_not_be_cut_and_does_not_fit_is_a_failure(tmp_path: Path) -> None:
    body = "return Result(result_text=None, result_data='x' * 5000, stop_reason='end_turn')"
    ended = run(homemade(tmp_path, body), invocation(limits={"max_event_bytes": 4096}))

    assert ended.types == ["run_started", "failure"]
    assert ended.error["type"] == "limit_exceeded"


@pytest.mark.requirement("AOX-028")
@pytest.mark.parametrize(
    ("run_id", "is_taken"),
    [
        pytest.param("n" * 512, True, id="512 letters"),
        pytest.param("n" * 513, False, id="513 letters"),
        pytest.param("ü" * 512, True, id="512 letters, 1,024 bytes"),
        pytest.param("ü" * 511 + "あ", False, id="512 letters, 1,025 bytes"),
        pytest.param("\u0001" * 170, True, id="170 control characters, 1,020 bytes as JSON"),
        pytest.param("\u0001" * 171, False, id="171 control characters, 1,026 bytes as JSON"),
    ],
)
def test_names_leave_room_for_an_event_in_the_shortest_line(run_id: str, is_taken: bool) -> None:
    asked = invocation(run_id=run_id, session_id=run_id, parameters={"prompt": "x" * 9000})

    ended = run(ECHO, {**asked, "limits": {"max_event_bytes": 4096}})

    assert [event["run_id"] for event in ended.events] == [run_id if is_taken else None] * len(ended.events)
    assert ended.terminal["event_type"] == ("result" if is_taken else "failure")
    assert is_taken or ended.error["type"] == "invalid_invocation"


EVERY = {"heartbeat_interval_seconds": 0.4}


def test_a_heartbeat_notices_that_nobody_reads_any_more(tmp_path: Path) -> None:
    with ExecutorProcess(homemade(tmp_path, "await asyncio.sleep(1000)")) as executor:
        executor.write_line(invocation(limits=EVERY))
        executor.read_event()
        executor.close_stdout()
        assert executor.wait(timeout=100) == 130


@pytest.mark.requirement("AOX-203")
def test_a_parked_process_has_imported_what_its_run_needs(tmp_path: Path) -> None:
    with ExecutorProcess(homemade(tmp_path, "return done")) as executor:
        executor.await_stderr("warm")
        (tmp_path / "pydantic.py").write_text("raise ImportError('too late')")
        executor.write_line(invocation())
        assert executor.finish().types == ["run_started", "result"]


PARKED_ECHO = """
import sys
from ao_executors.core import Executor, serve
from ao_executors.echo.echo_executor import perform
serve(Executor("echo", "1", perform, {}, warm_up=lambda: print("ready", file=sys.stderr, flush=True)))
"""


def test_a_run_of_a_parked_process_imports_nothing() -> None:
    with ExecutorProcess([sys.executable, "-X", "importtime", "-c", PARKED_ECHO]) as executor:
        executor.await_stderr("ready")
        executor.write_line(invocation())
        ended = executor.finish()

    assert ended.types[-1] == "result"
    assert ended.stderr.partition("ready")[2].strip() == ""


def test_what_is_there_already_is_not_kept_waiting_by_imports(tmp_path: Path) -> None:
    assert "warm" not in run(homemade(tmp_path, "return done"), invocation()).stderr


def test_what_cannot_be_imported_is_told_by_the_run_that_needs_it(tmp_path: Path) -> None:
    (tmp_path / "pydantic.py").write_text("import sys\nsys.stderr.write('looked\\n')\nraise ImportError('broken')")
    with ExecutorProcess(ECHO, env={**bare_environment(), "PYTHONPATH": str(tmp_path)}) as executor:
        executor.await_stderr("looked")
        executor.write_line(invocation(mode="resume", executor_session_id="1"))
        ended = executor.finish()

    assert ended.error["message"] == "ImportError: broken"


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


@pytest.mark.skipif(not IS_THERE, reason="the lifeline, which finds every descendant, is there on Linux only")
@pytest.mark.requirement("AOX-193", "AOX-194")
@pytest.mark.parametrize("start", [pytest.param(start, id=name) for name, start in STARTED_BY_WORK.items()])
@pytest.mark.parametrize(("end", "number"), [pytest.param(end, number, id=end) for end, number in ENDS.items()])
def test_nothing_outlives_a_run(tmp_path: Path, start: str, end: str, number: int | None) -> None:
    with held_pipe() as (reading, writing):
        body = start.format(fd=writing) + "\ntask.events.emit(Log(level='info', message='started'))\n" + end
        with ExecutorProcess(homemade(tmp_path, body), pass_fds=[writing]) as executor:
            os.close(writing)
            executor.write_line(invocation(limits={"cancel_grace_seconds": 0.5}))
            executor.read_until("log")
            if number is not None:
                executor.signal(number)
            executor.finish()
            assert_everybody_is_gone(reading)


UPPERCASE = """\
from ao_executors.core import Answer, Executor, converse, serve


class Uppercase:
    async def ask(self, text):
        return Answer(text.upper(), message_id="msg_1")


async def perform(task):
    return await converse(task, Uppercase())


serve(Executor("uppercase", "1.0", perform, {"capabilities": {"output_schema": {"strategies": ["prompt"]}}}))
"""


@pytest.fixture
def uppercase(tmp_path: Path) -> list[str]:
    (tmp_path / "ao-uppercase-exec").write_text(f"#!{sys.executable}\n{UPPERCASE}")
    (tmp_path / "ao-uppercase-exec").chmod(0o755)
    return [str(tmp_path / "ao-uppercase-exec")]


def test_it_answers(uppercase: list[str]) -> None:
    ended = run(uppercase, invocation(parameters={"prompt": "louder"}))

    assert ended.terminal["result_text"] == "LOUDER"
    assert ended.exit_code == 0


def test_it_keeps_output_contracts(uppercase: list[str]) -> None:
    ended = run(uppercase, invocation(parameters={"prompt": '{"ok": 1}'}, output_schema={"required": ["OK"]}))

    assert ended.terminal["result_data"] == {"OK": 1}


def test_without_an_interval_there_are_no_heartbeats(tmp_path: Path) -> None:
    ended = run(homemade(tmp_path, "await asyncio.sleep(0.5)\nreturn done"), invocation())

    assert ended.types == ["run_started", "result"]

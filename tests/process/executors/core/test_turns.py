"""Several runs in one process: `turn`, and the ways to leave (SPEC 4.4)."""

from pathlib import Path

import pytest

from tests.process.executors.driver import EventDocument, ExecutorProcess, installed, invocation, line_of
from tests.process.executors.homemade import homemade

ECHO = [installed("ao-echo-exec")]
STAYING = {"stdin": "open", "turns": True}
SHUTDOWN = {"type": "shutdown"}


def staying_homemade(folder: Path, body: str) -> list[str]:
    return homemade(folder, body, multi_turn=True)


def outcome(events: list[EventDocument]) -> str:
    """Return the text of a result, or the type of the error."""
    terminal = events[-1]
    return str(terminal["result_text"] if terminal["event_type"] == "result" else terminal["error"]["type"])


@pytest.mark.requirement("AOX-065", "AOX-066", "AOX-143")
def test_each_turn_is_a_run_of_its_own_in_the_same_session() -> None:
    blueprint = {"name": "a", "parameters_schema": {"type": "object", "required": ["topic"]}}
    with ExecutorProcess(ECHO) as executor:
        executor.write_line(invocation(control=STAYING, parameters={"topic": "x"}, agent_blueprint=blueprint))
        first = executor.read_run()
        executor.write_turn("run_2", "And?")
        second = executor.read_run()
        executor.write_line(SHUTDOWN)
        code, rest = executor.wait(), executor.read_event()

    assert outcome(first) == "<inputs>\ntopic: x\n</inputs>"
    assert [(event["event_type"], event["seq"]) for event in second] == [
        ("run_started", 1),
        ("message", 2),
        ("result", 3),
    ]
    assert {(event["run_id"], event["session_id"]) for event in second} == {("run_2", "ses_1")}
    assert outcome(second) == "And?"
    assert (code, rest) == (0, None)


@pytest.mark.parametrize(
    ("body", "timeout_seconds", "error"),
    [("raise ValueError('lost')", 60, "internal_error"), ("time.sleep(1000)", 0.2, "deadline_exceeded")],
    ids=["raises", "blocks the event loop"],
)
def test_a_process_whose_code_fails_does_not_stay(
    tmp_path: Path, body: str, timeout_seconds: float, error: str
) -> None:
    limits = {"timeout_seconds": timeout_seconds, "cancel_grace_seconds": 0.2}
    with ExecutorProcess(staying_homemade(tmp_path, body)) as executor:
        executor.write_line(invocation(control=STAYING, limits=limits))
        ended = executor.finish()

    assert (ended.error["type"], ended.exit_code) == (error, 1)


def test_what_a_run_has_left_running_does_not_disturb_the_next_one(tmp_path: Path) -> None:
    body = """
    async def disturb():
        try:
            await asyncio.sleep(1000)
        finally:
            task.events.emit(Log(level='info', message='ended'))

    asyncio.create_task(disturb())
    await asyncio.sleep(0)
    return done
    """
    with ExecutorProcess(staying_homemade(tmp_path, body)) as executor:
        executor.write_line(invocation(control=STAYING))
        executor.read_run()
        executor.write_turn("run_2", "And?")
        second = executor.read_run()

    assert [event["event_type"] for event in second] == ["run_started", "log", "result"]


def test_turns_in_a_file_are_performed_one_after_the_other(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    with lines.open("wb") as file:
        for document in (
            invocation(control=STAYING),
            {"type": "turn", "run_id": "run_2", "parameters": {"prompt": "And?"}},
            {"type": "turn", "run_id": "run_3", "parameters": {"prompt": "More?"}},
        ):
            file.write(line_of(document))
    with ExecutorProcess(["sh", "-c", f"exec {ECHO[0]} < {lines}"]) as executor:
        outcomes = [outcome(executor.read_run()) for _ in range(3)]
        code = executor.wait()

    assert outcomes == ["Hi", "And?", "More?"]
    assert code == 0


def test_a_process_that_nobody_reads_any_more_leaves(tmp_path: Path) -> None:
    with ExecutorProcess(ECHO) as executor:
        executor.write_line(invocation(control=STAYING))
        executor.read_run()
        executor.close_stdout()
        executor.write_turn("run_2", "And?")
        assert executor.wait() == 130

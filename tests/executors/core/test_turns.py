"""Several runs in one process: `turn`, and the ways to leave (SPEC 4.4)."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.executors.driver import EventDocument, ExecutorProcess, installed, invocation, line_of, run
from tests.executors.homemade import homemade

ECHO = [installed("ao-echo-exec")]
STAYING = {"stdin": "open", "turns": True}
SHUTDOWN = {"type": "shutdown"}


def staying_homemade(folder: Path, body: str) -> list[str]:
    return homemade(folder, body, multi_turn=True)


def outcome(events: list[EventDocument]) -> str:
    """Return the text of a result, or the type of the error."""
    terminal = events[-1]
    return str(terminal["result_text"] if terminal["event_type"] == "result" else terminal["error"]["type"])


@pytest.mark.requirement("AOX-065")
@pytest.mark.requirement("AOX-066")
@pytest.mark.requirement("AOX-143")
def test_each_turn_is_a_run_of_its_own_in_the_same_session() -> None:
    blueprint = {"name": "a", "parameters_schema": {"type": "object", "required": ["topic"]}}
    with ExecutorProcess.start(ECHO) as executor:
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


@pytest.mark.requirement("AOX-058")
@pytest.mark.parametrize("control", [{"stdin": "open"}, {"stdin": "open", "turns": False}, {"turns": True}])
def test_a_process_that_is_not_asked_to_stay_leaves_after_its_run(control: dict[str, object]) -> None:
    with ExecutorProcess.start(ECHO) as executor:
        executor.write_line(invocation(control=control))
        assert executor.finish().exit_code == 0


@pytest.mark.requirement("AOX-123")
def test_an_executor_without_the_capability_leaves_whatever_it_is_asked(tmp_path: Path) -> None:
    with ExecutorProcess.start(homemade(tmp_path, "return done")) as executor:
        executor.write_line(invocation(control=STAYING))
        assert executor.finish().exit_code == 0


@pytest.mark.requirement("AOX-066")
@pytest.mark.requirement("AOX-108")
@pytest.mark.parametrize(
    "leave",
    [
        lambda executor: executor.write_line(SHUTDOWN),
        lambda executor: executor.close_stdin(),
        lambda executor: executor.signal(signal.SIGTERM),
    ],
    ids=["shutdown", "end of stdin", "SIGTERM"],
)
def test_between_runs_it_leaves_silently_and_exits_as_its_last_run_did(
    leave: Callable[[ExecutorProcess], None],
) -> None:
    with ExecutorProcess.start(ECHO) as executor:
        executor.write_line(invocation(control=STAYING))
        executor.read_run()
        executor.write_line({"type": "turn", "run_id": "run_2", "parameters": {"prompt": ""}})
        refused = executor.read_run()
        leave(executor)
        code, rest = executor.wait(), executor.read_event()

    assert outcome(refused) == "parameters_validation_failed"
    assert (code, rest) == (64, None)


@pytest.mark.requirement("AOX-068")
def test_a_cancel_ends_one_run_and_means_nothing_between_runs(tmp_path: Path) -> None:
    body = "if task.text == 'wait':\n    await asyncio.sleep(1000)\nreturn done"
    with ExecutorProcess.start(staying_homemade(tmp_path, body)) as executor:
        executor.write_line(invocation(control=STAYING, parameters={"prompt": "wait"}))
        executor.read_event()
        executor.write_line({"type": "cancel"})
        outcomes = [outcome(executor.read_run())]
        executor.write_line({"type": "cancel"})
        executor.write(b"no control line\n\n")
        for run_id, prompt in (("run_2", "go on"), ("run_3", "wait")):
            executor.write_turn(run_id, prompt)
            if prompt == "wait":
                executor.write_line({"type": "cancel"})
            outcomes.append(outcome(executor.read_run()))
        executor.write_line(SHUTDOWN)
        code = executor.wait()

    assert outcomes == ["cancelled", "done", "cancelled"]
    assert code == 130


@pytest.mark.requirement("AOX-066")
@pytest.mark.requirement("AOX-196")
def test_sigterm_in_a_turn_ends_the_run_and_the_process(tmp_path: Path) -> None:
    body = "if task.text == 'wait':\n    await asyncio.sleep(1000)\nreturn done"
    with ExecutorProcess.start(staying_homemade(tmp_path, body)) as executor:
        executor.write_line(invocation(control=STAYING))
        executor.read_run()
        executor.write_turn("run_2", "wait")
        executor.read_event()
        executor.signal(signal.SIGTERM)
        ended = executor.finish()

    assert (ended.error["type"], ended.exit_code) == ("cancelled", 130)


@pytest.mark.requirement("AOX-123")
def test_an_executor_without_the_capability_refuses_to_prepare() -> None:
    ended = run(ECHO, {"type": "prepare", "invocation": {"schema_version": "3.0", "mode": "start"}})

    assert (ended.error["type"], ended.exit_code) == ("invalid_invocation", 64)


@pytest.mark.requirement("AOX-068")
def test_each_run_has_the_whole_of_the_limits(tmp_path: Path) -> None:
    body = """
    started = time.monotonic()
    while task.text == 'wait' or time.monotonic() < started + 0.3:
        await asyncio.sleep(0.01)
    return done
    """
    limits = {"timeout_seconds": 0.5, "cancel_grace_seconds": 5, "heartbeat_interval_seconds": 0.1}
    with ExecutorProcess.start(staying_homemade(tmp_path, body)) as executor:
        executor.await_stderr("warm")  # the imports of the work would count
        executor.write_line(invocation(control=STAYING, limits=limits))
        runs = [executor.read_run()]
        for run_id, prompt in (("run_2", "wait"), ("run_3", "go on")):
            executor.write_turn(run_id, prompt)
            runs.append(executor.read_run())

    assert [outcome(events) for events in runs] == ["done", "deadline_exceeded", "done"]
    assert all("heartbeat" in [event["event_type"] for event in events] for events in runs)


@pytest.mark.requirement("AOX-068")
@pytest.mark.requirement("AOX-162")
def test_the_contract_of_the_invocation_holds_for_every_turn() -> None:
    answers = [{"json": {"n": 1}}, {"text": "none"}, {"json": {"n": 2}}, {"text": "no"}, {"text": "never"}]
    blueprint = {"name": "a", "output_schema": {"type": "object", "required": ["n"]}}
    with ExecutorProcess.start([installed("ao-scripted-exec")]) as executor:
        executor.write_line(
            invocation(control=STAYING, agent_blueprint=blueprint, executor_config={"script": {"answers": answers}})
        )
        runs = [executor.read_run()]
        for run_id in ("run_2", "run_3"):
            executor.write_turn(run_id, "Again?")
            runs.append(executor.read_run())

    assert [events[-1].get("result_data") for events in runs] == [{"n": 1}, {"n": 2}, None]
    assert [events[-1]["output"]["sent"] for events in runs[:2]] == [["system_prompt"], ["system_prompt", "re_prompt"]]
    assert outcome(runs[2]) == "output_schema_validation_failed"


@pytest.mark.parametrize(
    ("body", "timeout_seconds", "error"),
    [("raise ValueError('lost')", 60, "internal_error"), ("time.sleep(1000)", 0.2, "deadline_exceeded")],
    ids=["raises", "blocks the event loop"],
)
def test_a_process_whose_code_fails_does_not_stay(
    tmp_path: Path, body: str, timeout_seconds: float, error: str
) -> None:
    limits = {"timeout_seconds": timeout_seconds, "cancel_grace_seconds": 0.2}
    with ExecutorProcess.start(staying_homemade(tmp_path, body)) as executor:
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
    with ExecutorProcess.start(staying_homemade(tmp_path, body)) as executor:
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
    with ExecutorProcess.start(["sh", "-c", f"exec {ECHO[0]} < {lines}"]) as executor:
        outcomes = [outcome(executor.read_run()) for _ in range(3)]
        code = executor.wait()

    assert outcomes == ["Hi", "And?", "More?"]
    assert code == 0


def test_a_process_that_nobody_reads_any_more_leaves(tmp_path: Path) -> None:
    with ExecutorProcess.start(ECHO) as executor:
        executor.write_line(invocation(control=STAYING))
        executor.read_run()
        executor.close_stdout()
        executor.write_turn("run_2", "And?")
        assert executor.wait() == 130

"""What an executor keeps from run to run, and connects before the invocation comes (SPEC 4.4, 4.5)."""

from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import ExecutorProcess, invocation, run, wait_until
from tests.process.executors.homemade import homemade

STAYING = {"stdin": "open", "turns": True}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def connecting(tmp_path: Path) -> list[str]:
    """An executor whose connection keeps a diary; its result is what stands there when it performs."""
    body = "diary = (task.project_dir / 'diary').read_text()\nreturn done.model_copy(update={'result_text': diary})"
    return homemade(tmp_path, body, connects=True, multi_turn=True, prepare=True)


def asking(folder: Path, system_prompt: str = "A", **fields: object) -> dict[str, Any]:
    return invocation(project_dir=str(folder), agent_blueprint={"name": "a", "system_prompt": system_prompt}, **fields)


def prepare(executor: ExecutorProcess, document: dict[str, Any]) -> None:
    of_the_run = {"run_id", "session_id", "parameters"}
    known = {name: value for name, value in document.items() if name not in of_the_run}
    executor.write_line({"type": "prepare", "invocation": known})


def diary(folder: Path) -> str:
    file = folder / "diary"
    return file.read_text() if file.exists() else ""


def test_a_connection_has_been_left_when_the_terminal_event_of_the_last_run_is_out(
    connecting: list[str], tmp_path: Path
) -> None:
    with ExecutorProcess(connecting) as executor:
        executor.write_line(asking(tmp_path))
        assert executor.read_until("result")["result_text"] == "open A\n"
        assert diary(tmp_path) == "open A\nclose\n"


def test_a_connection_outlives_a_run_and_not_the_process(connecting: list[str], tmp_path: Path) -> None:
    with ExecutorProcess(connecting) as executor:
        executor.write_line(asking(tmp_path, control=STAYING))
        executor.read_run()
        executor.write_turn("run_2", "And?")
        assert executor.read_run()[-1]["result_text"] == "open A\n"
        executor.close_stdin()
        executor.wait()

    assert diary(tmp_path) == "open A\nclose\n"


def test_a_connection_that_has_died_between_runs_is_replaced(connecting: list[str], tmp_path: Path) -> None:
    with ExecutorProcess(connecting) as executor:
        executor.write_line(asking(tmp_path, control=STAYING))
        executor.read_run()
        (tmp_path / "dead").touch()
        executor.write_turn("run_2", "And?")
        assert executor.read_run()[-1]["result_text"] == "open A\nclose\nopen A\n"


@pytest.mark.requirement("AOX-066")
def test_a_run_behind_which_the_connection_is_dead_is_the_last_one(tmp_path: Path) -> None:
    argv = homemade(tmp_path, "(task.project_dir / 'dead').touch()\nreturn done", connects=True, multi_turn=True)
    with ExecutorProcess(argv) as executor:
        executor.write_line(asking(tmp_path, control=STAYING))
        assert executor.finish().exit_code == 0


@pytest.mark.requirement("AOX-068")
def test_a_deadline_while_a_connection_opens_leaves_it_to_the_next_run(connecting: list[str], tmp_path: Path) -> None:
    limits = {"timeout_seconds": 0.5}
    with ExecutorProcess(connecting) as executor:
        executor.write_line(asking(tmp_path, "slow", control=STAYING, limits=limits))
        first = executor.read_run()[-1]
        executor.write_turn("run_2", "And?")
        second = executor.read_run()[-1]
        (tmp_path / "go").touch()
        wait_until(lambda: diary(tmp_path) == "begin\nopen slow\n")
        executor.write_turn("run_3", "And?")
        third = executor.read_run()[-1]

    assert [first["error"]["type"], second["error"]["type"]] == ["deadline_exceeded", "deadline_exceeded"]
    assert third["result_text"] == "begin\nopen slow\n"


def test_what_cannot_be_connected_is_the_failure_of_the_run(connecting: list[str], tmp_path: Path) -> None:
    ended = run(connecting, asking(tmp_path, "fail", control={"stdin": "closed"}))

    assert (ended.error["type"], ended.exit_code) == ("dependency_missing", 1)


@pytest.mark.requirement("AOX-069")
@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"run_id": "run_7", "session_id": "ses_7", "parameters": {"prompt": "B"}}, "open A\n"),
        ({"metadata": {"for": "people"}}, "open A\n"),
        ({"system_prompt": "B"}, "open A\nclose\nopen B\n"),
        ({"metadata": {"traceparent": TRACE}}, "open A\nclose\nopen A\n"),
        ({"control": STAYING}, "open A\nclose\nopen A\n"),
    ],
    ids=["of the run", "metadata", "blueprint", "trace", "control"],
)
def test_an_invocation_finds_what_was_prepared_for_it_and_for_no_other(
    connecting: list[str], tmp_path: Path, changed: dict[str, Any], expected: str
) -> None:
    with ExecutorProcess(connecting) as executor:
        prepare(executor, asking(tmp_path))
        wait_until(lambda: diary(tmp_path) == "open A\n")
        executor.write_line(asking(tmp_path, **changed))
        events = executor.read_run()

    assert events[0]["run_id"] == changed.get("run_id", "run_1")
    assert events[-1]["result_text"] == expected


@pytest.mark.requirement("AOX-069")
@pytest.mark.parametrize(
    "prepared", [{"system_prompt": "fail"}, {"limits": 7}, {"schema_version": "2.2"}, {"mode": "resume"}]
)
def test_what_cannot_be_prepared_changes_nothing(
    connecting: list[str], tmp_path: Path, prepared: dict[str, Any]
) -> None:
    with ExecutorProcess(connecting) as executor:
        prepare(executor, asking(tmp_path, **prepared))
        executor.write_line(asking(tmp_path))
        ended = executor.finish()

    assert (ended.types, ended.terminal.get("result_text")) == (["run_started", "result"], "open A\n")

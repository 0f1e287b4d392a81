"""What a conformance suite asks of executors on the toolkit by variables: noise, and a run that lasts (SPEC 12)."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.process.executors.driver import ExecutorProcess, bare_environment, installed, invocation, run
from tests.process.executors.homemade import homemade

SCRIPT = {"script": {"answers": [{"text": "Hi"}]}}
CONTRACT = {"executor_config": {"script": {"answers": [{"json": {}}]}}, "output_schema": {"type": "object"}}

EXECUTORS = {
    "echo": (lambda _: [installed("ao-echo-exec")], {}, ["run_started"]),
    "scripted": (
        lambda _: [installed("ao-scripted-exec")],
        {"executor_config": SCRIPT},
        ["run_started", "session_bound", "session_bound"],
    ),
    "contract": (
        lambda _: [installed("ao-scripted-exec")],
        CONTRACT,
        ["run_started", "session_bound", "session_bound"],
    ),
    "no conversation": (lambda folder: homemade(folder, "return done"), {}, ["run_started"]),
}
Case = tuple[Callable[[Path], list[str]], dict[str, Any], list[str]]
each_executor = pytest.mark.parametrize("case", EXECUTORS.values(), ids=EXECUTORS)

ENDINGS: dict[str, Callable[[ExecutorProcess], None]] = {
    "SIGTERM": lambda executor: executor.signal(signal.SIGTERM),
    "cancel": lambda executor: executor.write_line({"type": "cancel"}),
    "end of stdin": lambda executor: executor.close_stdin(),
}


def hooked(**variables: str) -> dict[str, str]:
    return bare_environment() | {f"AO_CONFORM_{name}": value for name, value in variables.items()}


@each_executor
def test_a_run_that_lingers_can_be_ended_before_its_answer(tmp_path: Path, case: Case) -> None:
    argv, fields, before = case
    with ExecutorProcess(argv(tmp_path), env=hooked(LINGER_SECONDS="1000")) as executor:
        executor.write_line(invocation(**fields))
        for _ in before:
            executor.read_event()
        executor.signal(signal.SIGTERM)
        ended = executor.finish()

    assert (ended.types, ended.error["type"], ended.exit_code) == (["failure"], "cancelled", 130)


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_while_it_lingers_it_lives_and_listens(end: Callable[[ExecutorProcess], None]) -> None:
    asked = invocation(limits={"heartbeat_interval_seconds": 0.05}, control={"stdin": "open"})
    with ExecutorProcess([installed("ao-echo-exec")], env=hooked(LINGER_SECONDS="1000")) as executor:
        executor.write_line(asked)
        assert executor.read_until("heartbeat")["phase"] == "model"
        end(executor)
        ended = executor.finish()

    assert (ended.error["type"], ended.exit_code) == ("cancelled", 130)
    assert not ended.of_type("message")


def test_after_it_has_lingered_it_answers() -> None:
    ended = run([installed("ao-echo-exec")], invocation(), env=hooked(LINGER_SECONDS="0.05"))

    assert ended.types == ["run_started", "message", "result"]


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "1e3", "1_0"])
def test_a_linger_that_is_no_decimal_number_is_ignored_and_said(text: str) -> None:
    ended = run([installed("ao-echo-exec")], invocation(), env=hooked(LINGER_SECONDS=text))

    assert ended.types == ["run_started", "message", "result"]
    assert ended.stderr == (
        f"AO_CONFORM_LINGER_SECONDS is {text!r} and is ignored; expected seconds as a decimal number, such as 2.5\n"
    )


@pytest.mark.parametrize("variables", [{"NOISE": "0"}, {"NOISE": ""}, {"LINGER_SECONDS": ""}], ids=str)
def test_an_empty_hook_changes_nothing(variables: dict[str, str]) -> None:
    assert run([installed("ao-echo-exec")], invocation(), env=hooked(**variables)).stderr == ""

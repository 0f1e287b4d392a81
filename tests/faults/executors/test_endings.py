"""Executors that end as they should not. What they have flushed is there, the run ends once, and nobody is left."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ao_protocol.events import Failure, Result
from ao_runner.runs.run_request import GracePeriods
from tests.process.lifeline.offered import needs
from tests.process.runner.performing import IMPATIENT, PATIENT, Performed, check_whole, perform

FLUSHED = 5000
STUBBORN = replace(IMPATIENT, ask_seconds=0.1, close_stdin_seconds=0.1, terminate_seconds=0.1)


def failure_of(performed: Performed) -> Failure:
    assert isinstance(performed.terminal, Failure)
    return performed.terminal


def test_what_was_flushed_before_a_sigkill_is_there(tmp_path: Path) -> None:
    performed = perform("is_killed_after_a_flood", tmp_path, parameters={"prompt": "x", "events": FLUSHED})

    assert performed.types == ["run_started", *["log"] * FLUSHED, "failure"]
    assert failure_of(performed).error.type == "executor_crashed"
    assert (failure_of(performed).error.details or {})["signal"] == "SIGKILL"
    check_whole(performed)


ENDINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "dies_unread": ("missing_terminal", {"parameters": {"prompt": "x" * 7_000_000}}),
    "never_reads": ("executor_start_timeout", {"parameters": {"prompt": "x" * 7_000_000}, "start_seconds": 0.2}),
    "becomes_a_daemon": ("missing_terminal", {}),
    "stops_itself": ("cancel_timeout", {"stop_on": "run_started", "grace_periods": STUBBORN}),
    "forks_without_end": ("cancel_timeout", {"stop_on": "log", "grace_periods": STUBBORN}),
    "closes_stdin": ("cancelled", {"stop_on": "run_started", "grace_periods": replace(STUBBORN, terminate_seconds=30)}),
}


ESCAPING = ("becomes_a_daemon", "forks_without_end")


@pytest.mark.parametrize(
    "miniature", [pytest.param(name, marks=needs("lifeline")) if name in ESCAPING else name for name in ENDINGS]
)
def test_a_run_whose_executor_ends_badly_ends_once_and_leaves_nobody(miniature: str, tmp_path: Path) -> None:
    error_type, settings = ENDINGS[miniature]

    performed = perform(miniature, tmp_path, **settings)

    assert failure_of(performed).error.type == error_type
    assert performed.record.problem_count == 0
    check_whole(performed)


def test_a_stopped_executor_is_ended_when_its_time_is_up(tmp_path: Path) -> None:
    performed = perform("stops_itself", tmp_path, timeout_seconds=0.1, grace_periods=STUBBORN)

    assert failure_of(performed).error.type == "deadline_exceeded"
    assert performed.record.stop_actions == ("ask", "close_stdin", "terminate", "kill")
    check_whole(performed)


def test_a_result_that_crosses_a_cancel_counts(tmp_path: Path) -> None:
    performed = perform("answers_although_cancelled", tmp_path, stop_on="run_started")

    assert isinstance(performed.terminal, Result)
    assert performed.record.problem_count == 0
    check_whole(performed)


@pytest.mark.parametrize(("stops", "grace_periods"), [(1, PATIENT), (2, PATIENT)], ids=["asked", "killed"])
def test_a_wish_to_stop_that_comes_with_the_result_changes_nothing(
    stops: int, grace_periods: GracePeriods, tmp_path: Path
) -> None:
    performed = perform("answers_at_once", tmp_path, stop_on="result", stops_wanted=stops, grace_periods=grace_periods)

    assert isinstance(performed.terminal, Result)
    check_whole(performed)


def test_an_executor_has_three_descriptors(tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as inheritable:
        os.set_inheritable(inheritable.fileno(), True)
        performed = perform("shows_its_descriptors", tmp_path)

    assert isinstance(performed.terminal, Result)
    assert performed.terminal.result_text == "[0, 1, 2]"
    check_whole(performed)

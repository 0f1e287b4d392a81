"""Every way a run can end, as one table."""

import errno
from typing import Any

import pytest

from ao_protocol.errors import ExitCode
from ao_protocol.events import ErrorInfo, Failure, Result, Terminal
from ao_runner.runs.outcome import (
    Cause,
    ProcessEnded,
    disagreement,
    ended_without_terminal,
    exit_code_of,
    not_started,
    settle_terminal,
)


def ended(exit_code: int | None, cause: Cause | None = None, **facts: Any) -> Failure:
    return ended_without_terminal(ProcessEnded(exit_code, cause, **facts))


def cannot_start(number: int, doing: str = "", *, is_of_folder: bool = False) -> Failure:
    return not_started("/x", OSError(number, "No"), doing, is_of_folder=is_of_folder)


SIGNALLED = {"was_signalled": True}
KILLED = {**SIGNALLED, "was_killed": True}


@pytest.mark.requirement("AOX-243")
@pytest.mark.requirement("AOX-244")
@pytest.mark.parametrize(
    ("failure", "error_type", "side_effects", "origin", "retryable"),
    [
        pytest.param(cannot_start(errno.ENOENT), "executor_not_found", "none", "environment", False, id="no such file"),
        pytest.param(cannot_start(errno.EACCES), "executor_not_found", "none", "environment", False, id="no right"),
        pytest.param(cannot_start(errno.ENOEXEC), "executor_not_found", "none", "environment", False, id="no program"),
        pytest.param(cannot_start(errno.EMFILE), "resource_exhausted", "none", "environment", True, id="no files"),
        pytest.param(
            cannot_start(errno.ENOENT, "its folder", is_of_folder=True),
            "workspace_error", "none", "environment", False, id="no folder",
        ),
        pytest.param(ended(0), "missing_terminal", "possible", "executor", False, id="left with 0"),
        pytest.param(ended(1), "missing_terminal", "possible", "executor", False, id="left with 1"),
        pytest.param(ended(0, problems=["noise"]), "protocol_violation", "possible", "executor", False, id="garbage"),
        pytest.param(
            ended(0, problems=["long"], long_event_bytes=4096),
            "limit_exceeded", "possible", "executor", False, id="too long an event",
        ),
        pytest.param(ended(-11), "executor_crashed", "possible", "executor", True, id="crashed"),
        pytest.param(ended(-77), "executor_crashed", "possible", "executor", True, id="unknown signal"),
        pytest.param(
            ended(0, Cause.STDOUT_CLOSED), "missing_terminal", "possible", "executor", False, id="stdout closed, left"
        ),
        pytest.param(
            ended(-6, Cause.STDOUT_CLOSED), "executor_crashed", "possible", "executor", True, id="closed, crashed"
        ),
        pytest.param(
            ended(-15, Cause.STDOUT_CLOSED, **SIGNALLED),
            "missing_terminal", "possible", "executor", False, id="stdout closed, ended",
        ),
        pytest.param(
            ended(None, Cause.STDOUT_CLOSED, **SIGNALLED),
            "missing_terminal", "possible", "executor", False, id="given up",
        ),
        pytest.param(ended(0, Cause.CANCELLED), "cancelled", "possible", "caller", False, id="cancelled, left"),
        pytest.param(
            ended(-15, Cause.CANCELLED, **SIGNALLED), "cancelled", "possible", "caller", False, id="cancelled, ended"
        ),
        pytest.param(
            ended(-9, Cause.CANCELLED, **KILLED), "cancel_timeout", "possible", "executor", False, id="cancelled, slow"
        ),
        pytest.param(ended(-9, Cause.KILLED, **KILLED), "cancelled", "possible", "caller", False, id="killed"),
        pytest.param(
            ended(-9, Cause.DEADLINE, limit_seconds=5, **KILLED),
            "deadline_exceeded", "possible", "caller", False, id="too long, killed",
        ),
        pytest.param(
            ended(-15, Cause.START_TIMEOUT), "executor_start_timeout", "possible", "executor", True, id="never started"
        ),
        pytest.param(
            ended(-9, Cause.STALLED, **KILLED), "executor_stalled", "possible", "executor", True, id="went silent"
        ),
    ],
)  # fmt: skip
def test_an_ending_is_one_failure(
    failure: Failure, error_type: str, side_effects: str, origin: str, retryable: bool
) -> None:
    error = failure.error

    assert (error.type, error.side_effects, error.origin) == (error_type, side_effects, origin)
    assert error.retryable is retryable
    assert failure.status == ("cancelled" if error_type == "cancelled" else "failed")


@pytest.mark.parametrize("cause", [*Cause, None])
@pytest.mark.parametrize("exit_code", [0, 1, -9, None])
def test_every_combination_has_an_outcome(cause: Cause | None, exit_code: int | None) -> None:
    assert ended(exit_code, cause).error.message


def test_the_error_names_the_signal_and_the_last_words() -> None:
    details = ended(-11, stderr_tail="boom\n").error.details

    assert details == {"exit_code": -11, "signal": "SIGSEGV", "stderr_tail": "boom\n"}


RESULT = Result(result_text="ok", result_data=None, stop_reason="end_turn")


def failure(status: Any, error_type: str, *, retryable: bool = False) -> Failure:
    error = ErrorInfo(type=error_type, message="m", retryable=retryable, side_effects="none", origin="executor")
    return Failure(status=status, error=error)


CANCELLED = failure("cancelled", "cancelled")


@pytest.mark.parametrize(
    ("terminal", "cause", "expected"),
    [
        (CANCELLED, Cause.DEADLINE, "deadline_exceeded"),
        (CANCELLED, Cause.CANCELLED, "cancelled"),
        (CANCELLED, None, "cancelled"),
        (failure("failed", "tool_failed"), Cause.DEADLINE, "tool_failed"),
    ],
    ids=["asked because of time", "asked by somebody", "by itself", "failed in time"],
)
def test_only_the_runner_knows_that_time_was_up(terminal: Terminal, cause: Cause | None, expected: str) -> None:
    settled = settle_terminal(terminal, cause, 5)

    assert isinstance(settled, Failure)
    assert settled.error.type == expected


def test_a_result_that_comes_too_late_is_still_a_result() -> None:
    assert settle_terminal(RESULT, Cause.DEADLINE, 5) is RESULT


@pytest.mark.parametrize(
    ("terminal", "exit_code", "cause", "words"),
    [
        (RESULT, 0, Cause.ENDED, None),
        (RESULT, 3, Cause.ENDED, "exited with code 3, but its terminal event means exit code 0"),
        (RESULT, -15, Cause.ENDED, "did not exit after its terminal event"),
        (RESULT, None, Cause.ENDED, "did not exit after its terminal event"),
        (CANCELLED, 130, Cause.ENDED, None),
        (failure("failed", "rate_limited", retryable=True), 75, Cause.ENDED, None),
        (failure("failed", "invalid_json"), 1, Cause.ENDED, "means exit code 64"),
    ],
    ids=["agrees", "wrong code", "did not exit", "given up", "cancelled", "retryable", "refused"],
)
def test_an_exit_code_that_disagrees_is_told(
    terminal: Terminal, exit_code: int | None, cause: Cause, words: str | None
) -> None:
    complaint = disagreement(terminal, exit_code, cause)

    assert complaint is None if words is None else words in str(complaint)


@pytest.mark.parametrize(
    ("terminal", "code"),
    [
        (RESULT, ExitCode.RESULT),
        (CANCELLED, ExitCode.CANCELLED),
        (failure("failed", "tool_failed"), ExitCode.FAILURE),
        (failure("failed", "rate_limited", retryable=True), ExitCode.RETRYABLE_FAILURE),
        (failure("failed", "invalid_json"), ExitCode.REFUSED),
    ],
    ids=["result", "cancelled", "failed", "retryable", "refused"],
)
def test_a_terminal_event_has_an_exit_code(terminal: Terminal, code: ExitCode) -> None:
    assert exit_code_of(terminal) is code

"""Every way a run can end, as one table."""

import errno
from typing import Any

import pytest

from ao_protocol.errors import ErrorType, ExitCode
from ao_protocol.events import ErrorInfo, Failure, Result, Terminal
from ao_runner.runs.outcome import (
    CancelledBeforeStart,
    Ending,
    LimitReached,
    NoCommonVersion,
    NotAcceptable,
    NotDescribed,
    NotStarted,
    ProcessEnded,
    disagreement,
    exit_code_of,
    failure_for,
    settle_terminal,
)
from ao_runner.runs.stopping import Cause


def ended(exit_code: int | None, cause: Cause | None = None, **facts: Any) -> ProcessEnded:
    return ProcessEnded(exit_code, cause, **facts)


ENDINGS: dict[str, tuple[Ending, str, str, str, bool]] = {
    "no such file": (
        NotStarted("/x", OSError(errno.ENOENT, "No such file")),
        "executor_not_found",
        "none",
        "environment",
        False,
    ),
    "not executable": (
        NotStarted("/x", OSError(errno.EACCES, "Permission denied")),
        "executor_not_found",
        "none",
        "environment",
        False,
    ),
    "no interpreter": (
        NotStarted("/x", OSError(errno.ENOEXEC, "Exec format error")),
        "executor_not_found",
        "none",
        "environment",
        False,
    ),
    "too many files": (
        NotStarted("/x", OSError(errno.EMFILE, "Too many open files")),
        "resource_exhausted",
        "none",
        "environment",
        True,
    ),
    "no description": (NotDescribed("nonsense"), "protocol_violation", "none", "executor", False),
    "another version": (NoCommonVersion("3.0", ["2.1"]), "unsupported_schema_version", "none", "environment", False),
    "contract refused": (
        NotAcceptable(ErrorType.INVALID_OUTPUT_SCHEMA, "no schema"),
        "invalid_output_schema",
        "none",
        "caller",
        False,
    ),
    "no time to ask again": (
        LimitReached(ErrorType.DEADLINE_EXCEEDED, "too long"),
        "deadline_exceeded",
        "possible",
        "caller",
        False,
    ),
    "no money to ask again": (
        LimitReached(ErrorType.LIMIT_EXCEEDED, "too dear"),
        "limit_exceeded",
        "possible",
        "caller",
        False,
    ),
    "cancelled early": (CancelledBeforeStart(), "cancelled", "none", "caller", False),
    "left with 0": (ended(0), "missing_terminal", "possible", "executor", False),
    "left with 1": (ended(1), "missing_terminal", "possible", "executor", False),
    "left with 2": (ended(2), "missing_terminal", "possible", "executor", False),
    "garbage, then left": (ended(0, problems=["noise"]), "protocol_violation", "possible", "executor", False),
    "too long an event, then left": (
        ended(0, problems=["long"], long_event_bytes=4096),
        "limit_exceeded",
        "possible",
        "executor",
        False,
    ),
    "crashed": (ended(-11), "executor_crashed", "possible", "executor", True),
    "killed by another": (ended(-9), "executor_crashed", "possible", "executor", True),
    "unknown signal": (ended(-77), "executor_crashed", "possible", "executor", True),
    "stdout closed, left": (ended(0, Cause.STDOUT_CLOSED), "missing_terminal", "possible", "executor", False),
    "stdout closed, crashed": (ended(-6, Cause.STDOUT_CLOSED), "executor_crashed", "possible", "executor", True),
    "stdout closed, ended": (
        ended(-15, Cause.STDOUT_CLOSED, was_signalled=True),
        "missing_terminal",
        "possible",
        "executor",
        False,
    ),
    "given up": (
        ended(None, Cause.STDOUT_CLOSED, was_signalled=True),
        "missing_terminal",
        "possible",
        "executor",
        False,
    ),
    "cancelled, left": (ended(0, Cause.CANCELLED), "cancelled", "possible", "caller", False),
    "cancelled, ended": (ended(-15, Cause.CANCELLED, was_signalled=True), "cancelled", "possible", "caller", False),
    "cancelled, killed": (
        ended(-9, Cause.CANCELLED, was_signalled=True, was_killed=True),
        "cancel_timeout",
        "possible",
        "executor",
        False,
    ),
    "killed on demand": (
        ended(-9, Cause.KILLED, was_signalled=True, was_killed=True),
        "cancelled",
        "possible",
        "caller",
        False,
    ),
    "too long": (ended(-15, Cause.DEADLINE, limit_seconds=5), "deadline_exceeded", "possible", "caller", False),
    "too long, killed": (
        ended(-9, Cause.DEADLINE, was_killed=True, limit_seconds=5),
        "deadline_exceeded",
        "possible",
        "caller",
        False,
    ),
    "never started": (ended(-15, Cause.START_TIMEOUT), "executor_start_timeout", "possible", "executor", True),
    "went silent": (ended(-9, Cause.STALLED, was_killed=True), "executor_stalled", "possible", "executor", True),
}


@pytest.mark.requirement("AOX-243")
@pytest.mark.requirement("AOX-244")
@pytest.mark.parametrize("name", ENDINGS)
def test_an_ending_is_one_failure(name: str) -> None:
    ending, error_type, side_effects, origin, retryable = ENDINGS[name]

    failure = failure_for(ending)

    error = failure.error
    assert (error.type, error.side_effects, error.origin, error.retryable) == (
        error_type,
        side_effects,
        origin,
        retryable,
    )
    assert failure.status == ("cancelled" if error_type == "cancelled" else "failed")


@pytest.mark.parametrize("cause", [*Cause, None])
@pytest.mark.parametrize("exit_code", [0, 1, -9, None])
def test_every_combination_has_an_outcome(cause: Cause | None, exit_code: int | None) -> None:
    assert failure_for(ProcessEnded(exit_code, cause)).error.message


def test_the_error_names_the_signal_and_the_last_words() -> None:
    details = failure_for(ended(-11, stderr_tail="boom\n")).error.details

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

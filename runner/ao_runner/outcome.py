"""Every way a run can end, as exactly one terminal event. Pure: facts in, a body out.

The executor's own terminal event decides where there is one. Where there is none, the runner says here what happened.
"""

import errno
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from ao_protocol.errors import RETRYABLE, ErrorType, ExitCode, exit_code_of_failure
from ao_protocol.events import ErrorInfo, Failure, Result, Terminal
from ao_protocol.wire import JsonObject

from ao_runner.stopping import Cause

MAX_STDERR_IN_ERROR: Final = 2000
"""Characters of the end of stderr that an error shows; the record of the run keeps more."""

_OUT_OF_RESOURCES: Final = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The executable could not be started at all."""

    path: str
    error: OSError


@dataclass(frozen=True, slots=True)
class NotDescribed:
    """The executable does not say what it is, so that nobody knows what it may be given."""

    sentence: str


@dataclass(frozen=True, slots=True)
class CancelledBeforeStart:
    """Somebody cancelled the run before there was a process."""


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """A process ran and ended, or was given up; `exit_code` is negative for a signal and None when given up."""

    exit_code: int | None
    cause: Cause | None = None
    """Why the runner stopped it; None when it went by itself."""
    was_killed: bool = False
    has_started: bool = True
    """Whether `run_started` came."""
    problems: Sequence[str] = ()
    stderr_tail: str = ""
    limit_seconds: float | None = None


Ending: TypeAlias = NotStarted | NotDescribed | CancelledBeforeStart | ProcessEnded
SideEffects: TypeAlias = Literal["none", "possible"]


def failure_for(ending: Ending) -> Failure:
    """Return the terminal event of a run whose executor wrote none."""
    match ending:
        case NotStarted():
            return _not_started(ending)
        case NotDescribed(sentence=sentence):
            return _failure(ErrorType.PROTOCOL_VIOLATION, sentence, side_effects="none")
        case CancelledBeforeStart():
            return _cancelled(ErrorType.CANCELLED, "cancelled before the executor was started", side_effects="none")
        case ProcessEnded():
            return _ended_without_terminal(ending)
    assert_never(ending)


def settle_terminal(terminal: Terminal, cause: Cause | None, limit_seconds: float | None) -> Terminal:
    """Return what is relayed for an executor's terminal event.

    It is the event itself, but for one case: an executor that was asked to stop because its time was up says
    `cancelled`, and only the runner knows that nobody cancelled.
    """
    if cause is Cause.DEADLINE and isinstance(terminal, Failure) and terminal.status == "cancelled":
        return _deadline(limit_seconds, "and the executor stopped when asked", {})
    return terminal


def disagreement(terminal: Terminal, exit_code: int | None, cause: Cause | None) -> str | None:
    """Say where the exit code contradicts the terminal event, which decides."""
    expected = exit_code_of(terminal)
    if exit_code == expected:
        return None
    if exit_code is None or (exit_code < 0 and cause in {Cause.ENDED, Cause.KILLED}):
        return "the executor did not leave after its terminal event and was ended by the runner"
    if cause is Cause.DEADLINE:
        return None
    return f"the executor {_how_it_left(exit_code)}, but its terminal event means exit code {int(expected)}"


def exit_code_of(terminal: Terminal) -> ExitCode:
    """Return the exit code that agrees with a terminal event."""
    match terminal:
        case Result():
            return ExitCode.RESULT
        case Failure(status=status, error=error):
            return exit_code_of_failure(status, error.type, retryable=error.retryable)
    assert_never(terminal)


def _not_started(ending: NotStarted) -> Failure:
    number = ending.error.errno
    reason = f"could not start {ending.path}: {ending.error.strerror or ending.error}"
    if number in _OUT_OF_RESOURCES:
        return _failure(ErrorType.RESOURCE_EXHAUSTED, reason, side_effects="none", origin="environment")
    hints = {
        errno.ENOENT: "; it, or the interpreter that its first line names, does not exist",
        errno.EACCES: "; make it executable: chmod +x",
        errno.ENOEXEC: "; its first line must name an interpreter, such as #!/usr/bin/env python3",
    }
    return _failure(ErrorType.EXECUTOR_NOT_FOUND, reason + hints.get(number or 0, ""), side_effects="none")


def _ended_without_terminal(ending: ProcessEnded) -> Failure:
    details = _details(ending)
    match ending.cause:
        case Cause.CANCELLED | Cause.KILLED if ending.was_killed:
            message = "cancelled; the executor did not end in time and was killed"
            return _cancelled(ErrorType.CANCEL_TIMEOUT, message, details=details)
        case Cause.CANCELLED | Cause.KILLED:
            return _cancelled(ErrorType.CANCELLED, "cancelled; the executor left without a word", details=details)
        case Cause.DEADLINE:
            return _deadline(ending.limit_seconds, "and the executor was ended", details)
        case Cause.START_TIMEOUT:
            message = "the executor did not say run_started in time and was ended"
            return _failure(ErrorType.EXECUTOR_START_TIMEOUT, message, side_effects="none", details=details)
        case Cause.STDOUT_CLOSED | Cause.ENDED | None:
            return _left_by_itself(ending, details)
    assert_never(ending.cause)


def _left_by_itself(ending: ProcessEnded, details: JsonObject) -> Failure:
    effects: SideEffects = "possible" if ending.has_started else "none"
    stopped = ending.cause is Cause.STDOUT_CLOSED
    if ending.exit_code is not None and ending.exit_code < 0 and not stopped:
        message = f"the executor {_how_it_left(ending.exit_code)} before its terminal event"
        return _failure(ErrorType.EXECUTOR_CRASHED, message, side_effects=effects, details=details)
    left = "closed its stdout" if stopped and not _left_alone(ending) else _how_it_left(ending.exit_code)
    message = f"the executor {left} without a terminal event"
    if ending.problems:
        message += f"; what it wrote could not all be read: {ending.problems[0]}"
        return _failure(ErrorType.PROTOCOL_VIOLATION, message, side_effects=effects, details=details)
    return _failure(ErrorType.MISSING_TERMINAL, message, side_effects=effects, details=details)


def _left_alone(ending: ProcessEnded) -> bool:
    return ending.exit_code is not None and ending.exit_code >= 0


def _how_it_left(exit_code: int | None) -> str:
    if exit_code is None:
        return "could not be ended"
    return f"was ended by {_signal_name(-exit_code)}" if exit_code < 0 else f"exited with code {exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _details(ending: ProcessEnded) -> JsonObject:
    details: JsonObject = {"exit_code": ending.exit_code}
    if ending.exit_code is not None and ending.exit_code < 0:
        details["signal"] = _signal_name(-ending.exit_code)
    if ending.problems:
        details["problems"] = list(ending.problems)
    if ending.stderr_tail.strip():
        details["stderr_tail"] = ending.stderr_tail[-MAX_STDERR_IN_ERROR:]
    return details


def _deadline(limit_seconds: float | None, what_happened: str, details: JsonObject) -> Failure:
    allowed = "its time" if limit_seconds is None else f"the {limit_seconds:g} s that it was given"
    message = f"the run took longer than {allowed}, {what_happened}"
    return _failure(ErrorType.DEADLINE_EXCEEDED, message, side_effects="possible", details=details)


def _cancelled(
    error_type: ErrorType, message: str, *, side_effects: SideEffects = "possible", details: JsonObject | None = None
) -> Failure:
    error = _failure(error_type, message, side_effects=side_effects, details=details).error
    return Failure(status="cancelled", error=error)


def _failure(
    error_type: ErrorType,
    message: str,
    *,
    side_effects: SideEffects,
    details: JsonObject | None = None,
    origin: Literal["runner", "environment"] = "runner",
) -> Failure:
    return Failure(
        status="failed",
        error=ErrorInfo(
            type=error_type,
            message=message,
            retryable=error_type in RETRYABLE,
            side_effects=side_effects,
            origin=origin,
            details=details or None,
        ),
    )

"""Map every way a run can end to exactly one terminal event. Pure: facts in, an event body out.

The executor's own terminal event takes precedence. If there is none, the runner states the cause.
If a limit of the profile explains a failure, the error message names the limit.
"""

import errno
import signal
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, Literal, NamedTuple, assert_never

from ao_protocol.errors import RETRYABLE, ErrorType, ExitCode, exit_code_of_failure
from ao_protocol.events import ErrorInfo, Failure, InvalidEvent, Result, Terminal, parse_event
from ao_protocol.wire import JsonObject
from ao_runner.profiles import Profile, ProfileLimits
from ao_runner.store.records import RunStatus

MAX_STDERR_IN_ERROR: Final = 2000
"""Maximum number of characters of the end of stderr in an error; the record of the run keeps more."""
MAX_NOISE_LINES: Final = 10_000
MAX_NOISE_BYTES: Final = 256 * 1024 * 1024
"""The maximum that a run may write in lines that are not events, blank lines included."""


class Cause(IntEnum):
    """Why a process has to end. A later cause outranks an earlier one and starts its own escalation."""

    STDOUT_CLOSED = 1
    DEADLINE = 2
    CANCELLED = 3
    IDLE = 4
    """The run is alive but makes no progress."""
    START_TIMEOUT = 5
    STALLED = 6
    TOO_NOISY = 7
    """The executor writes too much output that is not events."""
    ENDED = 8
    """The terminal event arrived; the process only has to exit."""
    KILLED = 9
    FENCED = 10
    """Another process may soon begin the same run."""


STOPPED: Final[Mapping[Cause, tuple[ErrorType, str]]] = {
    Cause.CANCELLED: (ErrorType.CANCELLED, "cancelled; the executor exited without a terminal event"),
    Cause.KILLED: (ErrorType.CANCELLED, "cancelled; the executor was killed on request"),
    Cause.START_TIMEOUT: (
        ErrorType.EXECUTOR_START_TIMEOUT,
        "the executor did not send run_started in time and was stopped",
    ),
    Cause.TOO_NOISY: (
        ErrorType.PROTOCOL_VIOLATION,
        f"the executor wrote more than {MAX_NOISE_LINES} lines, or {MAX_NOISE_BYTES >> 20} MiB, to stdout that are no"
        " events of the run and was stopped; logs belong on stderr",
    ),
    Cause.STALLED: (ErrorType.EXECUTOR_STALLED, "the executor stopped sending heartbeats and was stopped"),
    Cause.FENCED: (
        ErrorType.ATTEMPT_LOST,
        "the worker could not reach its coordinator and stopped the run before its lease expired",
    ),
    Cause.IDLE: (ErrorType.EXECUTOR_STALLED, "the run made no progress within limits.idle_seconds and was stopped"),
}
"""The error for each cause if the runner stopped an executor and no terminal event followed."""

# ECHILD: the process that was to start the executor was killed first.
_OUT_OF_RESOURCES: Final = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ECHILD, errno.ENOSPC}


def failed(
    error_type: ErrorType,
    message: str,
    *,
    side_effects: Literal["none", "possible"] = "possible",
    origin: Literal["caller", "environment", "executor", "runner"] = "executor",
    details: JsonObject | None = None,
    validation_errors: Sequence[str] = (),
) -> Failure:
    """Return a failure that the runner reports; `cancelled` gets that status and the origin `caller`."""
    is_cancelled = error_type is ErrorType.CANCELLED
    return Failure(
        status="cancelled" if is_cancelled else "failed",
        error=ErrorInfo(
            type=error_type,
            message=message,
            retryable=error_type in RETRYABLE,
            side_effects=side_effects,
            origin="caller" if is_cancelled else origin,
            details=details or None,
            validation_errors=list(validation_errors) or None,
        ),
    )


def not_started(path: str, error: OSError, doing: str = "", *, is_of_folder: bool = False) -> Failure:
    """Return the end of a run whose executor could not be started.

    `doing` is the failed step if not the executable; `is_of_folder` tells that one of its folders cannot be used.
    """
    number, what = error.errno, f"{doing}: " if doing else ""
    reason = f"could not start {path}: {what}{error.strerror or error}"
    error_type = ErrorType.EXECUTOR_NOT_FOUND
    if number in _OUT_OF_RESOURCES:
        error_type = ErrorType.RESOURCE_EXHAUSTED
    elif is_of_folder:
        error_type = ErrorType.WORKSPACE_ERROR
    elif not doing:
        reason += {
            errno.ENOENT: "; it, or the interpreter that its first line names, does not exist",
            errno.EACCES: "; make it executable: chmod +x",
            errno.ENOEXEC: "; its first line must name an interpreter, such as #!/usr/bin/env python3",
        }.get(number or 0, "")
    return failed(error_type, reason, origin="environment", side_effects="none")


class ProcessEnded(NamedTuple):
    """A process that ended or was abandoned; `exit_code` is negative for a signal and None if abandoned."""

    exit_code: int | None
    cause: Cause | None = None
    """Why the runner stopped the process; None if it exited by itself."""
    was_signalled: bool = False
    """Whether the runner sent SIGTERM or SIGKILL while the process was alive."""
    was_killed: bool = False
    problems: Sequence[str] = ()
    stderr_tail: str = ""
    limit_seconds: float | None = None
    long_event_bytes: int | None = None
    """The size limit of an event if a longer event was dropped, else None."""


def ended_without_terminal(ending: ProcessEnded) -> Failure:
    """Return the terminal event of a run whose executor sent none."""
    details: JsonObject = {"exit_code": ending.exit_code}
    if ending.exit_code is not None and ending.exit_code < 0:
        details["signal"] = _signal_name(-ending.exit_code)
    if ending.problems:
        details["problems"] = list(ending.problems)
    if ending.stderr_tail.strip():
        details["stderr_tail"] = ending.stderr_tail[-MAX_STDERR_IN_ERROR:]
    match ending.cause:
        case Cause.STDOUT_CLOSED | Cause.ENDED | None:
            return _left_by_itself(ending, details)
        case Cause.DEADLINE:
            return _deadline(ending.limit_seconds, "and the executor was stopped", details)
        case Cause.CANCELLED if ending.was_killed:
            message = "cancelled; the executor did not exit in time and was killed"
            return failed(ErrorType.CANCEL_TIMEOUT, message, details=details)
        case _:
            return failed(*STOPPED[ending.cause], details=details)


def _left_by_itself(ending: ProcessEnded, details: JsonObject) -> Failure:
    if ending.exit_code is not None and ending.exit_code < 0 and not ending.was_signalled:
        message = f"the executor {_how_it_left(ending.exit_code)} before its terminal event"
        return failed(ErrorType.EXECUTOR_CRASHED, message, details=details)
    left = "closed its stdout" if ending.was_signalled else _how_it_left(ending.exit_code)
    error_type, message = ErrorType.MISSING_TERMINAL, f"the executor {left} without a terminal event"
    if ending.long_event_bytes is not None:
        error_type = ErrorType.LIMIT_EXCEEDED
        message += f"; an event longer than limits.max_event_bytes ({ending.long_event_bytes}) was left out"
    elif ending.problems:
        error_type = ErrorType.PROTOCOL_VIOLATION
        message += f"; part of its output could not be read: {ending.problems[0]}"
    return failed(error_type, message, details=details)


def _how_it_left(exit_code: int | None) -> str:
    if exit_code is None:
        return "could not be stopped"
    return f"was ended by {_signal_name(-exit_code)}" if exit_code < 0 else f"exited with code {exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _deadline(limit_seconds: float | None, what_happened: str, details: JsonObject) -> Failure:
    allowed = "its time limit" if limit_seconds is None else f"its limit of {limit_seconds:g} s"
    message = f"the run took longer than {allowed}, {what_happened}"
    return failed(ErrorType.DEADLINE_EXCEEDED, message, origin="caller", details=details)


def settle_terminal(terminal: Terminal, cause: Cause | None, limit_seconds: float | None) -> Terminal:
    """Return the event to relay for an executor's terminal event.

    It is the same event, with one exception: an executor that was asked to stop because of its deadline or for lack of
    progress reports `cancelled`, and only the runner knows that nobody cancelled the run.
    """
    if not isinstance(terminal, Failure) or terminal.status != "cancelled":
        return terminal
    if cause is Cause.DEADLINE:
        return _deadline(limit_seconds, "and the executor stopped on request", {})
    return failed(*STOPPED[cause]) if cause is Cause.IDLE else terminal


def disagreement(terminal: Terminal, exit_code: int | None, cause: Cause | None) -> str | None:
    """Return how the exit code contradicts the terminal event, or None. The terminal event takes precedence."""
    expected = exit_code_of(terminal)
    if exit_code == expected:
        return None
    if exit_code is None or (exit_code < 0 and cause in {Cause.ENDED, Cause.KILLED, Cause.FENCED}):
        return "the executor did not exit after its terminal event and was stopped by the runner"
    if cause in {Cause.DEADLINE, Cause.IDLE}:
        return None
    return f"the executor {_how_it_left(exit_code)}, but its terminal event means exit code {int(expected)}"


def terminal_in(line: str) -> Terminal | None:
    """Return the terminal event in a line; None if it is another one, or none."""
    try:
        body = parse_event(line.encode()).body
    except InvalidEvent:
        return None
    return body if isinstance(body, Result | Failure) else None


def exit_code_of(terminal: Terminal) -> ExitCode:
    """Return the exit code that matches a terminal event."""
    match terminal:
        case Result():
            return ExitCode.RESULT
        case Failure(status=status, error=error):
            return exit_code_of_failure(status, error.type, retryable=error.retryable)
    assert_never(terminal)


def status_of(terminal: Terminal) -> RunStatus:
    """Return the status in the store for a terminal event."""
    return "completed" if isinstance(terminal, Result) else terminal.status


def error_type_of(terminal: Terminal) -> str | None:
    """Return the error type of a failure, or None for a result."""
    return terminal.error.type if isinstance(terminal, Failure) else None


OUT_OF_MEMORY: Final = (
    "MemoryError",
    "Cannot allocate memory",
    "cannot allocate memory",
    "failed to map segment from shared object",
    "memory allocation of",
    "out of memory",
)
"""Messages of Python, the dynamic linker, Rust and Node when the system denies them memory."""
OUT_OF_FILES: Final = ("Too many open files", "too many open files", "EMFILE")
OUT_OF_TIME: Final = ("SIGXCPU",)
OUT_OF_ROOM: Final = ("SIGXFSZ", "File too large", "EFBIG")


def with_limit_named(terminal: Terminal, profile: Profile | None) -> Terminal:
    """Return the terminal event; if the text of a failure points to a limit, add the limit and its profile.

    The text is the error message and the end of stderr. The error type does not change, because the executor chose it.
    """
    if not isinstance(terminal, Failure) or terminal.status == "cancelled" or profile is None:
        return terminal
    error = terminal.error
    words = f"{error.message}\n{(error.details or {}).get('stderr_tail', '')}"
    allowed = next((what for signs, what in _allowances(profile.limits) if any(sign in words for sign in signs)), None)
    if allowed is None:
        return terminal
    limit = (
        f"the profile {profile.name!r} allows each process {allowed}, which may be too little: raise it, or remove it"
    )
    message = f"{error.message.rstrip(' :;')}; {limit}"
    return terminal.model_copy(update={"error": error.model_copy(update={"message": message})})


def _allowances(limits: ProfileLimits) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each limit of a profile with the phrases of a process that exceeded it."""
    if limits.memory_bytes is not None:
        yield OUT_OF_MEMORY, f"{limits.memory_bytes / 2**20:g} MiB of address space (limits.memory_bytes)"
    if limits.open_files is not None:
        yield OUT_OF_FILES, f"{limits.open_files} open files (limits.open_files)"
    if limits.cpu_seconds is not None:
        yield OUT_OF_TIME, f"{limits.cpu_seconds:g} s of processor time (limits.cpu_seconds)"
    if limits.file_bytes is not None:
        yield OUT_OF_ROOM, f"files of {limits.file_bytes} bytes (limits.file_bytes)"

"""The state that all runs of an executor process share: cancellation, the events of the run, descendants.

Internal.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor, RunFailed
from ao_executors.core.stdio import NobodyReads, Stdio
from ao_lifeline import tied
from ao_protocol.errors import ErrorType, ExitCode
from ao_protocol.framing import is_identifier
from ao_protocol.version import announced_version

_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_TRY_AGAIN_SECONDS: Final = 0.05
_LONGEST_TIMER_SECONDS: Final = 2.0**31 - 1
"""68 years: about the largest value that a system timer accepts."""
_DESCENDANTS_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.005
_IS_LINUX: Final = sys.platform == "linux"


class Cancellation:
    """A request to end the run. It works before an event loop exists, and in a signal handler.

    The first reason counts; later requests for the same run have no effect. A signal and the end of stdin are for good:
    they end the process, too. A `cancel` line ends the current run only.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._reason_for_good: str | None = None
        self._stop: Callable[[], object] | None = None

    @property
    def reason(self) -> str | None:
        """The reason to end the run; None if nobody requested it."""
        return self._reason or self._reason_for_good

    @property
    def is_for_good(self) -> bool:
        """True once no further run may begin."""
        return self._reason_for_good is not None

    def listen_to_signals(self) -> None:
        """Handle SIGTERM, SIGINT and SIGHUP as requests for good."""

        def handle(number: int, _frame: object) -> None:
            self.request(f"signal {signal.Signals(number).name}", for_good=True)

        for number in _ENDING_SIGNALS:
            signal.signal(number, handle)

    def request(self, reason: str, *, for_good: bool = False) -> None:
        """Request the end of the run and, with `for_good`, of the process."""
        is_first = self.reason is None
        if for_good:
            self._reason_for_good = self._reason_for_good or reason
        elif is_first:
            self._reason = reason
        if is_first and self._stop is not None:
            self._stop()

    def forget(self) -> None:
        """Forget a request for one run after that run has ended."""
        self._reason, self._stop = None, None

    def when_requested(self, stop: Callable[[], object]) -> None:
        """Call `stop` once: at the next request, or now if one was made. `stop` must be safe in a signal handler."""
        self._stop = stop
        if self.reason is not None:
            stop()


@dataclass(slots=True)
class ExecutorProcess:
    """The process of an executor. `events` is the emitter of the current run or, between runs, of the last one.

    `leave` ends the process at once. A signal handler may call it.
    """

    executor: Executor
    stdio: Stdio
    cancellation: Cancellation
    leave: Callable[[ExitCode], NoReturn]
    events: Emitter

    def say_started(self, document: Mapping[str, object]) -> None:
        """Write `run_started` for an invocation, even if the run will be refused (SPEC AOX-090).

        Raises:
            NobodyReads: The read end of stdout is closed.
        """
        version = str(announced_version(document))
        self.events.emit_fields("run_started", {"schema_version": version, "executor": self.executor.identity})

    def begin_turn(self, run_id: str, schema_version: str) -> None:
        """Begin another run in the same session.

        Raises:
            NobodyReads: The read end of stdout is closed.
        """
        self.events = self.events.for_next_run(run_id)
        self.say_started({"schema_version": schema_version})

    def fail(self, failure: RunFailed) -> ExitCode:
        """End the current run with a `failure`, unless it has ended, and return the exit code of the failure."""
        if failure.error_type is ErrorType.AUTHENTICATION_FAILED:
            failure.message += missing_key(self.executor.description.get("secrets") or (), failure.message, os.environ)
        with suppress(NobodyReads):
            self.events.end("failure", failure.to_fields(self.events.side_effects))
        return failure.exit_code

    def fail_after(self, seconds: float, events: Emitter, failure: Callable[[], RunFailed]) -> None:
        """Set a timer signal that fails the run and ends the process after `seconds`.

        It does nothing if the run of `events` has ended by then. It works even if the run's work blocks the event loop.
        A later call replaces this one. An event that is being written is completed first, because half a line would
        corrupt the stream.
        """

        def handle(_number: int, _frame: object) -> None:
            if events.is_busy:
                signal.setitimer(signal.ITIMER_REAL, _TRY_AGAIN_SECONDS)
            elif not events.ended:
                self.leave(self.fail(failure()))

        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, min(seconds, _LONGEST_TIMER_SECONDS))


def missing_key(secrets: Sequence[str], message: str, environ: Mapping[str, str]) -> str:
    """Return what to add to the message of a failed login: the variables for a key, if none of them is set.

    Args:
        secrets: The variables that the description of the executor lists as secrets, the usual ones first.
        message: The message so far. It may name one of them already.
        environ: The environment of the executor.
    """
    if not secrets or any(environ.get(name) or name in message for name in secrets):
        return ""
    others = f" (or {', '.join(secrets[1:_MOST_NAMED_SECRETS])})" if len(secrets) > 1 else ""
    return f"; no key is set: export {secrets[0]}=…{others} before the run"


_MOST_NAMED_SECRETS: Final = 3


def events_for(executor: Executor, write: Callable[[bytes], None], document: Mapping[str, object] | None) -> Emitter:
    """Return the emitter of an invocation's run. `document` is None if the line could not be read (SPEC AOX-043).

    An identifier that is longer than allowed is null on the events, because it could be longer than an event.
    """

    def identifier(name: str, prefix: str) -> str | None:
        given = document.get(name) if document is not None else None
        if isinstance(given, str) and given:
            return given if is_identifier(given) else None
        return None if document is None else prefix + os.urandom(12).hex()

    secrets = [os.environ.get(name, "") for name in executor.secrets]
    run_id, session_id = identifier("run_id", "run_"), identifier("session_id", "ses_")
    return Emitter(write, run_id=run_id, session_id=session_id, secrets=secrets)


def adopt_orphans() -> None:
    """Make this process the parent of every orphaned descendant, so that none can escape (Linux only)."""
    if _IS_LINUX:
        import ctypes

        from ao_lifeline.program import PR_SET_CHILD_SUBREAPER

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """Kill and reap every descendant (SPEC 10, AOX-194). After two seconds, give up on those that do not end.

    This complements the clean-up of the work itself. The lifeline ends the descendants of a killed executor.
    """
    deadline = time.monotonic() + _DESCENDANTS_SECONDS
    while _has_children() and time.monotonic() < deadline:
        from ao_lifeline.program import descendants_of

        for pid in descendants_of(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def left_behind() -> list[str]:
    """Return the command lines of the processes that a program or its children have left running (Linux only).

    They have lost their parent, so the lifeline of the program has adopted them. Its first child is the program.
    A process that is just replacing its program has no command line yet; it is named by the new program's file.
    """
    lifeline = " ".join(tied([]))
    lifelines = [pid for pid in _children_of(str(os.getpid())) if _of_process(pid, "cmdline").startswith(lifeline)]
    adopted = [pid for one in lifelines for pid in _children_of(one)[1:]]
    return [command for pid in adopted if (command := _of_process(pid, "cmdline") or _program_of(pid))]


def _children_of(pid: str) -> list[str]:
    return _of_process(pid, f"task/{pid}/children").split()


def _of_process(pid: str, file: str) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/{file}").read_bytes().decode(errors="replace").replace("\0", " ").strip()
    return ""


def _program_of(pid: str) -> str:
    """Return the path of a process's program, or "" for one that has ended."""
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/exe").readlink())
    return ""


def _has_children() -> bool:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
        return _IS_LINUX
    return False

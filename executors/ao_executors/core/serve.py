"""The story of an executor process: from its arguments to its exit code.

Until `run_started` is written only cheap modules are loaded: a runner sees a sign of life at once.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn

from ao_executors.core.cancellation import Cancellation
from ao_executors.core.executor import Executor
from ao_executors.core.failures import RunFailed, refused
from ao_executors.core.process import Process, events_for
from ao_executors.core.stdio import NobodyReads, Stdio
from ao_protocol.errors import ErrorType, ExitCode
from ao_protocol.framing import LineTooLong, NotIJson, decode_object

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ao_executors.core.prepared import Ahead

_NO_STREAM: Final = (AttributeError, OSError, ValueError)
"""What a standard stream raises that is absent, broken, or has been closed by a library."""


def serve(executor: Executor, arguments: Sequence[str] | None = None) -> NoReturn:
    """Be the program `ao-<name>-exec`: run, describe, check or help, and exit.

    The process leaves at once after its terminal event: threads and finalizers of libraries are not waited for.
    """
    match list(sys.argv[1:] if arguments is None else arguments):
        case [] | ["describe"] | ["check"] | ["--version"] if sys.stdout is None:
            _leave(_stdout_is_closed(executor))
        case [] if sys.stdin is not None and sys.stdin.isatty():
            _leave(_usage(executor, "expected an invocation on stdin, but stdin is a terminal"))
        case []:
            _leave_run(_run(executor))
        case ["describe"]:
            from ao_executors.core.describe_and_check import describe

            _leave(describe(executor))
        case ["check"] if executor.check is not None:
            from ao_executors.core.describe_and_check import check

            _leave(check(executor.check))
        case ["-h" | "--help"]:
            _usage(executor)
            _leave(ExitCode.RESULT)
        case ["--version"]:
            sys.stdout.write(f"ao-{executor.name}-exec {executor.version}\n")
            _leave(ExitCode.RESULT)
        case unknown:
            _leave(_usage(executor, f"unknown arguments: {' '.join(unknown)}"))


def _run(executor: Executor) -> ExitCode:
    stdio, cancellation = Stdio.take_over(), Cancellation()
    os.register_at_fork(after_in_child=stdio.let_go)
    is_parked = stdio.is_silent
    if is_parked:
        from ao_executors.core.warm_up import warm_up

        warm_up(executor, stdio)
    document, refusal = _read_invocation(stdio.read_invocation_line)
    ahead = None
    if document is not None and document.get("type") == "prepare" and executor.declares("prepare"):
        from ao_executors.core.prepared import Ahead

        is_parked, ahead = True, Ahead(executor, document, stdio, cancellation)
        document, refusal = _read_invocation(ahead.read_invocation_line)
    if is_parked and document is None and refusal is None:
        return ExitCode.RESULT
    process = Process(executor, stdio, cancellation, _leave_run, events_for(executor, stdio, document))
    cancellation.listen_to_signals()
    return _perform(process, document, refusal or _nothing_came(), ahead)


def _perform(
    process: Process, document: "dict[str, JsonValue] | None", refusal: RunFailed, ahead: "Ahead | None"
) -> ExitCode:
    try:
        process.say_started(document or {})
        if document is None:
            raise refusal
        from ao_executors.core.runs import perform_runs

        return perform_runs(process, document, ahead)
    except RunFailed as failure:
        return process.fail(failure)
    except NobodyReads:
        return ExitCode.CANCELLED
    except BaseException as error:  # noqa: BLE001  # the outermost frame: a terminal event is owed, after exit() too
        message = f"{type(error).__name__}: {error}"
        code = process.fail(RunFailed(ErrorType.INTERNAL_ERROR, message, origin="executor"))
        with suppress(*_NO_STREAM):
            sys.stderr.write(_without_secrets(process.executor, traceback.format_exc()))
        return code


def _without_secrets(executor: Executor, text: str) -> str:
    from ao_protocol.redaction import Redactor

    return Redactor({name: os.environ.get(name, "") for name in executor.secrets}).text(text)


def _read_invocation(read_line: Callable[[], bytes]) -> "tuple[dict[str, JsonValue] | None, RunFailed | None]":
    """Return the document, or why it is refused; neither where stdin has ended."""
    try:
        return decode_object(read_line()), None
    except LineTooLong as error:
        details = {"limit_bytes": error.limit_bytes}
        return None, refused(ErrorType.INVOCATION_TOO_LARGE, f"the invocation is too large: {error}", details)
    except NotIJson as error:
        return None, refused(ErrorType.INVALID_JSON, f"the invocation line is not acceptable: {error}")
    except EOFError:
        return None, None


def _nothing_came() -> RunFailed:
    return refused(ErrorType.INVALID_JSON, "stdin ended before an invocation line came")


def _stdout_is_closed(executor: Executor) -> ExitCode:
    with suppress(*_NO_STREAM):
        sys.stderr.write(f"ao-{executor.name}-exec: stdout is closed, so nothing can be told; start it with one\n")
    return ExitCode.USAGE


def _usage(executor: Executor, problem: str | None = None) -> ExitCode:
    program = f"ao-{executor.name}-exec"
    if problem:
        sys.stderr.write(f"{program}: {problem}\n\n")
    sys.stderr.write(
        f"usage: {program} < invocation.json   perform one run: an invocation line in, event lines out\n"
        f"       {program} describe            print what this executor can do, as JSON\n"
        + (f"       {program} check               verify programs and credentials\n" if executor.check else "")
        + f"""
An invocation by hand:
  echo '{{"schema_version":"3.0","mode":"start","parameters":{{"prompt":"Hello"}}}}' | {program}

Usually a runner starts this program: ao run BLUEPRINT --executor {executor.name}
"""
    )
    return ExitCode.USAGE


def _leave_run(code: ExitCode) -> NoReturn:
    from ao_executors.core.descendants import end_descendants

    end_descendants()
    _leave(code)


def _leave(code: ExitCode) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(*_NO_STREAM):
            stream.flush()
    os._exit(code)

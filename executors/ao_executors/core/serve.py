"""The main function of an executor process: from its arguments to its exit code.

Internal, except for `serve`, which `ao_executors.core` exports. Only cheap modules are imported before `run_started` is
written, so that a runner receives it at once.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from ao_executors.core.executor import Executor, Findings, RunFailed, refused
from ao_executors.core.executor_process import Cancellation, ExecutorProcess, end_descendants, events_for
from ao_executors.core.stdio import NobodyReads, Stdio
from ao_protocol.errors import ErrorType, ExitCode
from ao_protocol.framing import LineTooLong, NotIJson, decode_object, encode_line
from ao_protocol.quick_import import end_imports

if TYPE_CHECKING:
    from pydantic import JsonValue

    from ao_executors.core.connections import PreparedConnection

_NO_STREAM: Final = (AttributeError, OSError, ValueError)
"""The exceptions of a standard stream that is absent, broken, or closed by a library."""
_REHEARSED: Final = (
    b'{"schema_version":"3.0","mode":"start","run_id":"run_0","session_id":"ses_0","parameters":{"prompt":"-"}}',
    b'{"schema_version":"3.0","mode":"start","run_id":"run_0","session_id":"ses_0","parameters":{"prompt":"-"},'
    b'"output_schema":{"type":"object"}}',
)
"""Invocations without and with a contract: they are validated by different code."""


def serve(executor: Executor, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program `ao-<name>-exec`: perform a run, describe, check or print help, and exit.

    The process exits right after its last terminal event, without waiting for threads and finalizers of libraries. From
    the start of a run, descriptor 1 is stderr, so that stdout contains only events.

    Args:
        executor: The executor to serve.
        arguments: The command line without the program's name; None: that of this process.

    Returns:
        Never. The process exits with a code of SPEC 6.4.

    Raises:
        ValidationError: `describe` is called, and the description is not valid in the protocol.
    """
    match list(sys.argv[1:] if arguments is None else arguments):
        case [] | ["describe"] | ["check"] | ["--version"] if sys.stdout is None:
            with suppress(*_NO_STREAM):
                sys.stderr.write(
                    f"ao-{executor.name}-exec: stdout is closed, so nothing can be told; start it with one\n"
                )
            _leave(ExitCode.USAGE)
        case [] if sys.stdin is not None and sys.stdin.isatty():
            _leave(_usage(executor, "expected an invocation on stdin, but stdin is a terminal"))
        case []:
            _leave_run(_run(executor))
        case ["describe"]:
            _leave_with(executor.describe().model_dump(mode="json", exclude_none=True), ExitCode.RESULT)
        case ["check"] if executor.check is not None:
            found = executor.check()
            found = Findings(found) if isinstance(found, list) else found
            verdict = {"ok": not found.problems, "problems": found.problems}
            more = {"programs": found.programs, "remarks": found.remarks}
            verdict |= {name: told for name, told in more.items() if told}
            _leave_with(verdict, ExitCode.FAILURE if found.problems else ExitCode.RESULT)
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
    is_parked, warm_up = stdio.is_silent, partial(_warm_up, executor, stdio)
    if is_parked:
        warm_up()
    document, refusal = _read_invocation(stdio.read_invocation_line)
    prepared = None
    if document is not None and document.get("type") == "prepare" and executor.declares("prepare"):
        from ao_executors.core.connections import PreparedConnection

        is_parked, prepared = True, PreparedConnection(executor, document, stdio, cancellation)
        document, refusal = _read_invocation(partial(prepared.read_invocation_line, warm_up))
    if is_parked and document is None and refusal is None:
        return ExitCode.RESULT
    process = ExecutorProcess(executor, stdio, cancellation, _leave_run, events_for(executor, stdio.write, document))
    cancellation.listen_to_signals()
    nothing_came = refused(ErrorType.INVALID_JSON, "stdin ended before an invocation line came")
    return _perform(process, document, refusal or nothing_came, prepared)


def _warm_up(executor: Executor, stdio: Stdio) -> None:
    """Import the modules that a run needs, until stdin has data: first those of the toolkit, then the executor's.

    This is for a process that is started before its invocation arrives (SPEC 10). It writes nothing and uses neither
    network, credentials nor the workspace. A failed import is ignored here: the run that needs the module fails.
    """
    with suppress(ImportError):
        for prepare_for_work in (partial(_rehearse, executor), executor.warm_up):
            if prepare_for_work is not None and stdio.is_silent:
                prepare_for_work()
    end_imports()


def _rehearse(executor: Executor) -> None:
    """Read two invocations and discard them, so that a run later imports and compiles nothing."""
    import ao_lifeline.program  # noqa: F401
    import ao_protocol.documents  # noqa: F401
    from ao_executors.core.runs import plain_task
    from ao_executors.core.task_from_invocation import prepare
    from ao_protocol.contracts import Enforcement
    from ao_protocol.events import BODIES, Log

    for body in BODIES.values():
        body.model_rebuild()
    to_nobody = events_for(executor, lambda _: None, None)
    to_nobody.emit(Log(level="debug", message="-"))
    for line in _REHEARSED:
        with suppress(RunFailed):
            document = decode_object(line)
            task = plain_task(executor, document, to_nobody) or prepare(executor, document, to_nobody)
            if task.contract is not None:
                Enforcement(task.contract).judge('Here: {"a": "b"}')


def _perform(
    process: ExecutorProcess,
    document: "dict[str, JsonValue] | None",
    refusal: RunFailed,
    prepared: "PreparedConnection | None",
) -> ExitCode:
    try:
        process.say_started(document or {})
        if document is None:
            raise refusal
        from ao_executors.core.runs import perform_runs

        return perform_runs(process, document, prepared)
    except RunFailed as failure:
        return process.fail(failure)
    except NobodyReads:
        return ExitCode.CANCELLED
    except BaseException as error:  # noqa: BLE001  # the outermost frame: even exit() needs a terminal event
        message = f"{type(error).__name__}: {error}"
        code = process.fail(RunFailed(ErrorType.INTERNAL_ERROR, message, origin="executor"))
        import traceback

        from ao_protocol.redaction import Redactor

        secrets = {name: os.environ.get(name, "") for name in process.executor.secrets}
        with suppress(*_NO_STREAM):
            sys.stderr.write(Redactor(secrets).text(traceback.format_exc()))
        return code


def _read_invocation(read_line: Callable[[], bytes]) -> "tuple[dict[str, JsonValue] | None, RunFailed | None]":
    """Return the document or its refusal; neither if stdin has ended."""
    try:
        return decode_object(read_line()), None
    except LineTooLong as error:
        details = {"limit_bytes": error.limit_bytes}
        return None, refused(ErrorType.INVOCATION_TOO_LARGE, f"the invocation is too large: {error}", details)
    except NotIJson as error:
        return None, refused(ErrorType.INVALID_JSON, f"the invocation line is not acceptable: {error}")
    except EOFError:
        return None, None


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


def _leave_with(document: Mapping[str, object], code: ExitCode) -> NoReturn:
    """Print one line of JSON and exit."""
    sys.stdout.write(encode_line(document).decode())
    _leave(code)


def _leave_run(code: ExitCode) -> NoReturn:
    end_descendants()
    _leave(code)


def _leave(code: ExitCode) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with suppress(*_NO_STREAM):
            stream.flush()
    os._exit(code)

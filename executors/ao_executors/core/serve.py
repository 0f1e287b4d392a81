"""The story of an executor process: from its arguments to its exit code.

Until `run_started` is written only cheap modules are loaded: a runner sees a sign of life at once.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from ao_executors.core.cancellation import Cancellation
from ao_executors.core.emitter import Emitter
from ao_executors.core.executor import Executor
from ao_executors.core.failures import RunFailed, refused
from ao_executors.core.stdio import NobodyReads, Stdio
from ao_protocol.errors import ErrorType, ExitCode
from ao_protocol.framing import LineTooLong
from ao_protocol.ijson import NotIJson, decode_object
from ao_protocol.version import announced_version

if TYPE_CHECKING:
    from pydantic import JsonValue

_NO_STREAM: Final = (AttributeError, OSError, ValueError)
"""What a standard stream raises that is absent, broken, or has been closed by a library."""


def serve(executor: Executor, arguments: Sequence[str] | None = None) -> NoReturn:
    """Be the program `ao-<name>-exec`: run, describe, check or help, and exit.

    The process leaves at once after its terminal event: threads and finalizers of libraries are not waited for.
    """
    match list(sys.argv[1:] if arguments is None else arguments):
        case [] if sys.stdin is not None and sys.stdin.isatty():
            _leave(_usage(executor, "an invocation is expected on stdin, and stdin is a terminal"))
        case []:
            _leave_run(_run(executor))
        case ["describe"]:
            from ao_executors.core.verbs import describe

            _leave(describe(executor))
        case ["check"] if executor.check is not None:
            from ao_executors.core.verbs import check

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
    stdio = Stdio.take_over()
    cancellation = Cancellation()
    document, refusal = _read_invocation(stdio)
    emitter = _emitter_for(executor, stdio, document)
    cancellation.listen_to_signals()
    try:
        emitter.emit_fields("run_started", _run_started(executor, document))
        if refusal is not None:
            raise refusal
        from ao_executors.core.pipeline import run

        give_up = partial(_give_up, emitter)
        run(executor, document or {}, stdio, emitter, cancellation, give_up)
    except RunFailed as failure:
        return _end_with(emitter, failure)
    except NobodyReads:
        return ExitCode.CANCELLED
    except BaseException as error:  # noqa: BLE001  # the outermost frame: a terminal event is owed, after exit() too
        message = f"{type(error).__name__}: {error}"
        code = _end_with(emitter, RunFailed(ErrorType.INTERNAL_ERROR, message, origin="executor"))
        with suppress(*_NO_STREAM):
            traceback.print_exc()
        return code
    return ExitCode.RESULT


def _read_invocation(stdio: Stdio) -> "tuple[dict[str, JsonValue] | None, RunFailed | None]":
    try:
        return decode_object(stdio.read_invocation_line()), None
    except LineTooLong as error:
        details = {"limit_bytes": error.limit_bytes}
        return None, refused(ErrorType.INVOCATION_TOO_LARGE, f"the invocation is too large: {error}", details)
    except NotIJson as error:
        return None, refused(ErrorType.INVALID_JSON, f"the invocation line is not acceptable: {error}")
    except EOFError:
        return None, refused(ErrorType.INVALID_JSON, "stdin ended before an invocation line came")


def _emitter_for(executor: Executor, stdio: Stdio, document: "dict[str, JsonValue] | None") -> Emitter:
    secrets = [os.environ.get(name, "") for name in executor.secrets]
    if document is None:
        return Emitter(stdio.write, run_id=None, session_id=None, secrets=secrets)
    return Emitter(
        stdio.write,
        run_id=_identifier(document.get("run_id"), "run_"),
        session_id=_identifier(document.get("session_id"), "ses_"),
        secrets=secrets,
    )


def _identifier(given: object, prefix: str) -> str:
    return given if isinstance(given, str) and given else prefix + os.urandom(12).hex()


def _run_started(executor: Executor, document: "dict[str, JsonValue] | None") -> dict[str, object]:
    return {
        "schema_version": str(announced_version(document or {})),
        "executor": {"name": executor.name, "version": executor.version},
    }


def _end_with(emitter: Emitter, failure: RunFailed) -> ExitCode:
    with suppress(NobodyReads):
        emitter.end("failure", failure.to_fields(emitter.side_effects))
    return failure.exit_code


def _give_up(emitter: Emitter, failure: RunFailed) -> NoReturn:
    _leave_run(_end_with(emitter, failure))


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

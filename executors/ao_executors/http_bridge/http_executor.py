"""`ao-http-exec EXECUTOR`: an executor of the older HTTP protocol for the runner, and a runner for EXECUTOR."""

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from ao_executors.core import RunFailed
from ao_executors.core.program import Program
from ao_executors.core.stdio import Stdio
from ao_protocol.errors import ErrorType, ExitCode

GATEWAY_VARIABLE: Final = "AGENT_ORCHESTRATOR_API_URL"
DEFAULT_GATEWAY: Final = "http://127.0.0.1:8765"
RUNNERS_OWN: Final = ("AUTH0_RUNNER_CLIENT_ID", "AUTH0_RUNNER_CLIENT_SECRET")
"""The variables with the runner's credentials, which no executor receives (AOX-231)."""
STOP_SECONDS: Final = 3.0
"""The time between SIGTERM and SIGKILL for the executor. The runner kills this process after 5 s."""
_USAGE: Final = f"""\
usage: ao-http-exec EXECUTOR < invocation.json    EXECUTOR: a name such as claude-code, or a path

Performs an invocation of schema 2.2 with an executor of this protocol, and tells the gateway at {GATEWAY_VARIABLE}."""
_MAX_STDERR_BYTES: Final = 16 * 1024


def main() -> NoReturn:
    """Run the program `ao-http-exec`."""
    match sys.argv[1:]:
        case [executor] if not executor.startswith("-"):
            os._exit(_run(executor, Stdio.take_over()))  # a thread may still wait for stdin or for the gateway
        case _:
            _complain(_USAGE)
            sys.exit(ExitCode.USAGE)


def _run(executor: str, stdio: Stdio) -> int:
    loop = asyncio.new_event_loop()
    task = loop.create_task(_perform(executor, stdio))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    try:
        problem = loop.run_until_complete(task)
    except asyncio.CancelledError:
        _complain("Error: cancelled: received a signal")
        return ExitCode.CANCELLED
    except Exception as error:  # noqa: BLE001  # the outermost frame: the runner needs a reason on stderr
        problem = f"internal_error: {type(error).__name__}: {error}"
    if problem is not None:
        _complain(f"Error: {problem}")
    return ExitCode.RESULT if problem is None else ExitCode.FAILURE


async def _perform(executor: str, stdio: Stdio) -> str | None:
    """Return why a run has no result; None if every run has one."""
    try:
        start = partial(_start, _found(executor))
        program = start()  # first, so that it boots while the pydantic models are imported
        from ao_executors.http_bridge.bridge import ExecutorFailed, RunnerPipes, perform_session
    except RunFailed as error:
        return str(error)
    pipes = RunnerPipes(stdio, asyncio.get_running_loop(), _complain)
    try:
        await perform_session(program, start, pipes, os.environ.get(GATEWAY_VARIABLE) or DEFAULT_GATEWAY)
    except (RunFailed, ExecutorFailed) as error:
        return str(error)
    return None


def _found(executor: str) -> str:
    """Return the path of an executor. A name is searched beside the Python interpreter first, then on PATH."""
    beside = str(Path(sys.executable).parent)
    path = os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
    program = executor if os.sep in executor else f"ao-{executor}-exec"
    found = shutil.which(program, path=path) or shutil.which(executor, path=path)
    if found is None:
        text = f"there is no executable {program!r} in {path}; install it, or say its path"
        raise RunFailed(ErrorType.EXECUTOR_NOT_FOUND, text, origin="caller")
    return str(Path(found).absolute())


def _start(path: str, *arguments: str) -> Program:
    return Program(
        [path, *arguments],
        cwd=Path.cwd(),
        env={name: value for name, value in os.environ.items() if name not in RUNNERS_OWN},
        stop_seconds=STOP_SECONDS,
        max_stderr_bytes=_MAX_STDERR_BYTES,
        takes_input=True,
    )


def _complain(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

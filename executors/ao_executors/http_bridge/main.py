"""`ao-http-exec EXECUTOR`: an executor of the older HTTP protocol to the runner, and a runner to EXECUTOR."""

import asyncio
import os
import shutil
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from ao_executors.core.failures import RunFailed, refused
from ao_executors.core.program import Program
from ao_executors.core.stdio import NobodyReads, Stdio
from ao_protocol.errors import ErrorType, ExitCode
from ao_protocol.framing import LineTooLong

GATEWAY_VARIABLE: Final = "AGENT_ORCHESTRATOR_API_URL"
DEFAULT_GATEWAY: Final = "http://127.0.0.1:8765"
RUNNERS_OWN: Final = ("AUTH0_RUNNER_CLIENT_ID", "AUTH0_RUNNER_CLIENT_SECRET")
"""The runner's credentials, which are in its environment and for no executor (AOX-231)."""
STOP_SECONDS: Final = 3.0
"""How long the executor may take after SIGTERM. The runner kills after 5 s."""
SAY_SECONDS: Final = 10.0
UNREAD_SECONDS: Final = 1.0
"""How long an answer may wait for its reader when stdin has ended: that runner reads only after the exit."""
MAX_WARNINGS: Final = 20
_USAGE: Final = f"""\
usage: ao-http-exec EXECUTOR < invocation.json    EXECUTOR: a name such as claude-code, or a path

Performs an invocation of schema 2.2 with an executor of this protocol, and tells the gateway at {GATEWAY_VARIABLE}."""
_MAX_STDERR_BYTES: Final = 16 * 1024


class RunnerPipes:
    """The runner at the other end of stdin, stdout and stderr, which it reads late or never."""

    def __init__(self, stdio: Stdio, loop: asyncio.AbstractEventLoop) -> None:
        self._stdio = stdio
        self._loop = loop
        self._lines: asyncio.Queue[bytes | LineTooLong | None] = asyncio.Queue()
        self._warnings = 0
        self._has_ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    async def invocation_line(self) -> bytes:
        """Wait for the first line.

        Raises:
            RunFailed: there is none.
        """
        line = await self.next_line()
        if line is None:
            raise refused(ErrorType.INVALID_JSON, "stdin ended before an invocation came")
        return line

    async def next_line(self) -> bytes | None:
        """Wait for a line that is not blank; None at the end of stdin."""
        while not isinstance(line := await self._lines.get(), bytes) or not line.strip():
            if line is None:
                return None
            if isinstance(line, LineTooLong):
                raise refused(ErrorType.INVOCATION_TOO_LARGE, f"the turn is too large: {line}")
        return line

    async def say(self, text: str) -> None:
        """Write an answer. The gateway has it already, so one that nobody reads in time is given up."""
        seconds = UNREAD_SECONDS if self._has_ended else SAY_SECONDS
        try:
            async with asyncio.timeout(seconds):
                await asyncio.to_thread(self._stdio.write, text.encode(errors="replace") + b"\n")
        except (TimeoutError, NobodyReads):
            self.warn(f"nobody has read the answer on stdout within {seconds:.0f} s; it is cut")
            self._lines = asyncio.Queue()
            self._lines.put_nowait(None)

    def warn(self, text: str) -> None:
        """Write a remark. Only a few: the runner reads stderr after the end, and a full pipe would block."""
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            _complain(f"Warning: {text[:500]}")

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                for line in self._stdio.read_lines():
                    self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        self._has_ended = True
        self._loop.call_soon_threadsafe(self._lines.put_nowait, None)


def main() -> NoReturn:
    """Be `ao-http-exec`."""
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
    except Exception as error:  # noqa: BLE001  # the outermost frame: the runner is owed a reason on stderr
        problem = f"internal_error: {type(error).__name__}: {error}"
    if problem is not None:
        _complain(f"Error: {problem}")
    return ExitCode.RESULT if problem is None else ExitCode.FAILURE


async def _perform(executor: str, stdio: Stdio) -> str | None:
    """Return why a run has no result; None where each has one."""
    pipes = RunnerPipes(stdio, asyncio.get_running_loop())
    try:
        start = partial(_start, _found(executor))
        program = start()  # first, so that it boots while the models are imported
        from ao_executors.http_bridge.bridge import ExecutorFailed, perform_session
    except RunFailed as error:
        return str(error)
    try:
        await perform_session(program, start, pipes, os.environ.get(GATEWAY_VARIABLE) or DEFAULT_GATEWAY)
    except (RunFailed, ExecutorFailed) as error:
        return str(error)
    return None


def _found(executor: str) -> str:
    """Return the path of an executor. A name is looked for beside this program first, and then on PATH."""
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

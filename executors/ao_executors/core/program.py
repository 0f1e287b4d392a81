"""Programs with pipes, for executors. When the block of a program is left, none of its processes remains.

Public API for executors that start programs: `Program` for one that converses, `ProgramRun` for one that runs to its
end, `capture`, `lines_of`, `first_line`, `Captured`, `ProgramEnded`, `find_executable`, `not_started` and
`MAX_ARGUMENT_BYTES`.
"""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from ao_executors.core.executor import RunFailed, Task
from ao_lifeline import CANNOT_START, COMPLAINT, IS_THERE, KILL_ALL, tied
from ao_protocol.errors import ErrorType
from ao_protocol.framing import LineSplitter, LineTooLong

MAX_ARGUMENT_BYTES: Final = 128 * 1024 - 1
"""The longest single argument that Linux accepts (MAX_ARG_STRLEN, with the closing NUL)."""
_TERMINATE_SHARE: Final = 0.7
"""The part of the clean-up time between SIGTERM and SIGKILL."""
_CHUNK_BYTES: Final = 256 * 1024
_KILL_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Captured:
    """The last bytes of a stream.

    Args:
        kept: The bytes that are kept, from the end.
        total_bytes: The length of the whole stream in bytes.
    """

    kept: bytes
    total_bytes: int

    @property
    def text(self) -> str:
        """The kept bytes as text, without white space around it."""
        return self.kept.decode(errors="replace").strip()

    @property
    def is_cut(self) -> bool:
        """True if earlier bytes were dropped."""
        return self.total_bytes > len(self.kept)


async def capture(
    stream: asyncio.StreamReader, max_bytes: int, look: Callable[[bytes], None] | None = None
) -> Captured:
    """Read a stream to its end.

    Args:
        stream: The stream, such as `Program.stdout`.
        max_bytes: How many bytes are kept, from the end.
        look: Receives each piece as it comes.

    Returns:
        The kept bytes, and the length of the whole stream.
    """
    kept, total = bytearray(), 0
    while chunk := await stream.read(_CHUNK_BYTES):
        if look is not None:
            look(chunk)
        kept += chunk
        total += len(chunk)
        if len(kept) > 2 * max_bytes:
            del kept[:-max_bytes]
    return Captured(bytes(kept[-max_bytes:]) if max_bytes else b"", total)


async def lines_of(stream: asyncio.StreamReader, max_line_bytes: int) -> AsyncIterator[bytes | LineTooLong]:
    """Read the lines of a stream. A last line without a line end is dropped.

    Args:
        stream: The stream, such as `Program.stdout`.
        max_line_bytes: The length of the longest line that is kept.

    Yields:
        Each line without its end; `LineTooLong` in place of one that is longer.
    """
    splitter = LineSplitter(max_line_bytes)
    while chunk := await stream.read(_CHUNK_BYTES):
        for line in splitter.feed(chunk):
            yield line


class Program:
    """A program that cannot outlive this process, in its own process group.

    Use it as `async with Program(…) as program`, and read `stdout` in the block. The call starts the program; leaving
    the block ends it, if it is still running.

    Args:
        argv: The path of the program and its arguments.
        cwd: Its working directory.
        env: Its whole environment.
        stop_seconds: The time in seconds between SIGTERM and SIGKILL.
        max_stderr_bytes: How many bytes of its stderr are kept, from the end. stderr is read all the time.
        takes_input: Whether `write` can be used; if not, its stdin is empty.

    Raises:
        OSError: The program cannot be started, on a system without a lifeline. With one it ends with `CANNOT_START`.
    """

    stdout: asyncio.StreamReader
    on_stderr: Callable[[bytes], None] | None = None
    """Receives each piece of stderr as it comes. Set it before the block is entered."""
    leave_seconds: float = 0.0
    """How long the program may take to exit by itself after the end of its stdin, when the block is left."""

    def __init__(  # every argument is needed
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stop_seconds: float,
        max_stderr_bytes: int,
        takes_input: bool = False,
    ) -> None:
        # Not asyncio's subprocess: it can be cancelled after the program is started and before it has an owner.
        self._process = subprocess.Popen(
            tied(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=not IS_THERE,
        )
        self._stop_seconds = stop_seconds
        self._max_stderr_bytes = max_stderr_bytes
        self._stdin: asyncio.StreamWriter | None = None
        self._exit: asyncio.Future[int] = asyncio.ensure_future(asyncio.to_thread(self._process.wait))

    async def __aenter__(self) -> Self:
        try:
            self.stdout = await _reader(self._process.stdout)
            stderr = await _reader(self._process.stderr)
            self._stderr = asyncio.ensure_future(capture(stderr, self._max_stderr_bytes, self.on_stderr))
            if self._process.stdin is not None:
                self._stdin = await _writer(self._process.stdin)
        except BaseException:  # cancelled before the block is entered
            self._signal(KILL_ALL if IS_THERE else signal.SIGKILL)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        drained = asyncio.ensure_future(capture(self.stdout, 0))  # a full pipe would keep the program from ending
        try:
            self.close_stdin()
            await asyncio.wait({self._exit}, timeout=self.leave_seconds)
            if not self._exit.done():
                self._signal(signal.SIGTERM)
                await asyncio.wait({self._exit}, timeout=self._stop_seconds)
        finally:
            if not self._exit.done():
                self._signal(KILL_ALL if IS_THERE else signal.SIGKILL)
                await asyncio.wait({self._exit}, timeout=_KILL_SECONDS)
            await asyncio.wait({drained, self._stderr}, timeout=_KILL_SECONDS)

    @property
    def is_running(self) -> bool:
        """False once the end of the program is known."""
        return not self._exit.done()

    async def write(self, data: bytes) -> None:
        """Write to the program's stdin, and wait while it does not read.

        Args:
            data: The bytes to write.

        Raises:
            ConnectionError: The program has closed its stdin, or takes no input.
        """
        if self._stdin is None:
            raise ConnectionError("the program takes no input")
        self._stdin.write(data)
        await self._stdin.drain()

    async def stdin_closed(self) -> None:
        """Wait until the program, or this side, has closed its stdin."""
        if self._stdin is not None:
            with suppress(ConnectionError):
                await self._stdin.wait_closed()

    def close_stdin(self) -> None:
        """Close the program's stdin."""
        if self._stdin is not None:
            self._stdin.close()

    async def wait(self) -> int:
        """Wait for the end of the program.

        Returns:
            The exit code, or the negative number of the signal that ended the program.
        """
        return await asyncio.shield(self._exit)

    async def ended(self, seconds: float) -> tuple[int | None, Captured]:
        """Wait for the end of the program and of its stderr.

        Args:
            seconds: The longest wait.

        Returns:
            The exit code as of `wait`, and the stderr; None and nothing if the program has not ended in time.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self.wait(), await self.stderr()
        except TimeoutError:
            return None, Captured(b"", 0)

    async def stderr(self) -> Captured:
        """Wait for the end of stderr.

        Returns:
            At most the last `max_stderr_bytes` of it.
        """
        return await asyncio.shield(self._stderr)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if IS_THERE:
                self._process.send_signal(number)
            else:
                os.killpg(self._process.pid, number)


@dataclass(frozen=True, slots=True)
class ProgramEnded:
    """The end of a program.

    Args:
        return_code: The exit code, or the negative number of the signal that ended the program.
        stdout: The last bytes of its stdout.
        stderr: The last bytes of its stderr.
    """

    return_code: int
    stdout: Captured
    stderr: Captured

    @property
    def why_not_started(self) -> str | None:
        """The reason why the lifeline could not start the program; None if it was started."""
        is_it = self.return_code == -CANNOT_START and self.stderr.text.startswith(COMPLAINT)
        return self.stderr.text if is_it else None


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program that runs to its end for a task, in the project directory, with the executor's environment.

    Args:
        argv: The path of the program and its arguments.
        max_output_bytes: How many bytes of stdout and of stderr are kept, from the end.
        stdin: The bytes on its stdin; None: an empty stdin.
        env: Variables that override the environment.
    """

    argv: Sequence[str]
    max_output_bytes: int
    stdin: bytes | None = None
    env: Mapping[str, str] | None = None

    def started(self, task: Task) -> Program:
        """Start the program for a task. A part of the task's grace period is its time between SIGTERM and SIGKILL.

        Args:
            task: The task, for its project directory and limits.

        Returns:
            The started program, for `run_to_end`.

        Raises:
            OSError: As for `Program`.
        """
        return Program(
            self.argv,
            cwd=task.project_dir,
            env={**os.environ, **(self.env or {})},
            stop_seconds=task.limits.clean_up_seconds * _TERMINATE_SHARE,
            max_stderr_bytes=self.max_output_bytes,
            takes_input=self.stdin is not None,
        )

    async def run_to_end(self, program: Program) -> ProgramEnded:
        """Wait for the end of a program. If the caller is cancelled, the program is ended.

        Args:
            program: The program that `started` returned.

        Returns:
            Its exit code and output.
        """
        async with program:
            stdout, stderr, code, _ = await asyncio.gather(
                capture(program.stdout, self.max_output_bytes),
                program.stderr(),
                program.wait(),
                _feed(program, self.stdin or b""),
            )
        return ProgramEnded(code, stdout, stderr)


def first_line(argv: Sequence[str], env: Mapping[str, str], timeout_seconds: float) -> str:
    """Return the first line that a program prints within a time; empty if it prints none or fails.

    Args:
        argv: The path of the program and its arguments.
        env: Its whole environment.
        timeout_seconds: How long it may take.
    """
    try:
        shown = subprocess.run(argv, env=env, capture_output=True, timeout=timeout_seconds, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(shown.stdout.decode(errors="replace").splitlines()), "").strip()


def find_executable(name: str, folder: Path, kind: str, advice: str) -> str:
    """Find a program on PATH or, if its name has a slash, relative to a folder.

    Args:
        name: The name or path of the program.
        folder: The folder of relative paths.
        kind: What a message calls the program, such as `agent`.
        advice: What to do if it is missing.

    Returns:
        Its path.

    Raises:
        RunFailed: It is missing (`dependency_missing`).
    """
    found = shutil.which(str(folder / name) if "/" in name else name)
    if found is None:
        if os.path.isfile(folder / name):  # noqa: PTH113  # a Path raises for too long a name
            raise not_started(name, f"{folder / name} is not executable", kind, f"chmod +x {shlex.quote(name)}")
        place = f"in {folder}" if "/" in name else "on PATH"
        raise not_started(name, f"there is no such executable {place}", kind, advice)
    return found


def not_started(name: str, reason: str, kind: str, advice: str) -> RunFailed:
    """Return the failure of a program that cannot be started.

    Args:
        name: The name or path of the program.
        reason: Why it cannot be started.
        kind: What a message calls the program, such as `agent`.
        advice: What to do.

    Returns:
        A failure of the type `dependency_missing`.
    """
    message = f"the {kind} {name!r} cannot be started: {reason}; {advice}"
    return RunFailed(ErrorType.DEPENDENCY_MISSING, message, origin="environment")


async def _reader(pipe: IO[bytes] | None) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(pipe: IO[bytes]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    # The protocol of a StreamReader is the only public one with flow control for a writer.
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _feed(program: Program, data: bytes) -> None:
    with suppress(ConnectionError):  # the program may end, or answer, without reading all of it
        if data:
            await program.write(data)
    program.close_stdin()

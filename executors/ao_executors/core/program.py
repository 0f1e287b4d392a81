"""The toolkit's door to processes: one program with pipes, and nothing of it left when its block is left.

Public API for executors that start programs: `Program` for one that converses, `ProgramRun` for one that runs to its
end, `capture`, `Captured`, `ProgramEnded` and `MAX_ARGUMENT_BYTES`.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from ao_executors.core.executor import Task
from ao_lifeline import CANNOT_START, COMPLAINT, IS_THERE, KILL_ALL, tied

MAX_ARGUMENT_BYTES: Final = 128 * 1024 - 1
"""Linux takes no longer single argument (MAX_ARG_STRLEN, with the closing NUL)."""
_TERMINATE_SHARE: Final = 0.7
"""The part of the time for cleaning up that a program has after SIGTERM, before SIGKILL."""
_CHUNK_BYTES: Final = 64 * 1024
_KILL_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Captured:
    """The last bytes of a stream, and how many there were."""

    kept: bytes
    total_bytes: int

    @property
    def is_cut(self) -> bool:
        """True when earlier bytes were dropped."""
        return self.total_bytes > len(self.kept)


async def capture(stream: asyncio.StreamReader, max_bytes: int) -> Captured:
    """Read a stream to its end.

    Args:
        stream: Such as `Program.stdout`.
        max_bytes: How many bytes are kept, from the end.

    Returns:
        What is kept, and how much there was.
    """
    kept, total = bytearray(), 0
    while chunk := await stream.read(_CHUNK_BYTES):
        kept += chunk
        total += len(chunk)
        if len(kept) > 2 * max_bytes:
            del kept[:-max_bytes]
    return Captured(bytes(kept[-max_bytes:]) if max_bytes else b"", total)


class Program:
    """A program that cannot outlive this process, in a process group of its own.

    Use it as `async with Program(…) as program`, and read `stdout` inside. It is started by the call, and ended if the
    block is left before its end.

    Args:
        argv: The path of the program and its arguments.
        cwd: Its working directory.
        env: Its whole environment.
        stop_seconds: How long it may take after SIGTERM before it is killed.
        max_stderr_bytes: How much of its stderr is kept, from the end. stderr is read all the time.
        takes_input: Whether `write` can be used; its stdin is empty otherwise.

    Raises:
        OSError: the program cannot be started, on a system without a lifeline. With one it ends with `CANNOT_START`.
    """

    stdout: asyncio.StreamReader

    def __init__(  # each is another fact about a process
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stop_seconds: float,
        max_stderr_bytes: int,
        takes_input: bool = False,
    ) -> None:
        # Popen and not asyncio's: that one can be cancelled when the program runs and nobody owns it yet.
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
            self._stderr = asyncio.ensure_future(capture(await _reader(self._process.stderr), self._max_stderr_bytes))
            if self._process.stdin is not None:
                self._stdin = await _writer(self._process.stdin)
        except BaseException:  # cancelled before there is a block to leave
            self._signal(KILL_ALL if IS_THERE else signal.SIGKILL)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        drained = asyncio.ensure_future(capture(self.stdout, 0))  # or a program that still writes could not end
        try:
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
        """False once its end is known."""
        return not self._exit.done()

    async def write(self, data: bytes) -> None:
        """Write to its stdin, and wait while it does not read.

        Raises:
            ConnectionError: it does not read any more, or takes no input.
        """
        if self._stdin is None:
            raise ConnectionError("the program takes no input")
        self._stdin.write(data)
        await self._stdin.drain()

    def close_stdin(self) -> None:
        """Say that nothing more comes."""
        if self._stdin is not None:
            self._stdin.close()

    async def wait(self) -> int:
        """Wait for the end and return the exit code, negative for the signal that ended the program."""
        return await asyncio.shield(self._exit)

    async def stderr(self) -> Captured:
        """Wait for the end of stderr and return what is kept of it."""
        return await asyncio.shield(self._stderr)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if IS_THERE:
                self._process.send_signal(number)
            else:
                os.killpg(self._process.pid, number)


@dataclass(frozen=True, slots=True)
class ProgramEnded:
    """How a program ended: its exit code, negative for a signal, and what it wrote."""

    return_code: int
    stdout: Captured
    stderr: Captured

    @property
    def why_not_started(self) -> str | None:
        """Return the reason where the program could not even be started."""
        text = self.stderr.kept.decode(errors="replace")
        return text.strip() if self.return_code == -CANNOT_START and text.startswith(COMPLAINT) else None


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A program that runs to its end for a task, in the project directory, with the executor's environment.

    Args:
        argv: The path of the program and its arguments.
        max_output_bytes: How much of stdout and of stderr is kept, from the end.
        stdin: What it reads; None is an empty stdin.
        env: Variables that override the environment.
    """

    argv: Sequence[str]
    max_output_bytes: int
    stdin: bytes | None = None
    env: Mapping[str, str] | None = None

    def started(self, task: Task) -> Program:
        """Start the program for a task, whose grace period it gets to end in.

        Raises:
            OSError: as for `Program`.
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
        """Wait for the end of what `started` returned. If the caller is cancelled, the program is ended, too."""
        async with program:
            stdout, stderr, code, _ = await asyncio.gather(
                capture(program.stdout, self.max_output_bytes),
                program.stderr(),
                program.wait(),
                _feed(program, self.stdin or b""),
            )
        return ProgramEnded(code, stdout, stderr)


async def _reader(pipe: IO[bytes] | None) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(pipe: IO[bytes]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    # The protocol of a StreamReader is the only public one that knows when a writer has to wait.
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe)
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def _feed(program: Program, data: bytes) -> None:
    with suppress(ConnectionError):  # it may end, or answer, without reading all of it
        if data:
            await program.write(data)
    program.close_stdin()

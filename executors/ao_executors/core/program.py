"""The toolkit's door to processes: one program with pipes, and nothing of it left when its block is left."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Self

from ao_executors.core.leash import IS_LEASHED, KILL_ALL, leashed

_KILL_SECONDS: Final = 2.0


class Program:
    """A program on its leash, in a group of its own.

    Use it as `async with Program(…) as program`; only then its pipes are there. `stop_seconds` is how long it may
    take after SIGTERM, when the block is left before its end. Its stdin is empty unless `takes_input`.

    Raises:
        OSError: the program cannot be started, where there is no leash to report it.
    """

    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stop_seconds: float, takes_input: bool = False
    ) -> None:
        # Popen and not asyncio's: that one can be cancelled when the program runs and nobody owns it yet.
        self._process = subprocess.Popen(
            leashed(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=not IS_LEASHED,
        )
        self._stop_seconds = stop_seconds
        self._stdin: asyncio.StreamWriter | None = None
        self._end: asyncio.Future[int] = asyncio.ensure_future(asyncio.to_thread(self._process.wait))

    async def __aenter__(self) -> Self:
        if self._process.stdin is not None:
            self._stdin = await _writer(self._process.stdin)
        self.stdout = await _reader(self._process.stdout)
        self.stderr = await _reader(self._process.stderr)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            if not self._end.done():
                self._signal(signal.SIGTERM)
                await asyncio.wait({self._end}, timeout=self._stop_seconds)
        finally:
            if not self._end.done():
                self._signal(KILL_ALL if IS_LEASHED else signal.SIGKILL)
                await asyncio.wait({self._end}, timeout=_KILL_SECONDS)

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
        return await asyncio.shield(self._end)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is not None:
            return
        if IS_LEASHED:
            self._process.send_signal(number)
        else:
            os.killpg(self._process.pid, number)


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

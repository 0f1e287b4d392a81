"""Runs one program to its end, keeps a bounded part of what it writes, and leaves nothing of it behind."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from ao_executors.core.leash import CANNOT_START, IS_LEASHED, KILL_ALL, leashed

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


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. `return_code` is negative for the signal that ended it."""

    return_code: int
    stdout: Captured
    stderr: Captured

    @property
    def why_not_started(self) -> str | None:
        """Return the reason where the program could not even be started."""
        text = self.stderr.kept.decode(errors="replace")
        return text if self.return_code == -CANNOT_START and text.startswith("lifeline: ") else None


class RunningProgram:
    """A program on its leash. Its own group, no stdin, and it is gone when the block is left.

    `stop_seconds` is how long it may take after SIGTERM, when the block is left before its end.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], max_output_bytes: int, stop_seconds: float
    ) -> None:
        # Popen and not asyncio's: that one can be cancelled when the program runs and nobody owns it yet.
        self._process = subprocess.Popen(
            leashed(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=not IS_LEASHED,
        )
        self._max_output_bytes = max_output_bytes
        self._stop_seconds = stop_seconds
        self._end = asyncio.get_running_loop().create_task(self._until_end())

    async def __aenter__(self) -> Self:
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

    async def end(self) -> Ended:
        """Wait for the program to end and both of its streams to be closed."""
        return await asyncio.shield(self._end)

    async def _until_end(self) -> Ended:
        stdout, stderr = await asyncio.gather(
            _capture(self._process.stdout, self._max_output_bytes),
            _capture(self._process.stderr, self._max_output_bytes),
        )
        return Ended(await asyncio.to_thread(self._process.wait), stdout, stderr)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is not None:
            return
        if IS_LEASHED:
            self._process.send_signal(number)
        else:
            os.killpg(self._process.pid, number)


async def _capture(stream: IO[bytes] | None, max_bytes: int) -> Captured:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), stream)
    kept, total = bytearray(), 0
    while chunk := await reader.read(_CHUNK_BYTES):
        kept += chunk
        total += len(chunk)
        if len(kept) > 2 * max_bytes:
            del kept[:-max_bytes]
    return Captured(bytes(kept[-max_bytes:]), total)

"""Descriptors read and written from an event loop, without threads and without changing their flags.

O_NONBLOCK belongs to the open file, not to the descriptor: set here it would hold for the shell that shares the
terminal, and for stderr. So a descriptor is used only when it says that it is ready, and is written to in pieces that a
pipe which is ready always takes. A regular file is never waited for: selectors refuse it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from ao_protocol.framing import MAX_INVOCATION_BYTES, EndedMidLine, LineSplitter, LineTooLong

CHUNK_BYTES: Final = 65536
PIECE_BYTES: Final = 4096
"""A pipe that is ready takes PIPE_BUF bytes without blocking (POSIX); on Linux they are 4096."""


class PipeBroken(Exception):
    """The reader of a pipe has gone."""


class Inlet:
    """Lines from a descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def lines(self) -> AsyncIterator[tuple[int, bytes | LineTooLong]]:
        """Yield every line with its number, from 1, the last also without its line end. Blank ones are left out."""
        splitter = LineSplitter(MAX_INVOCATION_BYTES)
        number = 0
        while chunk := await self._chunk():
            for line in splitter.feed(chunk):
                number += 1
                if line:
                    yield number, line
        try:
            splitter.end()
        except EndedMidLine as error:
            yield number + 1, error.tail

    async def _chunk(self) -> bytes:
        loop = asyncio.get_running_loop()
        while True:
            await _ready(self._descriptor, loop.add_reader, loop.remove_reader)
            try:
                return os.read(self._descriptor, CHUNK_BYTES)
            except BlockingIOError:
                continue


class Outlet:
    """Lines to a descriptor. What is added leaves in order and once, however often a flush is cancelled or fails."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = bytearray()
        self._writing = asyncio.Lock()

    def add(self, lines: Iterable[bytes]) -> None:
        """Append lines, which have no line end."""
        for line in lines:
            self._waiting += line
            self._waiting += b"\n"

    async def flush(self) -> None:
        """Write all that waits, as fast as the reader takes it.

        Raises:
            PipeBroken: the reader has gone.
            OSError: it cannot be written now.
        """
        loop = asyncio.get_running_loop()
        async with self._writing:
            while self._waiting:
                await _ready(self._descriptor, loop.add_writer, loop.remove_writer)
                try:
                    written = os.write(self._descriptor, self._waiting[:PIECE_BYTES])
                except BlockingIOError:
                    continue
                except BrokenPipeError as error:
                    raise PipeBroken from error
                del self._waiting[:written]


async def _ready(descriptor: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    """Wait until a descriptor is ready, or let others have a turn where it always is."""
    ready = asyncio.Event()
    try:
        add(descriptor, ready.set)
    except PermissionError:
        await asyncio.sleep(0)
        return
    try:
        await ready.wait()
    finally:
        remove(descriptor)

"""A bell between processes of one host: whoever changes the store rings, and those who wait for a change look.

It carries nothing but the wish to look, so that a bell that nobody hears, or one ring of two, does no harm: whoever
waits looks by itself now and then.
"""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ao_runner.home import private_folder

FOLDER_NAME: Final = "bells"


class Bell:
    """The bell of one process. Any number of its tasks may wait."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def heard(self, timeout_seconds: float) -> None:
        """Return at the next ring, or after the time."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(timeout_seconds):
                await future
        except TimeoutError:
            return
        finally:
            self._waiting.discard(future)

    def ring(self) -> None:
        """Wake everybody who waits in this process."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


@contextmanager
def hung_up(home: Path, name: str) -> Iterator[Bell]:
    """Yield a bell that other processes can ring inside the `with` block."""
    folder = private_folder(home, FOLDER_NAME)
    bell = Bell()
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear, _short_path(folder) as place:
        ear.setblocking(False)
        ear.bind(f"{place}/{name}")
        (folder / name).chmod(0o600)

        def hear() -> None:
            with suppress(BlockingIOError):
                while ear.recv(1):
                    pass
            bell.ring()

        loop.add_reader(ear, hear)
        try:
            yield bell
        finally:
            loop.remove_reader(ear)
            (folder / name).unlink(missing_ok=True)


def ring(home: Path) -> None:
    """Ring the bells of all processes that use this home."""
    folder = home / FOLDER_NAME
    if not folder.is_dir():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth, _short_path(folder) as place:
        mouth.setblocking(False)
        for name in os.listdir(folder):  # noqa: PTH208  # names are what is wanted
            try:
                mouth.sendto(b"!", f"{place}/{name}")
            except ConnectionRefusedError:
                (folder / name).unlink(missing_ok=True)  # whoever hung it up was killed
            except (FileNotFoundError, BlockingIOError):
                continue  # it has just left, or has not yet listened to the last ring


@contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """Yield a name of the folder that fits into a socket's address, of which the system allows some 100 bytes."""
    descriptor_names = Path("/proc/self/fd")
    if not descriptor_names.is_dir():
        yield str(folder)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield str(descriptor_names / str(descriptor))
    finally:
        os.close(descriptor)

"""Who opens a socket of the internet: a process, or anything that it starts (Linux)."""

import contextlib
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ao_conformance.driver.leftovers import command_line

RECEIVE: Final = 0xC0502100
ANSWER: Final = 0xC0182101
NOTE_BYTES: Final = 80
GO_ON: Final = 1
POLL_SECONDS: Final = 0.1
LAUNCHER: Final = Path(__file__).with_name("notifying.py")


class SocketWatch:
    """Notes for as long as a `with` block lasts; `command` makes one that is watched, to be started once."""

    def __init__(self) -> None:
        self.openers: list[str] = []
        """The command lines of those who opened one, or what is known of them."""
        self._here, self._there = socket.socketpair()
        self._here.settimeout(POLL_SECONDS)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def descriptor(self) -> int:
        """What the command inherits."""
        return self._there.fileno()

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return a command that does the same, watched."""
        return [sys.executable, "-I", "-S", str(LAUNCHER), str(self.descriptor), *argv]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._thread.join()
        self._here.close()
        self._there.close()

    def _watch(self) -> None:
        notes = self._receive()
        if notes is None:
            return
        try:
            waiting = select.poll()
            waiting.register(notes, select.POLLIN)
            while not self._closing.is_set():
                for _, event in waiting.poll(POLL_SECONDS * 1000):
                    if not event & select.POLLIN:  # everything that was watched has ended
                        return
                    self._note(notes)
        finally:
            os.close(notes)

    def _receive(self) -> int | None:
        while not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                _, found, _, _ = socket.recv_fds(self._here, 16, 1)
                return found[0] if found else None
        return None

    def _note(self, notes: int) -> None:
        import fcntl

        note = bytearray(NOTE_BYTES)
        with contextlib.suppress(OSError):  # it was killed meanwhile
            fcntl.ioctl(notes, RECEIVE, note)
            number, pid = struct.unpack_from("=QI", note)
            self.openers.append(command_line(pid) or f"process {pid}")
            fcntl.ioctl(notes, ANSWER, struct.pack("=QqiI", number, 0, 0, GO_ON))

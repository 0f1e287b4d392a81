"""Watch what an executable must not use: internet sockets, an address and a file, each in a `with` block."""

import contextlib
import ctypes
import fcntl
import os
import select
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from ao_conformance.driver.leftovers import command_line

RECEIVE: Final = 0xC0502100
ANSWER: Final = 0xC0182101
SOCKET_NOTE_BYTES: Final = 80
GO_ON: Final = 1
POLL_SECONDS: Final = 0.1
LAUNCHER: Final = Path(__file__).with_name("notifying.py")
ACCEPT_SECONDS: Final = 0.2
IN_OPEN: Final = 0x20
FILE_NOTE_BYTES: Final = 4096


class SocketWatch:
    """A watch on the internet sockets of one command in a `with` block. The result of `command` is started once."""

    def __init__(self) -> None:
        self.openers: list[str] = []
        """The command lines of the processes that opened a socket, or their ids."""
        self._here, self._there = socket.socketpair()
        self._here.settimeout(POLL_SECONDS)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def descriptor(self) -> int:
        """The descriptor that the command inherits."""
        return self._there.fileno()

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return a command that runs the same program under the watch."""
        return [sys.executable, "-I", "-S", str(LAUNCHER), str(self.descriptor), *argv]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        self._here.close()
        self._there.close()

    def _watch(self) -> None:
        notes = self._receive()
        if notes is None:
            return
        waiting = select.poll()
        waiting.register(notes, select.POLLIN)
        event = select.POLLIN
        try:
            while not self._closing.is_set() and event & select.POLLIN:  # else all watched processes have ended
                for _, event in waiting.poll(POLL_SECONDS * 1000):
                    if event & select.POLLIN:
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
        note = bytearray(SOCKET_NOTE_BYTES)
        with contextlib.suppress(OSError):  # it was killed meanwhile
            fcntl.ioctl(notes, RECEIVE, note)
            number, pid = struct.unpack_from("=QI", note)
            self.openers.append(command_line(pid) or f"process {pid}")
            fcntl.ioctl(notes, ANSWER, struct.pack("=QqiI", number, 0, 0, GO_ON))


class WatchedAddress:
    """A listener on the loopback interface for the duration of a `with` block; it answers no call."""

    def __init__(self) -> None:
        self.callers = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(ACCEPT_SECONDS)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)

    @property
    def url(self) -> str:
        """The URL of the listener."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()
        self._listener.close()

    def _count(self) -> None:
        while not self._closing.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listener.accept()
                self.callers += 1
                connection.close()


class WatchedFile:
    """A watched file for the duration of a `with` block."""

    def __init__(self, path: Path, text: str) -> None:
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        self.path = path
        self._notes: int | None = None
        if sys.platform == "linux":
            libc = ctypes.CDLL(None, use_errno=True)
            notes: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if notes >= 0 and libc.inotify_add_watch(notes, os.fsencode(path), IN_OPEN) >= 0:
                self._notes = notes
            elif notes >= 0:
                os.close(notes)

    @property
    def is_opened(self) -> bool:
        """Whether the file was opened since it was written."""
        if self._notes is None:
            return False
        try:
            return bool(os.read(self._notes, FILE_NOTE_BYTES))
        except BlockingIOError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._notes is not None:
            os.close(self._notes)

"""Ctrl-C and SIGTERM as requests to stop, which a selector can wait for."""

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

STOPPING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class StopRequests:
    """Counts the wishes to stop, from signals or from `request`."""

    def __init__(self, reader: socket.socket, writer: socket.socket) -> None:
        self._reader = reader
        self._writer = writer
        self._count = 0

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is a request that was not taken."""
        return self._reader.fileno()

    def request(self) -> None:
        """Wish it from inside this process."""
        self._writer.send(bytes([signal.SIGTERM]))

    def take(self) -> int:
        """Take what came, and return how many requests there were in all."""
        try:
            received = self._reader.recv(64)
        except BlockingIOError:
            received = b""
        self._count += sum(number in STOPPING_SIGNALS for number in received)
        return self._count


@contextmanager
def stop_requests() -> Iterator[StopRequests]:
    """Yield the stop requests of this process. Inside the `with` block the signals do nothing else.

    Only the main thread may use it: it sets signal handlers.
    """
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    previous_wakeup = signal.set_wakeup_fd(writer.fileno())
    # The wakeup descriptor gets the signal's number; without a handler of Python's it would get nothing.
    previous = {number: signal.signal(number, lambda *_: None) for number in STOPPING_SIGNALS}
    try:
        yield StopRequests(reader, writer)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_wakeup)
        reader.close()
        writer.close()

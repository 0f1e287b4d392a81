"""Remembers that somebody wants the run to end, and tells the work once there is some.

It works from the first moment, before an event loop exists, and from a signal handler.
"""

import signal
from collections.abc import Callable
from typing import Final

_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Cancellation:
    """The first reason counts; every later request means nothing."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._stop: Callable[[], object] | None = None

    def listen_to_signals(self) -> None:
        """Take SIGTERM, SIGINT and SIGHUP as requests from now on."""
        for number in _ENDING_SIGNALS:
            signal.signal(number, lambda received, _: self.request(f"signal {signal.Signals(received).name}"))

    def request(self, reason: str) -> None:
        """Ask for the end of the run."""
        if self.reason is None:
            self.reason = reason
            if self._stop is not None:
                self._stop()

    def when_requested(self, stop: Callable[[], object]) -> None:
        """Call `stop` once, when the request comes, or now if it has come. It must be safe in a signal handler."""
        self._stop = stop
        if self.reason is not None:
            stop()

"""Remembers that somebody wants the run to end, and tells the work once there is some.

It works from the first moment, before an event loop exists, and from a signal handler.
"""

import signal
from collections.abc import Callable
from typing import Final

_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Cancellation:
    """The first reason counts; every later request for the same run means nothing.

    A signal and the end of stdin are for good: they end the process, too. A `cancel` line ends the run that it meets.
    """

    def __init__(self) -> None:
        self._reason: str | None = None
        self._reason_for_good: str | None = None
        self._stop: Callable[[], object] | None = None

    @property
    def reason(self) -> str | None:
        """Why the run is to end; None while it is not."""
        return self._reason or self._reason_for_good

    @property
    def is_for_good(self) -> bool:
        """True once no further run is to begin."""
        return self._reason_for_good is not None

    def listen_to_signals(self) -> None:
        """Take SIGTERM, SIGINT and SIGHUP as requests for good from now on."""
        for number in _ENDING_SIGNALS:
            signal.signal(number, lambda received, _: self.end(f"signal {signal.Signals(received).name}"))

    def request(self, reason: str) -> None:
        """Ask for the end of the run."""
        if self.reason is None:
            self._reason = reason
            self._call()

    def end(self, reason: str) -> None:
        """Ask for the end of the run, if there is one, and of the process."""
        if self._reason_for_good is None:
            is_first = self.reason is None
            self._reason_for_good = reason
            if is_first:
                self._call()

    def forget(self) -> None:
        """Forget a request that was for one run, now that it has ended."""
        self._reason, self._stop = None, None

    def when_requested(self, stop: Callable[[], object]) -> None:
        """Call `stop` once, when a request comes, or now if one has come. It must be safe in a signal handler."""
        self._stop = stop
        if self.reason is not None:
            stop()

    def _call(self) -> None:
        if self._stop is not None:
            self._stop()

"""How many requests a sender may send: a count for each address and window of time."""

import time
from collections.abc import Callable
from typing import Final

MOST_SENDERS: Final = 10_000
"""Maximum number of senders that are counted at a time; if more come, all counts begin anew."""


class RateLimit:
    """Counts what senders do in windows of a fixed length.

    Args:
        most: What a sender may do in a window.
        seconds: The length of a window.
        clock: Returns the time in seconds.
    """

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._counts: dict[str, tuple[float, int]] = {}

    def count(self, sender: str) -> None:
        """Count one act of a sender."""
        if len(self._counts) >= MOST_SENDERS:
            self._counts.clear()
        began, count = self._window(sender)
        self._counts[sender] = (began, count + 1)

    def wait_seconds(self, sender: str) -> float:
        """Return how long a sender has to wait; 0 if its limit is not reached."""
        began, count = self._window(sender)
        return began + self._seconds - self._clock() if count >= self._most else 0.0

    def _window(self, sender: str) -> tuple[float, int]:
        now = self._clock()
        began, count = self._counts.get(sender, (now, 0))
        return (began, count) if now - began < self._seconds else (now, 0)

"""How long to wait before the next try: longer each time, up to a cap, and by chance, so that many do not come at once.

Full jitter, as in "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015).
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FIRST_SECONDS: Final = 0.2
LONGEST_SECONDS: Final = 15.0
MAX_RETRY_AFTER_SECONDS: Final = 300.0
"""For so long at most a worker keeps quiet because it was asked to."""


@dataclass(slots=True)
class Backoff:
    """Counts the tries of one thing that did not work yet. `chance` returns a number from 0 to 1."""

    first_seconds: float = FIRST_SECONDS
    longest_seconds: float = LONGEST_SECONDS
    chance: Callable[[], float] = random.random
    tries: int = 0

    def next_seconds(self, at_least: float | None = None) -> float:
        """Return how long to wait now; `at_least` is what the other side has asked for, which has a cap of its own."""
        longest = min(self.longest_seconds, self.first_seconds * float(2**self.tries))
        self.tries = min(self.tries + 1, 30)
        return max(min(at_least or 0.0, MAX_RETRY_AFTER_SECONDS), longest * self.chance())

"""Ends a run whose work holds the interpreter, so that the event loop never gets a turn: a timer signal does it."""

import signal
from collections.abc import Callable
from typing import Final

from ao_executors.core.emitter import Emitter

_LOOK_AGAIN_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 2.0**31 - 1
"""68 years; a timer of the system refuses much more."""


def end_after(seconds: float, events: Emitter, end: Callable[[], object]) -> None:
    """Call `end` from a signal handler after `seconds`, unless the run has ended by then. A later call replaces this.

    An event that is just being written comes first: half a line would spoil the stream.
    """

    def handle(_number: int, _frame: object) -> None:
        if events.is_busy:
            signal.setitimer(signal.ITIMER_REAL, _LOOK_AGAIN_SECONDS)
        elif not events.ended:
            end()

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, _LONGEST_SECONDS))

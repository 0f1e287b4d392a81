"""Standard streams that were closed at the start: their numbers must be nobody else's, and `ao` works all the same."""

import os
import sys
from typing import Final

_CLOSED: Final = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))
"""Descriptor 1 can only be read: a coordinator that writes events to it must hear that nobody gets them."""


def fill_closed_streams() -> None:
    """Open /dev/null in the place of each stream that is closed, in the order of their numbers.

    Nothing comes from stdin then, and what is printed for people goes nowhere.
    """
    for number, flags in _CLOSED:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)
    # They are open for as long as the process lives.
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123

"""Standard streams as they may be at the start, closed or not waiting for their reader: `ao` works all the same."""

import io
import os
import select
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CLOSED: Final = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))
"""Descriptor 1 can only be read: a coordinator that writes events to it must hear that nobody gets them."""


def fill_closed_streams() -> None:
    """Open /dev/null in the place of each stream that is closed, in the order of their numbers.

    They must be nobody else's. Nothing comes from stdin then, and what is printed for people goes nowhere.
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


def have_stdout_wait() -> None:
    """Have what is printed wait for its reader, also where somebody who shares stdout has made it one that does not."""
    stream, number = sys.stdout, sys.stdout.fileno()
    if os.get_blocking(number):
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_WaitingFile(number, "wb", closefd=False)),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=bool(stream.line_buffering),
    )


class _WaitingFile(io.FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        while (written := super().write(data)) is None:
            select.select([], [self.fileno()], [])
        return written

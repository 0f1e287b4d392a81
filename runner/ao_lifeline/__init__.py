"""A lifeline for programs: a program and all its descendants end when this process does, in any way.

Both runner and executors start foreign programs, and neither imports the other, so this package is independent of the
protocol. `tied` puts a lifeline before one program; `lifelines` has a keeper that forks one per run.
"""

import os
import signal
import sys
from collections.abc import Sequence

# No pathlib and no typing here: every keeper imports this package, and they would add half to its start time.
_PROGRAM = os.path.join(os.path.dirname(__file__), "program.py")  # noqa: PTH118, PTH120

IS_THERE = sys.platform == "linux"
"""Other systems have no parent-death signal, and a killed process leaves its children behind."""

KILL_ALL = signal.SIGUSR1
"""The signal that makes a lifeline kill everything below it."""

CANNOT_START = signal.SIGUSR2
"""The signal that ends a lifeline whose program cannot be started; the reason is on stderr, after `COMPLAINT`."""

COMPLAINT = "lifeline: "

Message = int | tuple[str | int | None, ...]
"""A message between runner, keeper and lifelines: see `ao_lifeline.keeper`."""

MAX_MESSAGE_BYTES = 16 * 1024


def tied(argv: Sequence[str]) -> list[str]:
    """Return the command line to start instead of `argv`, from this process's main thread.

    SIGTERM to it reaches the program's group. It exits as the program does, after everything below it has ended. While
    the program runs, only the program holds its standard streams.
    """
    if not IS_THERE:
        return list(argv)
    return [sys.executable, "-I", "-S", _PROGRAM, str(os.getpid()), *argv]

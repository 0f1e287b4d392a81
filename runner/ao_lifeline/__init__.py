"""A lifeline for programs: one, and all that it starts, ends when this process does, however that happens.

Runner and executors both start programs of others, and neither imports the other; so this stands by itself. It knows
nothing of the protocol. `tied` puts a lifeline before one program; `lifelines` has a keeper that forks one per run.
"""

import os
import signal
import sys
from collections.abc import Sequence

# No pathlib and no typing here: every keeper imports this package, and they would add half to its start.
_PROGRAM = os.path.join(os.path.dirname(__file__), "program.py")  # noqa: PTH118, PTH120

IS_THERE = sys.platform == "linux"
"""Elsewhere there is no parent-death signal, and whoever is killed leaves its children behind."""

KILL_ALL = signal.SIGUSR1
"""Sent to the lifeline it kills everything below it."""

CANNOT_START = signal.SIGUSR2
"""What a lifeline dies of when its program cannot be started; the reason stands on stderr, behind `COMPLAINT`."""

COMPLAINT = "lifeline: "

Message = int | tuple[str | int | None, ...]
"""What runner, keeper and lifelines say to each other: see `ao_lifeline.keeper`."""

MAX_MESSAGE_BYTES = 16 * 1024


def tied(argv: Sequence[str]) -> list[str]:
    """Return the command line to start instead of `argv`, from this process's main thread.

    SIGTERM to it reaches the program's group. It ends as the program does, and then nothing is left below it. Once
    the program runs, its standard streams are the program's alone.
    """
    if not IS_THERE:
        return list(argv)
    return [sys.executable, "-I", "-S", _PROGRAM, str(os.getpid()), *argv]

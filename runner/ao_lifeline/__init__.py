"""A lifeline for programs: one, and all that it starts, ends when this process does, however that happens.

Runner and executors both start programs of others, and neither imports the other; so this stands by itself. It knows
nothing of the protocol.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_PROGRAM: Final = Path(__file__).with_name("program.py")

IS_THERE: Final = sys.platform == "linux"
"""Elsewhere there is no parent-death signal, and whoever is killed leaves its children behind."""

KILL_ALL: Final = signal.SIGUSR1
"""Sent to the lifeline it kills everything below it."""

CANNOT_START: Final = signal.SIGUSR2
"""What a lifeline dies of when its program cannot be started; the reason stands on stderr, behind `COMPLAINT`."""

COMPLAINT: Final = "lifeline: "


def tied(argv: Sequence[str]) -> list[str]:
    """Return the command line to start instead of `argv`, from this process's main thread.

    SIGTERM to it reaches the program's group. It ends as the program does, and then nothing is left below it. Once
    the program runs, its standard streams are the program's alone.
    """
    if not IS_THERE:
        return list(argv)
    return [sys.executable, "-I", "-S", str(_PROGRAM), str(os.getpid()), *argv]

"""Puts a program on a leash: it, and all that it starts, ends when this process does, however that happens."""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LIFELINE: Final = Path(__file__).with_name("lifeline.py")

IS_LEASHED: Final = sys.platform == "linux"
"""Elsewhere there is no parent-death signal, and a killed executor leaves its children behind."""

KILL_ALL: Final = signal.SIGUSR1
"""Sent to the leash it kills everything below it."""

CANNOT_START: Final = signal.SIGUSR2
"""What a leash dies of when its program cannot be started; the reason stands on stderr."""


def leashed(argv: Sequence[str]) -> list[str]:
    """Return the command line to start instead of `argv`, from this process's main thread.

    SIGTERM to it reaches the program's group. It ends as the program does, and then nothing is left below it.
    """
    if not IS_LEASHED:
        return list(argv)
    return [sys.executable, "-I", "-S", str(_LIFELINE), str(os.getpid()), *argv]

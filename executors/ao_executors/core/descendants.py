"""Sees to it that nothing which the work has started outlives the executor (SPEC 10, AOX-194). Linux only.

It is the net below a clean-up, not the clean-up: what is found here is killed. What a killed executor leaves
behind is the lifeline's business.
"""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Final

from ao_lifeline.program import PR_SET_CHILD_SUBREAPER, descendants_of

_LAST_SECONDS: Final = 2.0
_LOOK_AGAIN_SECONDS: Final = 0.005
_IS_LINUX: Final = sys.platform == "linux"


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that none can slip away."""
    if _IS_LINUX:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants() -> None:
    """Kill and reap every descendant. One that cannot be killed is waited for two seconds and left."""
    deadline = time.monotonic() + _LAST_SECONDS
    while _has_children() and time.monotonic() < deadline:
        for pid in descendants_of(os.getpid()) if _IS_LINUX else ():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_AGAIN_SECONDS)


def _has_children() -> bool:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
        return _IS_LINUX
    return False

"""Everything below this process: stopped, killed, reaped, so that nothing slips away. Linux only.

A process whose parent dies goes to the nearest subreaper above it. So what was started below one stays below it, and
who has no child any more has nothing below.
"""

import ctypes
import os
import signal
from collections.abc import Container

from ao_lifeline.program import PR_SET_CHILD_SUBREAPER, descendants_of

_MAX_ROUNDS = 50

# Loaded once, in the keeper, for all of its forks.
_libc = ctypes.CDLL(None)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wake_on_child() -> int:
    """Return a descriptor that is readable when a child has ended; to be emptied with `os.read`."""
    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def kill_below(spared: Container[int] = ()) -> bool:
    """Kill all that is below this process, and return whether there was anything, be it dead and unreaped.

    All is stopped first, until nobody new shows up: what only gets killed can fork faster than it is found.
    """
    found: set[int] = set()
    for _ in range(_MAX_ROUNDS):
        new = set(descendants_of(os.getpid(), spared)) - found
        if not new:
            break
        _signal(new, signal.SIGSTOP)
        found |= new
    _signal(found, signal.SIGKILL)
    return bool(found)


def reap(statuses: dict[int, int]) -> bool:
    """Reap every child that has ended, note its status by its id, and return whether any child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        statuses[pid] = status


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue

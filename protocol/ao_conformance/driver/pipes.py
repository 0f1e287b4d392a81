"""What the machine tells of a pipe. Where it tells nothing, the answer is the harmless one."""

import array
import fcntl
import os
import sys
import termios


def bytes_waiting(descriptor: int) -> int:
    """Return how many bytes were written and not yet read; 0 where the machine does not tell."""
    waiting = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
    except OSError:
        return 0
    return waiting[0]


def read_some(descriptor: int, size_bytes: int) -> bytes:
    """Return what has come, at most so much; nothing at the end."""
    try:
        return os.read(descriptor, size_bytes)
    except OSError:
        return b""


def shrink(descriptor: int, size_bytes: int) -> None:
    """Let the pipe hold no more than that, where the machine can do it (Linux)."""
    if sys.platform == "linux":
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, size_bytes)

"""Replace this process by a program, and notify another process of its internet sockets (Linux, seccomp).

Usage: `notifying.py DESCRIPTOR PROGRAM …`. The script sends a descriptor for notifications over the socket
DESCRIPTOR. If the kernel cannot notify, it sends none and still starts the program.
"""

import ctypes
import os
import platform
import socket
import sys

PR_SET_NO_NEW_PRIVS = 38
SET_MODE_FILTER = 1
NEW_LISTENER = 8
NUMBERS = {"x86_64": (0xC000003E, 41, 317), "aarch64": (0xC00000B7, 198, 277)}
"""For each architecture: its name in the kernel, and the numbers of `socket` and `seccomp`."""
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ARCHITECTURE, CALL, FAMILY = 4, 0, 16
"""The offsets of these fields in the data that a filter reads."""
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000


class Step(ctypes.Structure):
    """One step of a filter: an operation, how far to jump if it holds and if not, and an operand."""

    _fields_ = (("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint))


class Steps(ctypes.Structure):
    """A filter."""

    _fields_ = (("count", ctypes.c_ushort), ("steps", ctypes.POINTER(Step)))


def listen() -> int:
    """Install a filter that notifies of internet sockets; return its descriptor, negative on failure."""
    if sys.platform != "linux" or platform.machine() not in NUMBERS:
        return -1
    architecture, of_socket, seccomp = NUMBERS[platform.machine()]
    steps = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 0, 6, architecture),
        (LOAD, 0, 0, CALL),
        (EQUAL, 0, 4, of_socket),
        (LOAD, 0, 0, FAMILY),
        (EQUAL, 1, 0, socket.AF_INET),
        (EQUAL, 0, 1, socket.AF_INET6),
        (RETURN, 0, 0, NOTIFY),
        (RETURN, 0, 0, ALLOW),
    ]
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    filtering = Steps(len(steps), (Step * len(steps))(*(Step(*step) for step in steps)))
    return int(libc.syscall(seccomp, SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(filtering)))


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as told:
        if (notes := listen()) >= 0:
            socket.send_fds(told, [b"notes"], [notes])
            os.close(notes)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  # it becomes that program

"""A fork that is born in a cgroup. Linux 5.7 and later.

Moving a process into a cgroup makes the kernel wait for a grace period: 13 ms on the way to a run's first event
(docs/decisions/containment.md). A process that is born there waits for nothing. Python has no call for it.
"""

import ctypes
import os
import signal

_SYS_CLONE3 = 435
_CLONE_INTO_CGROUP = 0x2_0000_0000

# PyDLL keeps the interpreter's lock, so that the child has it, too.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _CloneArguments(ctypes.Structure):
    """`struct clone_args` as of Linux 5.7, see clone(2)."""

    _fields_ = [
        ("flags", ctypes.c_uint64),
        ("what_is_not_used", ctypes.c_uint64 * 3),
        ("exit_signal", ctypes.c_uint64),
        ("nor_here", ctypes.c_uint64 * 5),
        ("cgroup", ctypes.c_uint64),
    ]


def fork_into(leaf: str) -> int:
    """Fork as `os.fork` does, with the child in the leaf. Python is not told: the child has to become a program soon.

    Raises:
        OSError: the leaf is not there, this process may not put anything in, or the system has no such call.
    """
    folder = os.open(leaf, os.O_RDONLY | os.O_DIRECTORY)
    try:
        arguments = _CloneArguments(flags=_CLONE_INTO_CGROUP, exit_signal=signal.SIGCHLD, cgroup=folder)
        pid: int = _libc.syscall(_SYS_CLONE3, ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments)))
    finally:
        os.close(folder)
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), leaf)
    return pid

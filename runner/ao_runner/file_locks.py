"""Locks that the system lets go of when their process ends."""

import fcntl


def is_locked(descriptor: int) -> bool:
    """Tell whether somebody has locked what a descriptor stands for. Others who ask at the same moment are not seen."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def take_lock(descriptor: int) -> bool:
    """Lock what a descriptor stands for, if nobody else has; return whether it is ours. Nobody is waited for."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

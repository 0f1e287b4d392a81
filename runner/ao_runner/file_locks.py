"""Locks that the system lets go of when their process ends."""

import fcntl


def take_lock(descriptor: int) -> bool:
    """Lock what a descriptor stands for, if nobody else has; return whether it is ours. Nobody is waited for."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""How the end of a child is waited for together with other descriptors, without reaping it."""

import os
import select
import sys
from typing import Protocol


class ExitWatch(Protocol):
    """What is readable when a process has ended."""

    def fileno(self) -> int:
        """Return the descriptor."""

    def close(self) -> None:
        """Close it."""


if sys.platform == "darwin":

    def watch_exit(pid: int) -> ExitWatch:
        """Return a kqueue, which is readable itself when the process has ended."""
        queue = select.kqueue()
        ended = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT)
        try:
            queue.control([ended], 0)
        except ProcessLookupError:
            # It ended before it could be watched: a pipe at its end is readable, too.
            queue.close()
            reader, writer = os.pipe()
            os.close(writer)
            return open(reader, "rb", buffering=0)  # noqa: PTH123  # a descriptor; the child closes it
        return queue

else:

    def watch_exit(pid: int) -> ExitWatch:
        """Return the process's descriptor, which is readable when it has ended."""
        return open(os.pidfd_open(pid), "rb", buffering=0)  # noqa: PTH123  # a descriptor; the child closes it

"""Notice that nobody reads an output any more, also while nothing is written.

A process whose parent was killed is not told; but a pipe or Unix socket to that parent has no other end then. Files,
terminals and /dev/null have no reader that could go: a closed terminal sends SIGHUP.
"""

import asyncio
import errno
import os
import select
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def on_reader_gone(descriptors: Iterable[int], gone: Callable[[], None], parent: int | None = None) -> Iterator[None]:
    """Call `gone` once in the event loop when a pipe or socket among the descriptors has no other end any more.

    With `parent`, also when that process ends: a process that it forked could hold the other end open. Only where there
    is epoll, which is on Linux; elsewhere the next write shows it.
    """
    watched = [one for one in descriptors if _can_lose_its_reader(one)]
    if not hasattr(select, "epoll") or not (watched or parent):
        yield
        return
    loop = asyncio.get_running_loop()
    with select.epoll() as watch, ExitStack() as opened:
        for descriptor in watched:
            watch.register(descriptor, select.EPOLLERR | select.EPOLLHUP)  # no data: a socket may be half open
        if parent is not None:
            process = os.pidfd_open(parent)
            opened.callback(os.close, process)
            watch.register(process, select.EPOLLIN)

        def end() -> None:
            loop.remove_reader(watch.fileno())
            gone()

        loop.add_reader(watch.fileno(), end)
        opened.callback(loop.remove_reader, watch.fileno())
        yield


def check_reader(descriptor: int) -> None:
    """Check that an output is read, for a program that has written nothing for a while.

    Raises:
        BrokenPipeError: Its reader is gone.
    """
    if _can_lose_its_reader(descriptor):
        poll = select.poll()
        poll.register(descriptor, 0)  # errors and the end are always told
        if poll.poll(0):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _can_lose_its_reader(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)

"""Notice that nobody reads the output of a run any more, also while the run writes nothing.

A process whose parent was killed is not told; but a pipe or Unix socket to that parent has no other end then. Files,
terminals and /dev/null have no reader that could go: the run of a closed terminal gets SIGHUP.
"""

import asyncio
import errno
import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ao_runner.cli.options import Style
from ao_runner.runs.run_request import StopRequests

LAST_SECONDS: Final = 1.5
"""How long the agent of a run without a reader has to stop before it is killed: nobody waits for its answer."""


class OutputReader:
    """The reader of a run's output: stdout, and stderr where people read the progress there.

    Once it is gone, the agent is asked to stop, and is killed `LAST_SECONDS` later.
    """

    def __init__(self, style: Style, stops: StopRequests) -> None:
        self._stops = stops
        self._is_gone = False
        streams = [sys.stdout, sys.stderr] if style == "people" else [sys.stdout]
        self._descriptors = [number for number in (one.fileno() for one in streams) if _can_lose_its_reader(number)]

    def is_gone(self) -> None:
        """Stop the run, unless that has begun."""
        if self._is_gone:
            return
        self._is_gone = True
        self._stops.request()
        with suppress(RuntimeError):  # the run has ended, and the rest of its output is written
            asyncio.get_running_loop().call_later(LAST_SECONDS, self._stops.request)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notice while the event loop runs that a pipe or socket has no other end. On macOS the next write shows it."""
        if not self._descriptors or not hasattr(select, "epoll"):
            yield
            return
        loop = asyncio.get_running_loop()
        with select.epoll() as watch:
            for descriptor in self._descriptors:
                watch.register(descriptor, select.EPOLLERR | select.EPOLLHUP)  # no data: a socket may be half open

            def end() -> None:
                loop.remove_reader(watch.fileno())
                self.is_gone()

            loop.add_reader(watch.fileno(), end)
            try:
                yield
            finally:
                loop.remove_reader(watch.fileno())


def check_reader() -> None:
    """Check that stdout is read, for a command that has written nothing for a while.

    Raises:
        BrokenPipeError: Its reader is gone.
    """
    if _can_lose_its_reader(sys.stdout.fileno()):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)  # errors and the end are always told
        if poll.poll(0):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _can_lose_its_reader(descriptor: int) -> bool:
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)

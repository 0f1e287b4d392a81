"""The keeper: one process per runner, which forks a lifeline for every run. Linux only.

It is small and has one thread, so a fork of it costs a sixth of a new Python and shares its memory. What it is asked
stands in `messages`. It imports nothing heavy, as the first run of every runner waits for its start.

It goes when the runner has let go of the socket and the last lifeline has ended. A lifeline that was killed hands over
what it held, as a subreaper's children go to the next one above; the keeper kills that.
"""

import gc
import marshal
import os
import select
import signal
import socket

from ao_lifeline import leaf as leaves
from ao_lifeline.descendants import adopt_orphans, kill_below, reap, wake_on_child
from ao_lifeline.lifeline import BLOCKED, hold
from ao_lifeline.messages import DESCRIPTORS, MAX_MESSAGE_BYTES

_LOOK_AGAIN_MILLISECONDS = 20


def main() -> None:
    """Serve the socket that is descriptor 3. All others but the standard ones are closed."""
    _close_all_but(3)
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    adopt_orphans()
    keeper = Keeper(socket.socket(fileno=3))
    gc.collect()
    gc.freeze()
    keeper.serve()


class Keeper:
    """Which lifelines there are, by process id: the number of the run and its leaf."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._woken = wake_on_child()
        self._lifelines: dict[int, tuple[int, str | None]] = {}
        self._has_orphans = False

    def serve(self) -> None:
        """Do what is asked until nobody can ask any more and nothing is left."""
        poll = select.poll()
        poll.register(self._requests, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        is_open = True
        while is_open or self._lifelines or self._has_orphans:
            for fd, _ in poll.poll(_LOOK_AGAIN_MILLISECONDS if self._has_orphans else None):
                if fd == self._woken:
                    os.read(fd, 4096)
                elif not self._take():
                    is_open = False
                    poll.unregister(fd)
            self._reap()
            if self._has_orphans:
                self._has_orphans = kill_below(spared=self._lifelines)

    def _take(self) -> bool:
        """Do one thing that is asked; False when the runner is gone."""
        try:
            message, fds, _, _ = socket.recv_fds(self._requests, MAX_MESSAGE_BYTES, DESCRIPTORS)
        except ConnectionError:
            return False
        if not message:
            return False
        for fd in fds:
            # Python 3.11 ignores the flags of recv_fds, so MSG_CMSG_CLOEXEC would not do it.
            os.set_inheritable(fd, False)
        request = marshal.loads(message)  # noqa: S302  # from the process that started this one
        if request[0] == "cut":
            self._cut(request[1])
        elif len(fds) == DESCRIPTORS:
            self._start(request[1], request[2], fds)
        for fd in fds:
            os.close(fd)
        return True

    def _start(self, number: int, leaf: str | None, fds: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            os.write(fds[3], marshal.dumps(("failed", error.errno, "a process for it")))
            return
        if pid == 0:
            self._requests.close()
            os.close(self._woken)
            hold(fds, leaf)
        self._lifelines[pid] = (number, leaf)
        try:
            self._requests.send(marshal.dumps(number))
        except ConnectionError:
            return  # it is gone, as the next read will tell

    def _cut(self, number: int) -> None:
        for pid, (kept, _) in self._lifelines.items():
            if kept == number:
                os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        statuses: dict[int, int] = {}
        reap(statuses)
        for pid, status in statuses.items():
            _, leaf = self._lifelines.pop(pid, (0, None))
            if status != 0:
                self._has_orphans = True
                if leaf is not None:
                    leaves.kill(leaf)
                    leaves.remove(leaf)


def _close_all_but(kept: int) -> None:
    """Close what the runner had made inheritable."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # pathlib would add to every keeper's start
        if int(name) > 2 and int(name) != kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # the listing's own

"""The keeper, one process per runner, and the lifelines that it forks, one per run. Linux only.

It is small and has one thread, so forking it costs a sixth of a new Python and shares its memory. It imports nothing
heavy, because the first run of every runner waits for its start. It exits when the runner has closed the socket and the
last lifeline has ended. When a lifeline is killed, its children move to the next subreaper above, which is the keeper;
the keeper kills them.

A lifeline holds one program. It ends when its line, a socket to the runner, does; then nothing is left below it.

Their messages are single datagrams in the marshal format, since all three run the same Python:

| from, to | message |
| --- | --- |
| runner to keeper | `("start", number, leaf)` with five descriptors: the program's stdin, stdout and stderr, the lifeline's end of the line, and an anonymous file with the program, which may be large |
| keeper to runner | the number, when there is a lifeline: orders that were lost with their keeper have started nothing |
| runner to keeper | `("cut", number)`: kill that lifeline, which no longer responds |
| runner to lifeline | single bytes, the numbers of signals; SIGKILL means everything below, and so does the end of the line |
| lifeline to runner | one of `("failed", errno, what_failed)` and `("ended", wait_status, was_in_leaf)`, when nothing is left |

The file contains `(argv, environment, cwd, limits)`, all text as bytes, each limit as `(name, number, soft, hard)`.
"""  # noqa: E501  # a table

import ctypes
import gc
import marshal
import os
import resource
import select
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from ao_lifeline import MAX_MESSAGE_BYTES, Message
from ao_lifeline.program import (
    IGNORED_BY_PYTHON,
    PASSED_ON,
    adopt_orphans,
    end_below,
    has_ended,
    kill_below,
    reap,
)
from ao_lifeline.removal import kill_leaf, remove_leaf

_DESCRIPTORS = 5
_LOOK_AGAIN_MILLISECONDS = 20
_SYS_CLONE3 = 435
_CLONE_INTO_CGROUP = 0x2_0000_0000

# PyDLL keeps the interpreter's lock, so that a forked child has it, too. Loaded once, for all forks.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def main() -> None:
    """Serve the socket on descriptor 3. Close all other inherited descriptors except the standard ones."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # pathlib would add to every keeper's start
        if int(name) > 3:
            with suppress(OSError):  # the descriptor of the listing itself
                os.close(int(name))
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    adopt_orphans()
    keeper = Keeper(socket.socket(fileno=3))
    gc.collect()
    gc.freeze()
    keeper.serve()


def _wake_on_child() -> int:
    """Return a descriptor that becomes readable when a child has ended; empty it with `os.read`."""
    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


class Keeper:
    """The lifelines by process id, each with the number of the run and its leaf."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._woken = _wake_on_child()
        self._lifelines: dict[int, tuple[int, str | None]] = {}
        self._has_orphans = False

    def serve(self) -> None:
        """Process requests until the runner has closed the socket and nothing is left."""
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
        """Process one request; return False if the runner is gone."""
        try:
            message, fds, _, _ = socket.recv_fds(self._requests, MAX_MESSAGE_BYTES, _DESCRIPTORS)
        except ConnectionError:
            return False
        if not message:
            return False
        for fd in fds:
            # Python 3.11 ignores the flags of recv_fds, so MSG_CMSG_CLOEXEC has no effect.
            os.set_inheritable(fd, False)
        request = marshal.loads(message)  # noqa: S302  # from the process that started this one
        if request[0] == "cut":
            for pid, (number, _) in self._lifelines.items():
                if number == request[1]:
                    os.kill(pid, signal.SIGKILL)
        elif len(fds) == _DESCRIPTORS:
            self._start(request[1], request[2], fds)
        for fd in fds:
            os.close(fd)
        return True

    def _start(self, number: int, leaf: str | None, fds: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            _say(fds[3], ("failed", error.errno, "a process for it"))
            return
        if pid == 0:
            self._requests.close()
            os.close(self._woken)
            hold(fds, leaf)
        self._lifelines[pid] = (number, leaf)
        with suppress(ConnectionError):  # the runner is gone, as the next read will show
            self._requests.send(marshal.dumps(number))

    def _reap(self) -> None:
        statuses: dict[int, int] = {}
        reap(statuses)
        for pid, status in statuses.items():
            _, leaf = self._lifelines.pop(pid, (0, None))
            if status != 0:
                self._has_orphans = True
                if leaf is not None:
                    kill_leaf(leaf)
                    remove_leaf(leaf)


def hold(fds: list[int], leaf: str | None) -> NoReturn:
    """Act as a lifeline: start a program, wait for its end, end everything below, and exit.

    `fds` are those of the message "start". The leaf is created here and removed at the end; if that fails, the program
    runs without one.
    """
    os.setsid()
    adopt_orphans()
    woken = _wake_on_child()
    line = fds[3]
    try:
        program, leaf = _fork(leaf)
    except OSError as error:
        _say(line, ("failed", error.errno, "a process for it"))
        os._exit(0)
    if program == 0:
        _become(fds)
    _lead_group(program)
    for fd in fds:
        if fd != line:
            os.close(fd)
    _pass_on_signals(program, line, woken)
    if leaf is not None:
        kill_leaf(leaf)
    statuses = end_below()
    if leaf is not None:
        remove_leaf(leaf)
    _say(line, ("ended", statuses.get(program, 0), leaf is not None))
    os._exit(0)


def _fork(leaf: str | None) -> tuple[int, str | None]:
    """Fork into a new leaf, or without one if that is refused; return the child's id and its leaf.

    Moving a process into a cgroup makes the kernel wait for a grace period: 13 ms before a run's first event
    (docs/decisions/containment.md). A process that is created there (clone3, Linux 5.7) does not wait. Python has no
    API for this and does not notice the fork, so the child must soon exec a program.
    """
    if leaf is not None:
        try:
            os.mkdir(leaf)  # noqa: PTH102  # as above
            folder = os.open(leaf, os.O_RDONLY | os.O_DIRECTORY)
            # `struct clone_args` as of Linux 5.7, see clone(2): its flags, exit_signal and cgroup.
            arguments = (ctypes.c_uint64 * 11)(_CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, folder)
            pid: int = _libc.syscall(_SYS_CLONE3, ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments)))
            os.close(folder)
            if pid >= 0:
                return pid, leaf
        except OSError:
            pass  # below
        remove_leaf(leaf)
    return os.fork(), None


def _become(fds: list[int]) -> NoReturn:
    """Exec the program, or report the failure on the line."""
    doing = "what it is"
    try:
        _lead_group(0)
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        argv, environment, cwd, limits = marshal.loads(  # noqa: S302  # written by the runner
            os.pread(fds[4], os.fstat(fds[4]).st_size, 0)
        )
        for stream, fd in enumerate(fds[:3]):
            os.dup2(fd, stream)
        doing = "its working folder"
        os.chdir(cwd)
        for name, number, soft, hard in limits:
            doing = f"its limit {name}"
            resource.setrlimit(number, (soft, hard))
        doing = "the program"
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execvpe(argv[0], argv, environment)  # noqa: S606  # no shell is the point
    except (OSError, ValueError, OverflowError, MemoryError) as error:
        _say(fds[3], ("failed", getattr(error, "errno", None), doing))
    finally:
        os._exit(127)  # as a shell does


def _lead_group(program: int) -> None:
    """Make a process the leader of its group. Both sides do it, as either may be first; the second may be refused."""
    with suppress(PermissionError, ProcessLookupError):
        os.setpgid(program, program)


def _pass_on_signals(program: int, line: int, woken: int) -> None:
    """Return when the program has ended or everything must end. The program is not reaped, so its id is not reused."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while not has_ended(program):
        for fd, _ in poll.poll():
            if fd == woken:
                os.read(woken, 4096)
                continue
            try:
                numbers = os.read(line, 64)
            except ConnectionError:
                return
            if not numbers or signal.SIGKILL in numbers:
                return
            for number in numbers:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(program, number)


def _say(line: int, word: Message) -> None:
    with suppress(ConnectionError):
        os.write(line, marshal.dumps(word))

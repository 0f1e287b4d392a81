"""A lifeline: a fork of the keeper that holds one program. It ends when its line does, and nothing is left below it.

The line is a socket to the runner, whose death is the end of it; what is said on it stands in `messages`.
"""

import marshal
import os
import resource
import select
import signal
from typing import NoReturn

from ao_lifeline import leaf as leaves
from ao_lifeline.clone3 import fork_into
from ao_lifeline.descendants import adopt_orphans, kill_below, reap, wake_on_child
from ao_lifeline.messages import Message

BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Blocked in the keeper and its forks: a service manager sends them to everybody, the runner alone says what follows.

One that comes before there is a program waits for it.
"""

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_LOOK_AGAIN_MILLISECONDS = 20
_NOT_STARTED = 127


def hold(fds: list[int], leaf: str | None) -> NoReturn:
    """Start a program, wait for its end, leave nothing, and exit.

    `fds` are those of the message "start". The leaf is made here, and removed at the end; where that fails, the program
    runs without one.
    """
    os.setsid()
    adopt_orphans()
    woken = wake_on_child()
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
    statuses = _end_all(leaf, woken)
    _say(line, ("ended", statuses.get(program, 0), leaf is not None))
    os._exit(0)


def _fork(leaf: str | None) -> tuple[int, str | None]:
    """Fork into a new leaf, or without one where that is refused; return the child's id and its leaf."""
    if leaf is not None:
        try:
            os.mkdir(leaf)  # noqa: PTH102  # pathlib would add to every keeper's start
            return fork_into(leaf), leaf
        except OSError:
            leaves.remove(leaf)
    return os.fork(), None


def _become(fds: list[int]) -> NoReturn:
    """Become the program, or say on the line why not."""
    doing = "what it is"
    try:
        _lead_group(0)
        for number in _IGNORED_BY_PYTHON:
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
        os._exit(_NOT_STARTED)


def _lead_group(program: int) -> None:
    """Make a process the leader of its group. Both sides do it, as either may be first; the second may be refused."""
    try:
        os.setpgid(program, program)
    except (PermissionError, ProcessLookupError):
        return


def _pass_on_signals(program: int, line: int, woken: int) -> None:
    """Return when the program has ended or everything is to end. The program is not reaped: its id stays its own."""
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while not _has_ended(program):
        for fd, _ in poll.poll():
            if fd == woken:
                os.read(woken, 4096)
                continue
            numbers = _hear(line)
            if not numbers or signal.SIGKILL in numbers:
                return
            for number in numbers:
                _signal_group(program, number)


def _has_ended(program: int) -> bool:
    """Tell whether the program has ended, and reap what else has."""
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG)) is not None:
        if ended.si_pid == program:
            return True
        os.waitpid(ended.si_pid, 0)
    return False


def _end_all(leaf: str | None, woken: int) -> dict[int, int]:
    """Kill until there is no child left, remove the leaf, and return each child's wait status."""
    poll = select.poll()
    poll.register(woken, select.POLLIN)
    statuses: dict[int, int] = {}
    while reap(statuses):
        if leaf is not None:
            leaves.kill(leaf)
        kill_below()
        if poll.poll(_LOOK_AGAIN_MILLISECONDS):
            os.read(woken, 4096)
    if leaf is not None:
        leaves.remove(leaf)
    return statuses


def _hear(line: int) -> bytes:
    try:
        return os.read(line, 64)
    except ConnectionError:
        return b""


def _say(line: int, word: Message) -> None:
    try:
        os.write(line, marshal.dumps(word))
    except ConnectionError:
        return


def _signal_group(program: int, number: int) -> None:
    try:
        os.killpg(program, number)
    except (ProcessLookupError, PermissionError):
        return

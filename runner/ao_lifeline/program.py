"""Runs a program so that neither it nor anything it started outlives its parent. Linux only.

usage: python -I -S program.py PARENT_PID PROGRAM ARGUMENT…

A program survives the death of whoever started it, and its children survive the program (measured with the Claude
CLI: docs/decisions/claude-code.md). This process stands between: the kernel signals it when its parent dies, however
that happens, and orphans below it become its own children, so that none can slip away. Its own session keeps a
SIGKILL that is meant for the parent's group from hitting it as well. It imports nothing of this project.

SIGTERM, SIGINT and SIGHUP go on to the program's process group; SIGUSR1 kills everything below and then this process.
Else it exits as the program did, after nothing is left. SIGUSR2 is its own end when the program cannot be started,
with the reason on stderr.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Container
from types import FrameType

_PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_PARENT_DIED = signal.SIGUSR1
_CANNOT_START = signal.SIGUSR2
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    """Run the program, end what it leaves behind, and exit as it exited."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    signal.signal(_PARENT_DIED, lambda *_: _leave_nothing())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, _PARENT_DIED, 0, 0, 0)
    if os.getsid(0) != os.getpid():
        os.setsid()
    if os.getppid() != parent:
        return
    child = _start(program)
    _let_go_of_streams()
    _wait_for(child)
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_IGN)
    _exit_like(_end_descendants().get(child, 0))


def _start(program: list[str]) -> int:
    """Start the program in a group of its own. A signal that comes meanwhile waits until there is a group to get it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    try:
        child = os.posix_spawn(
            program[0], program, os.environ, setpgroup=0, setsigmask=(), setsigdef=_IGNORED_BY_PYTHON
        )
    except OSError as error:
        sys.stderr.write(f"lifeline: {program[0]} cannot be started: {error.strerror}\n")
        sys.stderr.flush()
        os.kill(os.getpid(), _CANNOT_START)
        raise

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.killpg(child, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    return child


def _let_go_of_streams() -> None:
    """Leave the standard streams to the program, so that whoever reads them learns when it has closed them."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _wait_for(child: int) -> None:
    """Wait until the program has ended. It is not reaped yet: that would free the group's id for somebody else."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if ended is None or ended.si_pid == child:
            return
        os.waitpid(ended.si_pid, 0)


def _leave_nothing() -> None:
    _end_descendants()
    os.kill(os.getpid(), signal.SIGKILL)


def _end_descendants() -> dict[int, int]:
    """Kill and reap until there is no child left, and return each one's status by its id.

    A killed process hands its own children over, for the next round.
    """
    statuses: dict[int, int] = {}
    while True:
        for pid in descendants_of(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return statuses
        statuses[pid] = status


def descendants_of(root: int, spared: Container[int] = ()) -> list[int]:
    """Return the ids of all processes below one, without those that are spared and what is below them."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # pathlib would double this program's start
        if name.isdigit() and (parent := _parent_of(name)):
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        below = [pid for pid in children.get(waiting.pop(), ()) if pid not in spared]
        found += below
        waiting += below
    return found


def _parent_of(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123  # as above
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _exit_like(status: int) -> None:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()

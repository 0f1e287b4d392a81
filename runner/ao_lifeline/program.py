"""Find, stop, kill and reap the descendants of a process. As a program: a lifeline before another one. Linux only.

usage: python -I -S program.py PARENT_PID PROGRAM ARGUMENT…

A process whose parent dies becomes a child of the nearest subreaper above it. So all descendants of a subreaper stay
below it, and a subreaper without children has no descendants.

A program survives the death of its parent, and its children survive the program (measured with the Claude
CLI: docs/decisions/claude-code.md). This process is between them: the kernel signals it when its parent dies, in any
way, and orphans below it become its own children, so that none can escape. Its own session protects it from a SIGKILL
to the parent's group. It imports nothing of this project.

SIGTERM, SIGINT and SIGHUP are passed to the program's process group; SIGUSR1 kills everything below and then this
process. Otherwise it exits as the program did, after all descendants have ended. If the program cannot be started, it
ends itself with SIGUSR2, with the reason on stderr.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Container
from types import FrameType

PR_SET_CHILD_SUBREAPER = 36
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""A service manager sends them to all processes; a lifeline passes them on, or queues them until the start."""
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_PR_SET_PDEATHSIG = 1
_PARENT_DIED = signal.SIGUSR1
_CANNOT_START = signal.SIGUSR2
_MAX_ROUNDS = 50

# Loaded once, in the keeper, for all its forks.
_libc = ctypes.CDLL(None)


def main() -> None:
    """Run the program, end its descendants, and exit as it exited."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    signal.signal(_PARENT_DIED, lambda *_: _leave_nothing())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    adopt_orphans()
    _libc.prctl(_PR_SET_PDEATHSIG, _PARENT_DIED, 0, 0, 0)
    if os.getsid(0) != os.getpid():
        os.setsid()
    if os.getppid() != parent:
        return
    child = _start(program)
    # Only the program holds the standard streams: their reader notices when it has closed them.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    has_ended(child, os.WEXITED)
    for number in PASSED_ON:
        signal.signal(number, signal.SIG_IGN)
    status = end_below().get(child, 0)
    if os.WIFSIGNALED(status):
        its_end = os.WTERMSIG(status)
        signal.signal(its_end, signal.SIG_DFL) if its_end != signal.SIGKILL else None
        os.kill(os.getpid(), its_end)
    os._exit(os.waitstatus_to_exitcode(status))


def _start(program: list[str]) -> int:
    """Start the program in its own group. A signal that arrives meanwhile is blocked until the group exists."""
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    try:
        child = os.posix_spawn(program[0], program, os.environ, setpgroup=0, setsigmask=(), setsigdef=IGNORED_BY_PYTHON)
    except OSError as error:
        sys.stderr.write(f"lifeline: {program[0]} cannot be started: {error.strerror}\n")
        sys.stderr.flush()
        os.kill(os.getpid(), _CANNOT_START)
        raise

    def pass_on(number: int, _frame: FrameType | None) -> None:
        os.killpg(child, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    return child


def _leave_nothing() -> None:
    end_below()
    os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def has_ended(child: int, options: int = os.WEXITED | os.WNOHANG) -> bool:
    """Return whether a child has ended, or wait for that, and reap all other ended children.

    The child itself is not reaped, because that would release the id of its group.
    """
    while (ended := os.waitid(os.P_ALL, 0, options | os.WNOWAIT)) is not None:
        if ended.si_pid == child:
            return True
        os.waitpid(ended.si_pid, 0)
    return False


def end_below() -> dict[int, int]:
    """Kill and reap until no child is left, and return the wait status of each by its id.

    The children of a killed process become children of this one, for the next round.
    """
    statuses: dict[int, int] = {}
    while reap(statuses):
        kill_below()
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    return statuses


def reap(statuses: dict[int, int]) -> bool:
    """Reap every ended child, store its status by its id, and return whether any child is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid == 0:
            return True
        statuses[pid] = status


def kill_below(spared: Container[int] = ()) -> bool:
    """Kill everything below this process, and return whether there was anything, including unreaped processes.

    All processes are stopped first until no new one appears, because they could fork faster than they are found.
    """
    found: set[int] = set()
    for _ in range(_MAX_ROUNDS):
        new = set(descendants_of(os.getpid(), spared)) - found
        if not new:
            break
        _signal(new, signal.SIGSTOP)
        found |= new
    _signal(found, signal.SIGKILL)
    return bool(found)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def descendants_of(root: int, spared: Container[int] = ()) -> list[int]:
    """Return the ids of all descendants of a process, without the spared ones and their descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # pathlib would double this program's start
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123  # as above
                    parent = int(stat.read().rpartition(b")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        below = [pid for pid in children.get(waiting.pop(), ()) if pid not in spared]
        found += below
        waiting += below
    return found


if __name__ == "__main__":
    main()

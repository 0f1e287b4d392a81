"""Runs a program so that neither it nor anything it started outlives its parent. Linux only.

usage: python -I -S lifeline.py PARENT_PID PROGRAM ARGUMENT…

The Claude CLI survives the death of whoever started it, and its Bash children survive the CLI (measured:
docs/decisions/claude-code.md). This process stands between: the kernel signals it when its parent dies, however
that happens, and orphans below it become its own children, so that none can slip away. Its own session keeps a
SIGKILL that is meant for the parent's group from hitting it as well. It imports nothing of this project.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PARENT_DIED = signal.SIGUSR1


def main() -> None:
    """Run the program, end what it leaves behind, and exit as it exited."""
    parent, program = int(sys.argv[1]), sys.argv[2:]
    signal.signal(_PARENT_DIED, lambda *_: _leave_nothing())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, _PARENT_DIED, 0, 0, 0)
    os.setsid()
    if os.getppid() != parent:
        return
    child = os.posix_spawn(program[0], program, os.environ)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    status = _wait_for(child)
    _end_descendants()
    _exit_like(status)


def _wait_for(child: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


def _leave_nothing() -> None:
    _end_descendants()
    os._exit(128 + _PARENT_DIED)


def _end_descendants() -> None:
    """Kill and reap until there is no child left. A killed process hands its own children over, for the next round."""
    while True:
        for pid in _descendants(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # pathlib would double this program's start
        if name.isdigit() and (parent := _parent_of(name)):
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
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

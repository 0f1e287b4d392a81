"""The one door to other programs: each in a process group of its own, and none of them outlives this process."""

import os
import select
import signal
from collections.abc import Mapping

PASSED_ON = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
TERM_SECONDS = 0.3
SUBREAPER = 36


class Program:
    """A program that runs: `exited` is a descriptor that becomes readable when it has ended."""

    def __init__(self, pid: int, stdin: int | None, stdout: int) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self.exited = os.pidfd_open(pid)
        self.exit_code: int | None = None

    def end(self, polite_seconds: float = TERM_SECONDS) -> int:
        """End the program and its group, politely at first, and return its exit code; negative for a signal."""
        if self.exit_code is not None:
            return self.exit_code
        self._signal_group(signal.SIGTERM)
        select.select([self.exited], [], [], polite_seconds)
        return self.reap()

    def reap(self) -> int:
        """Kill what is left of the group, collect the leader and return its exit code."""
        self._signal_group(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.exit_code = os.waitstatus_to_exitcode(status)
        for descriptor in (self.stdin, self.stdout, self.exited):
            if descriptor is not None:
                os.close(descriptor)
        return self.exit_code

    def _signal_group(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return


def start(argv: list[str], environment: Mapping[str, str], *, is_fed: bool = False) -> Program:
    """Start a program in the working directory of this process; its stderr goes with its stdout unless it is fed.

    Raises:
        OSError: it cannot be started.
    """
    _adopt_orphans()
    output, written = os.pipe()
    fed, stdin = os.pipe() if is_fed else (os.open(os.devnull, os.O_RDONLY), None)
    actions = [(os.POSIX_SPAWN_DUP2, fed, 0), (os.POSIX_SPAWN_DUP2, written, 1)]
    actions.append((os.POSIX_SPAWN_DUP2, 2 if is_fed else written, 2))
    try:
        pid = os.posix_spawnp(
            argv[0], argv, dict(environment), file_actions=actions, setpgroup=0, setsigdef=[signal.SIGPIPE]
        )
    except OSError:
        for descriptor in (output, stdin):
            if descriptor is not None:
                os.close(descriptor)
        raise
    finally:
        os.close(written)
        os.close(fed)
    os.set_blocking(output, False)
    return Program(pid, stdin, output)


def bare_environment() -> dict[str, str]:
    """Return what every program is given: no secret is among it."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def end_strays() -> None:
    """Kill whatever still descends from this process."""
    while _has_children():
        children = _children()
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        for pid in children:
            os.waitpid(pid, 0)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _children() -> list[int]:
    from pathlib import Path

    listed = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]
    return [int(pid) for pid in " ".join(listed).split()]


def _adopt_orphans() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)

"""The one door to processes: a child in its own group, spoken to without ever blocking.

It knows bytes, descriptors and signals. What they mean, and when to stop, is decided elsewhere.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from ao_lifeline.lifelines import Lifelines, Line, Program, ProgramNotStarted
from ao_runner.processes.containment import Kind, limits_of
from ao_runner.processes.exit_watch import watch_exit
from ao_runner.processes.stdin_writer import StdinWriter

READ_BYTES: Final = 256 * 1024
_SET_PIPE_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", -1)
REAP_SECONDS: Final = 2.0
"""How long the end of a `with` block waits for a process that was killed."""


class Child:
    """A started process with a process group of its own.

    A `with` block owns it: at its end the group is killed, the process reaped, every descriptor closed.
    All descriptors are non-blocking; `exit_fd` becomes readable when the process has ended or could not be started,
    and its group can be signalled until `reap`.

    On a lifeline it is tied to this process: whatever it starts, in whichever session, has ended when `exit_fd` is
    readable, and also when this process is killed. Nobody waits here for its start, so `reap` tells of one that
    failed; `pid` is None. `limits` go by the names in `containment.LIMITS`.

    Else only the group is ended, and there are no limits.

    Raises:
        OSError: the program could not be started, or there were no descriptors for it.
        KeyError: a limit of an unknown name.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path | None = None,
        *,
        lifeline: Lifelines | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        with contextlib.ExitStack() as opened:
            stdin, stdout, stderr = (_Pipe(opened) for _ in range(3))
            theirs = (stdin.reader.fileno(), stdout.writer.fileno(), stderr.writer.fileno())
            self._process: Line | _Group
            if lifeline is None:
                self._process = _Group(argv, environment, cwd, theirs)
            else:
                program = Program(argv, environment, cwd, limits_of(limits or {}))
                self._process = lifeline.tie(program, theirs)
            opened.pop_all()
        for stream in (stdin.reader, stdout.writer, stderr.writer):
            stream.close()
        self._ours = (stdin.writer, stdout.reader, stderr.reader)
        for stream in self._ours:
            os.set_blocking(stream.fileno(), False)
        with contextlib.suppress(OSError):  # one user may have only so much in pipes
            # Where it succeeds, a flood is read in larger pieces.
            fcntl.fcntl(self._ours[1], _SET_PIPE_SIZE, READ_BYTES)
        self.stdin = StdinWriter(stdin.writer)
        self.stdout_fd = stdout.reader.fileno()
        self.stderr_fd = stderr.reader.fileno()
        self.exit_fd = self._process.fd
        self.is_tied = lifeline is not None
        self.pid = self._process.pid

    @property
    def containment(self) -> Kind:
        """What has held the process; after `reap` it says whether there was a cgroup for it."""
        if self._process.was_in_leaf:
            return "cgroup"
        return "lifeline" if self.is_tied else "process_group"

    @property
    def exit_code(self) -> int | None:
        """The exit code once the process is reaped; negative for the signal that ended it."""
        return self._process.exit_code

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to every process of the group; on a lifeline SIGKILL reaches all that it has started.

        After `reap` it is not sent, as the id may be another's.
        """
        self._process.signal(number)

    def reap(self, timeout_seconds: float = 0.0) -> int | None:
        """Collect the exit code of a process that has ended; None when it has not within the time.

        Raises:
            ProgramNotStarted: it never was a process; only on lifelines, and once.
        """
        return self._process.reap(timeout_seconds)

    def cut(self) -> None:
        """End it without its help: it was killed and did not end, because what would tell so is stopped or hangs."""
        self._process.cut()

    def close(self) -> None:
        """Kill what is left of the group, reap, and close every descriptor."""
        self._process.signal(signal.SIGKILL)
        for stream in self._ours:
            stream.close()
        with contextlib.suppress(ProgramNotStarted):
            if self._process.reap(REAP_SECONDS) is None:
                # The lifeline itself was stopped or hangs.
                self._process.cut()
                self._process.reap(REAP_SECONDS)
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Pipe:
    """Both ends of a pipe, closed with the stack."""

    def __init__(self, opened: contextlib.ExitStack) -> None:
        reader, writer = os.pipe()
        self.reader: IO[bytes] = opened.enter_context(os.fdopen(reader, "rb", buffering=0))
        self.writer: IO[bytes] = opened.enter_context(os.fdopen(writer, "wb", buffering=0))


class _Group:
    """A process that this one has started itself, in a session and group of its own."""

    was_in_leaf = False

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path | None,
        streams: tuple[int, int, int],
    ) -> None:
        stdin, stdout, stderr = streams
        self._popen = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=environment,
            cwd=cwd,
            # A session of its own: Ctrl-C at the terminal reaches the runner alone, which then asks the executor.
            start_new_session=True,
        )
        self.pid = self._popen.pid
        try:
            self._exit_watch = watch_exit(self.pid)
        except OSError:
            self.cut()
            self.reap(REAP_SECONDS)
            raise
        self.fd = self._exit_watch.fileno()

    @property
    def exit_code(self) -> int | None:
        return self._popen.returncode

    def signal(self, number: signal.Signals) -> None:
        if self._popen.returncode is not None:
            return
        # No such process: all are gone. No permission: macOS says so of a dead leader, Linux of a changed user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def reap(self, timeout_seconds: float) -> int | None:
        try:
            return self._popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def cut(self) -> None:
        self._popen.kill()

    def close(self) -> None:
        self._exit_watch.close()


def read_available(fd: int) -> bytes | None:
    """Return what can be read now; empty at the end of the stream, None when there is nothing yet."""
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:
        return None


class Tail:
    """Keeps the end of a stream, in bounded memory."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.total_bytes = 0
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self.total_bytes += len(chunk)
        self._kept += chunk
        if len(self._kept) > 2 * self.max_bytes:
            del self._kept[: -self.max_bytes]

    def kept(self) -> bytes:
        """Return the end of the stream as it came."""
        return bytes(self._kept[-self.max_bytes :])

    def text(self, conceal: Callable[[bytes], bytes] = bytes, longest_bytes: int = 0) -> str:
        """Return the end of the stream. Where bytes were dropped it begins at a line, so no word is cut in two.

        `conceal` takes out what nobody may see, which has at most `longest_bytes`, and may begin before what is kept.
        """
        kept = self.kept()
        was_cut = self.total_bytes > len(kept)
        shown = conceal(kept)
        if was_cut:
            shown = shown[longest_bytes:]
            shown = shown[shown.find(b"\n") + 1 :]
        return shown.decode(errors="replace")


def first_line_of(argv: Sequence[str], environment: Mapping[str, str], timeout_seconds: float) -> str | None:
    """Return the first line that a well-known program prints, stripped; None when it prints none or fails."""
    try:
        shown = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    lines = shown.stdout.strip().splitlines()
    return lines[0] if shown.returncode == 0 and lines else None

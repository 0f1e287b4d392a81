"""The one door to processes: a child in its own group, spoken to without ever blocking.

It knows bytes, descriptors and signals. What they mean, and when to stop, is decided elsewhere.
"""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Protocol, Self

from ao_lifeline.lifelines import Lifelines, Line, Program, ProgramNotStarted
from ao_runner.processes.containment import Kind, limits_of

READ_BYTES: Final = 256 * 1024
NOTHING: Final = memoryview(b"")
STDERR_TAIL_BYTES: Final = 64 * 1024
"""So much of the end of a run's stderr is kept."""
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

    def __exit__(self, *_: object) -> None:
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
        self, argv: Sequence[str], environment: Mapping[str, str], cwd: Path | None, streams: tuple[int, int, int]
    ) -> None:
        stdin, stdout, stderr = streams
        # A session of its own: Ctrl-C at the terminal reaches the runner alone, which then asks the executor.
        self._popen = subprocess.Popen(
            argv, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, cwd=cwd, start_new_session=True
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
        shown = conceal(kept)
        if self.total_bytes > len(kept):
            shown = shown[longest_bytes:]
            shown = shown[shown.find(b"\n") + 1 :]
        return shown.decode(errors="replace")


def first_line_of(argv: Sequence[str], environment: Mapping[str, str], timeout_seconds: float) -> str | None:
    """Return the first line that a well-known program prints, stripped; None when it prints none or fails."""
    try:
        shown = subprocess.run(
            argv, env=environment, input="", capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    lines = shown.stdout.strip().splitlines()
    return lines[0] if shown.returncode == 0 and lines else None


class StdinWriter:
    """Writes as much as the pipe takes and keeps the rest, so that a child that never reads blocks nobody."""

    __slots__ = ("_pending", "_stream", "fd", "was_left_unread")

    def __init__(self, stream: IO[bytes]) -> None:
        self.fd = stream.fileno()
        self._stream = stream
        self._pending = NOTHING
        self.was_left_unread = False
        """Whether the child had not read all of it when it was closed. False where the system does not tell."""

    @property
    def is_open(self) -> bool:
        """False once the pipe is closed, from whichever side."""
        return not self._stream.closed

    @property
    def wants_to_write(self) -> bool:
        """True while there is something that the pipe has not taken yet."""
        return self.is_open and bool(self._pending)

    def send(self, data: bytes) -> None:
        """Queue bytes and write what the pipe takes now. After the close, bytes are dropped."""
        if self.is_open:
            self._pending = memoryview(b"".join((self._pending, data)) if self._pending else data)
            self.write_pending()

    def write_pending(self) -> None:
        """Go on writing. A child that closed its stdin closes this end, too."""
        while self.wants_to_write:
            try:
                written = os.write(self.fd, self._pending)
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.close()
                return
            self._pending = self._pending[written:] or NOTHING

    def close(self) -> None:
        """Close the pipe; what was not written yet is dropped."""
        if self.is_open:
            self.was_left_unread = bool(self._pending) or self._holds_bytes()
            self._pending = NOTHING
            self._stream.close()

    def _holds_bytes(self) -> bool:
        try:
            return any(fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4)))
        except OSError:
            return False


class ExitWatch(Protocol):
    """What is readable when a process has ended."""

    def fileno(self) -> int:
        """Return the descriptor."""

    def close(self) -> None:
        """Close it."""


if sys.platform == "darwin":

    def watch_exit(pid: int) -> ExitWatch:
        """Return a kqueue, which is readable itself when the process has ended."""
        queue = select.kqueue()
        ended = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT)
        try:
            queue.control([ended], 0)
        except ProcessLookupError:
            # It ended before it could be watched: a pipe at its end is readable, too.
            queue.close()
            reader, writer = os.pipe()
            os.close(writer)
            return open(reader, "rb", buffering=0)  # noqa: PTH123  # a descriptor; the child closes it
        return queue

else:

    def watch_exit(pid: int) -> ExitWatch:
        """Return the process's descriptor, which is readable when it has ended."""
        return open(os.pidfd_open(pid), "rb", buffering=0)  # noqa: PTH123  # a descriptor; the child closes it

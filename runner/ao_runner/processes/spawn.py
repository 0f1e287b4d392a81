"""The only module that starts child processes: each gets its own group, and communication never blocks.

It handles bytes, descriptors and signals. Other modules interpret them and decide when to stop a process.
"""

import contextlib
import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol, Self

from ao_lifeline.lifelines import Lifelines, Line, Program, ProgramNotStarted
from ao_runner.processes.containment import Kind, limits_of

READ_BYTES: Final = 256 * 1024
NOTHING: Final = memoryview(b"")
STDERR_TAIL_BYTES: Final = 64 * 1024
"""Number of bytes to keep from the end of a run's stderr."""
_SET_PIPE_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", -1)
REAP_SECONDS: Final = 2.0
"""How long the end of a `with` block waits for a killed process."""


class Child:
    """A started process with its own process group.

    A `with` block owns it: at its end the group is killed, the process reaped, every descriptor closed.
    All descriptors are non-blocking; `exit_fd` becomes readable when the process has ended or could not be started,
    and its group can be signalled until `reap`.

    On a lifeline it is tied to this process: when `exit_fd` is readable, or after this process was killed, all its
    descendants in any session have ended. The constructor does not wait for the start, so `reap` reports a failed one;
    `pid` is None. `limits` uses the names in `containment.LIMITS`.

    Without a lifeline only the group is ended, and limits are not applied.

    Raises:
        OSError: The program could not be started, or no descriptors were available.
        KeyError: A limit has an unknown name.
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
        with contextlib.suppress(OSError):  # the system limits the pipe memory of a user
            # A larger pipe allows larger reads.
            fcntl.fcntl(self._ours[1], _SET_PIPE_SIZE, READ_BYTES)
        self.stdin = StdinWriter(stdin.writer)
        self.stdout_fd = stdout.reader.fileno()
        self.stderr_fd = stderr.reader.fileno()
        self.exit_fd = self._process.fd
        self.is_tied = lifeline is not None
        self.pid = self._process.pid

    @property
    def containment(self) -> Kind:
        """What contains the process; only after `reap` it is known whether it had a cgroup."""
        if self._process.was_in_leaf:
            return "cgroup"
        return "lifeline" if self.is_tied else "process_group"

    @property
    def exit_code(self) -> int | None:
        """The exit code of the reaped process; negative for the signal that ended it."""
        return self._process.exit_code

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to every process of the group; on a lifeline SIGKILL reaches all descendants.

        After `reap` nothing is sent, because the id may have been reused.
        """
        self._process.signal(number)

    def reap(self, timeout_seconds: float = 0.0) -> int | None:
        """Return the exit code of an ended process, or None if it has not ended within the timeout.

        Raises:
            ProgramNotStarted: The process was never started; only on lifelines, and once.
        """
        return self._process.reap(timeout_seconds)

    def cut(self) -> None:
        """End a killed process that did not end, because the process that would report its end is stopped or hangs."""
        self._process.cut()

    def close(self) -> None:
        """Kill the rest of the group, reap the process and close every descriptor."""
        self._process.signal(signal.SIGKILL)
        for stream in self._ours:
            stream.close()
        with contextlib.suppress(ProgramNotStarted):
            if self._process.reap(REAP_SECONDS) is None:
                # The lifeline itself is stopped or hangs.
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
    """A direct child of this process, in its own session and group."""

    was_in_leaf = False

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], cwd: Path | None, streams: tuple[int, int, int]
    ) -> None:
        stdin, stdout, stderr = streams
        # With its own session, Ctrl-C at the terminal only reaches the runner, which then asks the executor.
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
        # No such process: all have ended. No permission: a dead leader on macOS, a changed user on Linux.
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
    """Return the available bytes; empty at the end of the stream, None if there are none yet."""
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:
        return None


class Tail:
    """Keeps the end of a stream in bounded memory."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.total_bytes = 0
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Append the next bytes."""
        self.total_bytes += len(chunk)
        self._kept += chunk
        if len(self._kept) > 2 * self.max_bytes:
            del self._kept[: -self.max_bytes]

    def kept(self) -> bytes:
        """Return the end of the stream, unmodified."""
        return bytes(self._kept[-self.max_bytes :])

    def text(self, conceal: Callable[[bytes], bytes] = bytes, longest_bytes: int = 0) -> str:
        """Return the end of the stream. If bytes were dropped it begins at a line, so that no word is cut in two.

        `conceal` removes secrets of at most `longest_bytes`, which may begin before the part that was kept.
        """
        kept = self.kept()
        shown = conceal(kept)
        if self.total_bytes > len(kept):
            shown = shown[longest_bytes:]
            shown = shown[shown.find(b"\n") + 1 :]
        return shown.decode(errors="replace")


class Output(NamedTuple):
    """The exit code and the output of a program that has ended."""

    exit_code: int
    stdout: str
    stderr: str


def search_path(environ: Mapping[str, str], *distrusted: str) -> str:
    """Return the PATH of an environment without relative entries and without those in the `distrusted` folders.

    An agent that works in the current folder, or in a distrusted one, could put a program there.
    """
    folders = {path for folder in distrusted for path in _both(folder) if path != Path("/")}
    trusted = []
    for entry in environ.get("PATH", os.defpath).split(os.pathsep):
        around = {above for path in _both(entry) for above in (path, *path.parents)}
        if Path(entry).is_absolute() and folders.isdisjoint(around):
            trusted.append(entry)
    return os.pathsep.join(trusted) or os.devnull  # an empty PATH is the current folder


def _both(folder: str) -> tuple[Path, Path]:
    """Return the path of a folder as it is written and without links."""
    return Path(folder), Path(os.path.realpath(folder))


def filled_in(command: Sequence[str], places: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command of a sandbox with its places, such as `{tmp}`, filled in."""
    return tuple(re.sub(r"\{[a-z_]+\}", lambda found: places[found[0]], part) for part in command)


def run_to_end(
    argv: Sequence[str],
    environment: Mapping[str, str],
    timeout_seconds: float,
    *,
    cwd: Path | str | None = None,
    stdin: Path | None = None,
    errors: str = "replace",
) -> Output:
    """Run a well-known program in a group of its own, and wait for its end. Its stdin is a file, or empty.

    `errors` says how bytes of its stdout that are not UTF-8 are decoded.

    Raises:
        OSError: It could not be started.
        TimeoutError: It did not end in time, and its group was killed.
    """
    with (
        Path(stdin or os.devnull).open("rb") as given,
        subprocess.Popen(
            argv, env=environment, cwd=cwd, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
        ) as process,
    ):
        try:
            stdout, stderr = process.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise TimeoutError(f"{argv[0]} did not end within {timeout_seconds:g} s") from None
    return Output(process.returncode, stdout.decode(errors=errors), stderr.decode(errors="replace"))


def first_line_of(argv: Sequence[str], environment: Mapping[str, str], timeout_seconds: float) -> str | None:
    """Return the first line that a well-known program prints, stripped; None if it prints none or fails."""
    try:
        shown = run_to_end(argv, environment, timeout_seconds)
    except OSError:
        return None
    lines = shown.stdout.strip().splitlines()
    return lines[0] if shown.exit_code == 0 and lines else None


class StdinWriter:
    """Writes as much as the pipe accepts and keeps the rest, so that a child that never reads blocks nothing."""

    __slots__ = ("_pending", "_stream", "fd", "was_left_unread")

    def __init__(self, stream: IO[bytes]) -> None:
        self.fd = stream.fileno()
        self._stream = stream
        self._pending = NOTHING
        self.was_left_unread = False
        """Whether unread bytes remained at the close. False if the system does not report it."""

    @property
    def is_open(self) -> bool:
        """False once either side has closed the pipe."""
        return not self._stream.closed

    @property
    def wants_to_write(self) -> bool:
        """Whether there are bytes that the pipe has not accepted yet."""
        return self.is_open and bool(self._pending)

    def send(self, data: bytes) -> None:
        """Queue bytes and write as many as possible now. After the close, bytes are dropped."""
        if self.is_open:
            self._pending = memoryview(b"".join((self._pending, data)) if self._pending else data)
            self.write_pending()

    def write_pending(self) -> None:
        """Continue writing. If the child has closed its stdin, close this end, too."""
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
        """Close the pipe and drop unwritten bytes."""
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
    """An object that becomes readable when a process has ended."""

    def fileno(self) -> int:
        """Return the descriptor."""

    def close(self) -> None:
        """Close it."""


if sys.platform == "darwin":

    def watch_exit(pid: int) -> ExitWatch:
        """Return a kqueue, which becomes readable when the process has ended."""
        queue = select.kqueue()
        ended = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD | select.KQ_EV_ONESHOT, select.KQ_NOTE_EXIT)
        try:
            queue.control([ended], 0)
        except ProcessLookupError:
            # It ended before it could be watched: a pipe at its end is also readable.
            queue.close()
            reader, writer = os.pipe()
            os.close(writer)
            return open(reader, "rb", buffering=0)  # noqa: PTH123  # a descriptor; the child closes it
        return queue

else:

    def watch_exit(pid: int) -> ExitWatch:
        """Return the pidfd of the process, which becomes readable when it has ended."""
        return open(os.pidfd_open(pid), "rb", buffering=0)  # noqa: PTH123  # a descriptor; the child closes it

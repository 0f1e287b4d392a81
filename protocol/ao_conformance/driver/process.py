"""One process under test, in its own process group, with all its output recorded.

Threads read stdout and stderr from the first byte, so that the process cannot block the suite. Every wait has a
limit.
"""

import array
import contextlib
import errno
import fcntl
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Literal, Self

import ao_conformance
import ao_lifeline
from ao_conformance.driver.holding import BOOT
from ao_conformance.driver.leftovers import cpu_seconds_of, group_of, living_below
from ao_conformance.driver.transcript import OutputLine, Transcript, exit_text

MOST_LINES: Final = 100_000
MOST_BYTES: Final = 64 * 1024 * 1024
"""A play needs less output. If a process writes more, the suite ends it, which bounds the suite's time and memory."""
READ_BYTES: Final = 65_536
KILL_SECONDS: Final = 5.0
IMPORT_PATHS: Final = [str(Path(package.__file__ or "").parents[1]) for package in (ao_conformance, ao_lifeline)]
"""Where the program that holds a process finds its modules."""
DRAIN_SECONDS: Final = 5.0
"""How long a piece may stay in the pipe before the next piece is written anyway."""
SLOW_BYTES: Final = 4_096
SLOW_PAUSE_SECONDS: Final = 0.02
SLOW_FOR_SECONDS: Final = 1.5
STDERR_KEPT_BYTES: Final = 1_000_000


Stdin = Literal["pipe", "closed", "terminal", "file"]


@dataclass(frozen=True, slots=True)
class Start:
    """The parameters of the start of a process."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    stdin: Stdin = "pipe"
    stdin_file: Path | None = None
    reads_slowly: bool = False
    inherited: tuple[int, ...] = ()
    """Descriptors that the process inherits, beside the usual three."""


def read_some(descriptor: int, size_bytes: int) -> bytes:
    """Return the next bytes, at most `size_bytes`; empty at the end."""
    try:
        return os.read(descriptor, size_bytes)
    except OSError:
        return b""


def bytes_in(pipe: IO[bytes]) -> bool:
    """Return whether bytes are in a pipe that nobody has read."""
    waiting = array.array("i", [0])
    fcntl.ioctl(pipe.fileno(), termios.FIONREAD, waiting)
    return bool(waiting[0])


@dataclass(slots=True)
class Collected:
    """The output so far, and when its parts ended. Several threads write it, under the lock of the transcript."""

    stdout: list[OutputLine] = field(default_factory=list)
    unfinished: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)
    stdout_ended: float | None = None
    stderr_ended: float | None = None
    exited: float | None = None
    _stdout_bytes: int = 0

    @property
    def has_flooded(self) -> bool:
        """Whether the output on stdout exceeds the limits."""
        return len(self.stdout) > MOST_LINES or self._stdout_bytes > MOST_BYTES

    def take(self, chunk: bytes, seconds: float) -> list[OutputLine]:
        """Add a chunk of stdout, and return the lines that it completes."""
        self._stdout_bytes += len(chunk)
        *whole, rest = chunk.split(b"\n")
        lines: list[OutputLine] = []
        for piece in whole:
            raw = bytes(self.unfinished) + piece + b"\n"
            self.unfinished.clear()
            lines.append(OutputLine(len(self.stdout) + len(lines) + 1, seconds, raw))
        self.stdout += lines
        self.unfinished += rest
        return lines


class Process:
    """A started process, for the duration of a `with` block; none of its descendants is alive after the block.

    On Linux another process holds it (`ao_conformance.driver.holding`), which ends all of them also if this process is
    killed.
    """

    def __init__(self, start: Start, transcript: Transcript, number: int = 0) -> None:
        """Start the process.

        Raises:
            OSError: The machine cannot start it.
        """
        self.transcript = transcript
        self.number = number
        self._got = Collected()
        self._line: socket.socket | None = None
        self._code: int | None = None
        self.used_seconds: float | None = None
        """The CPU seconds of the process and of the children that it waited for, once it has exited."""
        self._terminal: int | None = None
        self._reads = True
        self._process, self.pid = self._spawn(start)
        self.started_at = transcript.seconds()
        """When the process was started, in seconds of the play."""
        self._stdin: IO[bytes] | None = self._process.stdin
        if self._stdin is not None:
            os.set_blocking(self._stdin.fileno(), False)
        stdout, stderr = self._process.stdout, self._process.stderr
        if stdout is None or stderr is None:
            raise RuntimeError("stdout and stderr are pipes")
        self._stdout = stdout
        if start.reads_slowly and sys.platform == "linux":  # other systems cannot shrink the pipe
            fcntl.fcntl(stdout.fileno(), fcntl.F_SETPIPE_SZ, SLOW_BYTES)
        self._threads = [
            threading.Thread(target=self._read_stdout, args=(stdout, start.reads_slowly), daemon=True),
            threading.Thread(target=self._read_stderr, args=(stderr,), daemon=True),
            threading.Thread(target=self._watch_exit, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _spawn(self, start: Start) -> "tuple[subprocess.Popen[bytes], int]":
        stdin: int | IO[bytes] = subprocess.PIPE
        with contextlib.ExitStack() as opened:
            if start.stdin == "closed":
                stdin = subprocess.DEVNULL
            elif start.stdin == "file" and start.stdin_file is not None:
                stdin = opened.enter_context(start.stdin_file.open("rb"))
            elif start.stdin == "terminal":
                self._terminal, stdin = pty.openpty()
                opened.callback(os.close, stdin)
            self.transcript.note("start", " ".join(start.argv), self.number)
            argv, inherited = list(start.argv), start.inherited
            if sys.platform == "linux":
                self._line, theirs = socket.socketpair()
                self._told = self._line.makefile("rb")
                opened.enter_context(theirs)
                inherited = (*inherited, theirs.fileno())
                argv = [sys.executable, "-I", "-S", "-c", BOOT, *IMPORT_PATHS, str(theirs.fileno()), *argv]
            try:
                process = subprocess.Popen(
                    argv,
                    bufsize=0,
                    cwd=start.folder,
                    env=start.environment,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    pass_fds=inherited,
                )
                opened.close()
                pid = process.pid if self._line is None else int(self._told.readline() or -errno.ECHILD)
                if pid < 0:
                    with process:
                        raise OSError(-pid, os.strerror(-pid), start.argv[0])
            except OSError:
                self._close_terminal()
                if self._line is not None:
                    self._told.close()
                    self._line.close()
                raise
            return process, pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def lines(self) -> list[OutputLine]:
        """The complete lines of stdout so far."""
        with self.transcript.changed:
            return list(self._got.stdout)

    @property
    def last_line(self) -> bytes:
        """The last complete line of stdout so far; empty if there is none."""
        return self._got.stdout[-1].raw if self._got.stdout else b""

    @property
    def has_flooded(self) -> bool:
        """Whether the process wrote more than the limits; nothing more is read then."""
        return self._got.has_flooded

    @property
    def unfinished_line(self) -> bytes:
        """The bytes of stdout after the last line end."""
        with self.transcript.changed:
            return bytes(self._got.unfinished)

    @property
    def stderr(self) -> bytes:
        """The stderr output, at most the last megabyte."""
        with self.transcript.changed:
            return bytes(self._got.stderr)

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while the process runs."""
        return None if self._got.exited is None else self._code

    @property
    def exited_at(self) -> float | None:
        """When the exit was noticed, in seconds of the play; None before."""
        return self._got.exited

    @property
    def stdout_ended_at(self) -> float | None:
        """When stdout reached its end, in seconds of the play; None before."""
        return self._got.stdout_ended

    def write(self, data: bytes, within_seconds: float = 30.0) -> bool:
        """Write to stdin; return whether the process took all of it. A process that has exited takes nothing."""
        return self._write(data, time.monotonic() + within_seconds)

    def write_in_pieces(self, pieces: Iterable[bytes], within_seconds: float = 30.0) -> bool:
        """Write each piece when the process has read the one before it; return whether all were taken."""
        deadline = time.monotonic() + within_seconds
        for piece in pieces:
            if not self._write(piece, deadline):
                return False
            self._wait_until_taken(min(deadline, time.monotonic() + DRAIN_SECONDS))
        return True

    def close_stdin(self) -> None:
        """Close stdin, so that the process reads its end."""
        if self._stdin is not None:
            self.transcript.note("stdin", "(closed)", self.number)
            with contextlib.suppress(OSError):
                self._stdin.close()
            self._stdin = None
        self._close_terminal()

    def stop_reading(self) -> None:
        """Close stdout on this side after its next chunk; later writes of the process fail."""
        self.transcript.note("note", "(nobody reads stdout any more)", self.number)
        self._reads = False

    def signal(self, number: signal.Signals, *, to_group: bool = False) -> None:
        """Send a signal to the process alone, or to its group as a runner does, if the process is alive."""
        self.transcript.note("signal", f"{number.name}{' to its group' if to_group else ''}", self.number)
        if self._got.exited is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if to_group else os.kill)(self.pid, number)

    def wait_for(self, holds: Callable[[], bool], until_seconds: float) -> bool:
        """Wait until `holds` is true, the process is over, or the play is `until_seconds` old; return `holds()`."""
        self.transcript.wait_for(lambda: holds() or self.is_over, until_seconds)
        return holds()

    def pause(self, seconds: float) -> None:
        """Wait for some seconds, or until the process is over."""
        self.wait_for(lambda: False, self.transcript.seconds() + seconds)

    @property
    def is_over(self) -> bool:
        """Whether the process has exited and its pipes have ended."""
        return None not in {self._got.exited, self._got.stdout_ended, self._got.stderr_ended}

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds of the process and its descendants; None if the machine does not report them."""
        used = [seconds for pid in self.family() if (seconds := cpu_seconds_of(pid)) is not None]
        return sum(used) if used else None

    def family(self) -> list[int]:
        """Return the ids of the process and its descendants; on macOS only the first."""
        return living_below(self._process.pid) if self._line else group_of(self.pid)

    def kill(self) -> None:
        """Kill the process and its descendants, and wait until they have ended."""
        with contextlib.suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
            if self._line is not None:
                self._line.shutdown(socket.SHUT_WR)
            else:
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait(KILL_SECONDS)

    def end(self) -> None:
        """End the process and its descendants."""
        self.close_stdin()
        self.kill()
        deadline = time.monotonic() + KILL_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._line is not None:
            self._told.close()
            self._line.close()

    def _close_terminal(self) -> None:
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None

    def _write(self, data: bytes, deadline: float) -> bool:
        self.transcript.note("stdin", data, self.number)
        view = memoryview(data)
        while view and self._stdin is not None:
            left = deadline - time.monotonic()
            if left <= 0 or self._got.exited is not None:
                return False
            _, writable, _ = select.select([], [self._stdin], [], min(left, 0.25))
            if not writable:
                continue
            try:
                view = view[os.write(self._stdin.fileno(), view) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return not view

    def _wait_until_taken(self, deadline: float) -> None:
        while self._stdin is not None and self._got.exited is None and time.monotonic() < deadline:
            waiting = False
            with contextlib.suppress(OSError):  # without an answer, assume that nothing waits
                waiting = bytes_in(self._stdin)
            if not waiting:
                return
            time.sleep(0.0002)

    def _read_stdout(self, pipe: IO[bytes], slowly: bool) -> None:
        if slowly:
            time.sleep(SLOW_FOR_SECONDS)
        slow_until = time.monotonic() + SLOW_FOR_SECONDS
        with pipe:
            while self._take(pipe.fileno(), SLOW_BYTES if slowly else READ_BYTES):
                if not self._reads or self.has_flooded:
                    break
                if slowly and time.monotonic() < slow_until:
                    time.sleep(SLOW_PAUSE_SECONDS)
        with self._noted():
            self._got.stdout_ended = self.transcript.seconds()

    def _take(self, descriptor: int, size_bytes: int) -> bool:
        """Read and note the next bytes of stdout in one step; return False at its end."""
        select.select([descriptor], [], [])
        with self._noted():
            chunk = read_some(descriptor, size_bytes)
            for line in self._got.take(chunk, self.transcript.seconds()):
                self.transcript.note("stdout", line.raw.removesuffix(b"\n"), self.number)
        return bool(chunk)

    def _read_stderr(self, pipe: IO[bytes]) -> None:
        with pipe:
            while chunk := read_some(pipe.fileno(), READ_BYTES):
                with self.transcript.changed:
                    self._got.stderr += chunk
                    del self._got.stderr[:-STDERR_KEPT_BYTES]
                self.transcript.note("stderr", chunk.rstrip(b"\n"), self.number)
        with self._noted():
            self._got.stderr_ended = self.transcript.seconds()

    def _watch_exit(self) -> None:
        code = -signal.SIGKILL
        if self._line is None:
            code = self._process.wait()
        elif told := self._told.readline().split():
            code, self.used_seconds = os.waitstatus_to_exitcode(int(told[0])), float(told[1])
        with self._noted():
            self._code = code
            self._got.exited = self.transcript.seconds()
        # What it wrote before stands before its exit.
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._reads and self._has_unread_output() and time.monotonic() < deadline:
            time.sleep(0.0002)
        self.transcript.note("exit", exit_text(code), self.number)

    def _has_unread_output(self) -> bool:
        with self.transcript.changed, contextlib.suppress(OSError, ValueError):  # it may be closed
            return bytes_in(self._stdout)
        return False

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        with self.transcript.changed:
            yield
            self.transcript.changed.notify_all()

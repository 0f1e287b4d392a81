"""The one door to processes: a child in its own group, spoken to without ever blocking.

It knows bytes, descriptors and signals. What they mean, and when to stop, is decided elsewhere.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Protocol, Self

import ao_lifeline

READ_BYTES: Final = 256 * 1024
REAP_SECONDS: Final = 2.0
"""How long the end of a `with` block waits for a process that was killed."""


class Child:
    """A started process with a process group of its own.

    A `with` block owns it: at its end the group is killed, the process reaped, every descriptor closed.
    All descriptors are non-blocking; `exit_fd` becomes readable when the process has ended, and the process keeps
    its id, so that its group can still be signalled, until `reap`.

    Where there is a lifeline and it is wanted, the process is tied to it: whatever it starts, in whichever session,
    has ended when `exit_fd` is readable, and also when this process is killed. Else only the group is ended.

    Raises:
        OSError: the program could not be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path | None = None,
        *,
        lifeline: bool = False,
    ) -> None:
        self.is_tied = lifeline and ao_lifeline.IS_THERE
        self._popen = subprocess.Popen(
            ao_lifeline.tied(argv) if self.is_tied else argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            cwd=cwd,
            # A session of its own: Ctrl-C at the terminal reaches the runner alone, which then asks the executor.
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self._stdin, self._stdout, self._stderr = map(
            _non_blocking, (self._popen.stdin, self._popen.stdout, self._popen.stderr)
        )
        self.stdin = StdinWriter(self._stdin)
        self.stdout_fd = self._stdout.fileno()
        self.stderr_fd = self._stderr.fileno()
        try:
            self._exit_watch = _watch_exit(self.pid)
        except OSError:
            self._give_up()
            raise
        self.exit_fd = self._exit_watch.fileno()

    @property
    def exit_code(self) -> int | None:
        """The exit code once the process is reaped; negative for the signal that ended it."""
        return self._popen.returncode

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to every process of the group. Refused after `reap`, when the id may be another's."""
        if self._popen.returncode is not None:
            return
        if self.is_tied:
            # It passes every signal on but the one that nobody can; instead of that it kills all that is below it.
            self._popen.send_signal(ao_lifeline.KILL_ALL if number == signal.SIGKILL else number)
            return
        # No such process: all are gone. No permission: macOS says so of a dead leader, Linux of a changed user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def reap(self, timeout_seconds: float = 0.0) -> int | None:
        """Collect the exit code of a process that has ended; None when it has not within the time."""
        try:
            return self._popen.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Kill what is left of the group, reap, and close every descriptor."""
        self._exit_watch.close()
        self._give_up()

    def _give_up(self) -> None:
        self.signal_group(signal.SIGKILL)
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()
        if self.reap(REAP_SECONDS) is None and self.is_tied:
            # The lifeline itself was stopped or hangs: what hung on it is its system's to end.
            self._popen.kill()
            self.reap(REAP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StdinWriter:
    """Writes as much as the pipe takes and keeps the rest, so that a child that never reads blocks nobody."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.fd = stream.fileno()
        self._stream = stream
        self._pending: deque[memoryview] = deque()

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
            self._pending.append(memoryview(data))
            self.write_pending()

    def write_pending(self) -> None:
        """Go on writing. A child that closed its stdin closes this end, too."""
        while self.wants_to_write:
            try:
                written = os.write(self.fd, self._pending[0])
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.close()
                return
            if written == len(self._pending[0]):
                self._pending.popleft()
            else:
                self._pending[0] = self._pending[0][written:]

    def close(self) -> None:
        """Close the pipe; what was not written yet is dropped."""
        self._pending.clear()
        self._stream.close()


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

    def text(self) -> str:
        """Return the end of the stream. Where bytes were dropped it begins at a line, so no word is cut in two."""
        kept = self.kept()
        if self.total_bytes > len(kept):
            kept = kept[kept.find(b"\n") + 1 :]
        return kept.decode(errors="replace")


class _Readable(Protocol):
    def fileno(self) -> int: ...

    def close(self) -> None: ...


def _non_blocking(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "every stream was asked for as a pipe"  # noqa: S101
    os.set_blocking(stream.fileno(), False)
    return stream


if sys.platform == "darwin":

    def _watch_exit(pid: int) -> _Readable:
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

    def _watch_exit(pid: int) -> _Readable:
        """Return the process's descriptor, which is readable when it has ended."""
        return open(os.pidfd_open(pid), "rb", buffering=0)  # noqa: PTH123  # a descriptor; the child closes it


def ask_version(program: str, environment: Mapping[str, str], timeout_seconds: float) -> str | None:
    """Return the first line that a well-known program prints for `--version`; None when it prints none."""
    try:
        shown = subprocess.run(
            [program, "--version"],
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

"""Drives a real executor from a test: bytes in, events out, and every wait has an end.

Each line that comes back is checked as the protocol wants it (form, order, identity, pairing of tools), so a test
only says what is special about its run.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

from ao_protocol.events import check_event
from ao_protocol.framing import decode_object, encode_line
from ao_protocol.lifecycle import RunLifecycle
from tests.process.fork_server import start_program

EventDocument: TypeAlias = dict[str, Any]

WAIT_SECONDS: Final = 100.0
"""How long a wait may take where a test says nothing else. A test that waits this long fails."""

PASSED_ON: Final = ("PATH", "HOME", "LANG", "TZ", "TMPDIR")
_LOOK_AGAIN_SECONDS: Final = 0.01
_CHUNK_BYTES: Final = 64 * 1024


def installed(name: str) -> str:
    """Return the path of an installed program such as `ao-echo-exec`."""
    return str(Path(sys.executable).with_name(name))


def invocation(**fields: object) -> dict[str, object]:
    """Return a 3.0 invocation that starts a run with the prompt `Hi`; `fields` replace and add."""
    return {
        "schema_version": "3.0",
        "mode": "start",
        "run_id": "run_1",
        "session_id": "ses_1",
        "parameters": {"prompt": "Hi"},
        **fields,
    }


def wait_until(is_so: Callable[[], bool], timeout: float = WAIT_SECONDS) -> None:
    """Look again and again until something is so, which nothing can be waited for that would tell of it."""
    deadline = time.monotonic() + timeout
    while not is_so():
        assert time.monotonic() < deadline, f"it is still not so after {timeout} s"
        time.sleep(_LOOK_AGAIN_SECONDS)


def line_of(document: Mapping[str, object]) -> bytes:
    """Return a document as one line of JSON."""
    return encode_line(document)


def bare_environment() -> dict[str, str]:
    """Return what a runner hands through to every executor, from this process."""
    return {name: os.environ[name] for name in PASSED_ON if name in os.environ}


class ExecutorProcess:
    """A running executor. Leaving the `with` block ends it and its process group, whatever has happened.

    `argv` is a program with arguments. `env` is the whole environment, `bare_environment()` by default.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed by __exit__; a file never blocks its writer
        self.process = start_program(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=dict(bare_environment() if env is None else env),
            cwd=cwd,
            bufsize=0,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        self._unread = bytearray()
        self._lifecycle = RunLifecycle(None, None)
        self.stdout_bytes = bytearray()
        """Everything that has been read from stdout so far."""
        self.read_bytes_at_once = _CHUNK_BYTES
        """How much is taken from stdout at a time; little makes a slow reader."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.returncode is None:  # not reaped yet, so the group's id is still its own
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(WAIT_SECONDS)
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()

    @property
    def pid(self) -> int:
        """Return the process id, which is that of its group as well."""
        return self.process.pid

    @property
    def stderr(self) -> str:
        """Return what stands on stderr so far."""
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace")

    def write(self, chunk: bytes, timeout: float = WAIT_SECONDS) -> None:
        """Write bytes to stdin.

        Raises:
            BrokenPipeError: nobody reads stdin any more.
            TimeoutError: the executor does not take them in time.
        """
        deadline, view = time.monotonic() + timeout, memoryview(chunk)
        while view:
            self._await_descriptor(self._stdin.fileno(), select.POLLOUT, deadline)
            view = view[os.write(self._stdin.fileno(), view[:_CHUNK_BYTES]) :]

    def write_line(self, document: Mapping[str, object]) -> None:
        """Write one JSON line to stdin."""
        self.write(line_of(document))

    def close_stdin(self) -> None:
        """Say that no more input comes."""
        self._stdin.close()

    def close_stdout(self) -> None:
        """Stop reading for good, as a reader does that dies."""
        self._stdout.close()

    def read_event(self, timeout: float = WAIT_SECONDS) -> EventDocument | None:
        """Return the next event as it stands on the wire, or None at the end of stdout.

        Raises:
            TimeoutError: neither came in time; the message holds stderr.
            ValueError: the line is no event, or not one that may come now.
        """
        deadline = time.monotonic() + timeout
        while (end := self._unread.find(b"\n")) < 0:
            self._await_descriptor(self._stdout.fileno(), select.POLLIN, deadline)
            chunk = os.read(self._stdout.fileno(), self.read_bytes_at_once)
            if not chunk:
                assert not self._unread, f"stdout ended in the middle of a line: {bytes(self._unread)!r}"
                return None
            self._unread += chunk
            self.stdout_bytes += chunk
        line = bytes(self._unread[:end])
        del self._unread[: end + 1]
        document: EventDocument = decode_object(line)
        check_event(document)
        self._lifecycle.receive(document)
        return document

    def events(self, timeout: float = WAIT_SECONDS) -> Iterator[EventDocument]:
        """Yield the events up to the end of stdout; each may take `timeout` seconds."""
        while (event := self.read_event(timeout)) is not None:
            yield event

    def read_until(self, event_type: str, timeout: float = WAIT_SECONDS) -> EventDocument:
        """Return the next event of a type, passing over others."""
        for event in self.events(timeout):
            if event["event_type"] == event_type:
                return event
        raise AssertionError(f"stdout ended without {event_type}; stderr: {self.stderr}")

    def read_run(self, timeout: float = WAIT_SECONDS) -> list[EventDocument]:
        """Read a run up to its terminal event. Another run may follow, and is checked as one of its own."""
        events = []
        for event in self.events(timeout):
            events.append(event)
            if event["event_type"] in {"result", "failure"}:
                self._lifecycle = RunLifecycle(None, None)
                return events
        raise AssertionError(f"stdout ended without a terminal event; stderr: {self.stderr}")

    def write_turn(self, run_id: str, prompt: str) -> None:
        """Ask for another run in the session."""
        self.write_line({"type": "turn", "run_id": run_id, "parameters": {"prompt": prompt}})

    def await_output(self, timeout: float = WAIT_SECONDS) -> None:
        """Wait until there is something to read, and leave it there."""
        self._await_descriptor(self._stdout.fileno(), select.POLLIN, time.monotonic() + timeout)

    def await_stderr(self, text: str, timeout: float = WAIT_SECONDS) -> None:
        """Wait until `text` stands on stderr."""
        wait_until(lambda: text in self.stderr, timeout)

    def signal(self, number: int) -> None:
        """Send a signal to the executor alone, not to its group."""
        self.process.send_signal(number)

    def wait(self, timeout: float = WAIT_SECONDS) -> int:
        """Return the exit code; negative for the signal that ended the process.

        Raises:
            subprocess.TimeoutExpired: it does not end in time.
        """
        return self.process.wait(timeout)

    def finish(self, timeout: float = WAIT_SECONDS) -> "Run":
        """Read the rest of the run, demand a terminal event, and wait for the exit."""
        events = list(self.events(timeout))
        code = self.wait(timeout)
        assert events, f"exit {code} without an event; stderr: {self.stderr}"
        self._lifecycle.end()
        return Run(events, code, self.stderr, bytes(self.stdout_bytes))

    def _await_descriptor(self, descriptor: int, mask: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, mask)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise TimeoutError(f"{self.process.args!r} neither takes nor gives anything; stderr: {self.stderr}")


@dataclass(frozen=True, slots=True)
class Run:
    """A run that is over: its events in order, the exit code, what stood on stderr and on stdout."""

    events: list[EventDocument]
    exit_code: int
    stderr: str = field(repr=False)
    stdout: bytes = field(repr=False)

    @property
    def terminal(self) -> EventDocument:
        """Return the terminal event."""
        return self.events[-1]

    @property
    def error(self) -> dict[str, Any]:
        """Return the `error` of the failure that the run ended with."""
        assert self.terminal["event_type"] == "failure", json.dumps(self.terminal)
        error: dict[str, Any] = self.terminal["error"]
        return error

    @property
    def types(self) -> list[str]:
        """Return the event types in order."""
        return [event["event_type"] for event in self.events]

    def of_type(self, event_type: str) -> list[EventDocument]:
        """Return the events of one type."""
        return [event for event in self.events if event["event_type"] == event_type]


def run(
    argv: Sequence[str],
    document: Mapping[str, object] | bytes,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = WAIT_SECONDS,
) -> Run:
    """Perform one whole run as a shell would: the invocation in, end of stdin, the events out."""
    with ExecutorProcess(argv, env=env, cwd=cwd) as executor:
        try:
            executor.write(document if isinstance(document, bytes) else line_of(document))
        except BrokenPipeError:  # it has left already, and the events say why
            pass
        finally:
            executor.close_stdin()
        return executor.finish(timeout)

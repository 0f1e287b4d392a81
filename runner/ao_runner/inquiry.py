"""Ask an executor about itself: `describe` says what it is, `check` whether it could work here (SPEC 7)."""

import selectors
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ao_protocol.describe import Description, InvalidDescription, parse_description
from ao_runner.errors import RunnerError
from ao_runner.locate import Executor
from ao_runner.spawn import Child, Tail, read_available

DESCRIBE_SECONDS: Final = 10.0
"""The protocol allows one second; a busy machine may need more."""
CHECK_SECONDS: Final = 30.0
MAX_ANSWER_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What a short command wrote and how it left; `exit_code` is None when its time was up."""

    stdout: bytes
    stderr: str
    exit_code: int | None


@dataclass(eq=False)
class DescribeFailed(RunnerError):
    """An executable did not describe itself."""

    executor: Executor
    reason: str

    def __str__(self) -> str:
        return f"{self.executor.path} does not describe itself: {self.reason}. Try it: {self.executor.path} describe"


def describe_executor(executor: Executor, environment: Mapping[str, str], abort_fd: int | None = None) -> Description:
    """Return what an executor says of itself. When `abort_fd` becomes readable, nobody waits any longer.

    Raises:
        DescribeFailed: it did not answer in time, failed, or wrote no description.
        OSError: it could not be started.
    """
    answer = ask(executor, "describe", environment, DESCRIBE_SECONDS, abort_fd)
    if answer.exit_code is None:
        raise DescribeFailed(executor, f"it did not answer within {DESCRIBE_SECONDS:g} s")
    if answer.exit_code != 0:
        raise DescribeFailed(executor, f"it ended with {answer.exit_code}{_last_words(answer.stderr)}")
    try:
        return parse_description(answer.stdout)
    except InvalidDescription as error:
        raise DescribeFailed(executor, str(error)) from error


def ask(
    executor: Executor,
    verb: str,
    environment: Mapping[str, str],
    timeout_seconds: float,
    abort_fd: int | None = None,
) -> Answer:
    """Run an executor with one argument and an empty stdin, and return what it wrote.

    Raises:
        OSError: it could not be started.
    """
    stdout, stderr = Tail(MAX_ANSWER_BYTES), Tail(MAX_ANSWER_BYTES)
    ends_at = time.monotonic() + timeout_seconds
    with Child([str(executor.path), verb], environment) as child, selectors.DefaultSelector() as selector:
        child.stdin.close()
        streams = {child.stdout_fd: stdout, child.stderr_fd: stderr}
        for fd in (*streams, *(() if abort_fd is None else (abort_fd,))):
            selector.register(fd, selectors.EVENT_READ)
        while streams and (left := ends_at - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fd == abort_fd:
                    ends_at = time.monotonic()
                elif chunk := read_available(key.fd):
                    streams[key.fd].feed(chunk)
                elif chunk is not None:
                    selector.unregister(key.fd)
                    del streams[key.fd]
        exit_code = child.reap(max(0.0, ends_at - time.monotonic()))
    return Answer(stdout.kept(), stderr.text(), exit_code)


def _last_words(stderr: str) -> str:
    lines = stderr.strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""

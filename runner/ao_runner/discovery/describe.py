"""Ask an executor about itself: `describe` says what it is, `check` whether it could work here (SPEC 7)."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ao_lifeline.lifelines import Lifelines
from ao_protocol.documents import Description, InvalidDescription, parse_description
from ao_runner.discovery.locate import Executor
from ao_runner.errors import RunnerError
from ao_runner.processes.cleanup_journal import NOT_NOTED, CleanupJournal
from ao_runner.processes.spawn import Child, Tail, read_available

DESCRIBE_SECONDS: Final = 10.0
"""The protocol allows one second; a busy machine may need more."""
CHECK_SECONDS: Final = 30.0
MAX_ANSWER_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What a short command wrote and how it left; `exit_code` is None when its time was up."""

    stdout: bytes
    """The end of it, where it is long."""
    stderr: str
    exit_code: int | None
    stdout_bytes: int
    """How many there were."""


@dataclass(eq=False)
class DescribeFailed(RunnerError):
    """An executable did not describe itself."""

    executor: Executor
    reason: str

    def __str__(self) -> str:
        path = self.executor.path
        return f"{path} does not print a valid description: {self.reason}. Run it: {path} describe"


@contextmanager
def startable(executor: Executor) -> Iterator[None]:
    """Have an executor that cannot be started told as one that does not describe itself.

    Raises:
        DescribeFailed: in place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise DescribeFailed(executor, f"it cannot be started: {error.strerror or error}") from error


def describe_executor(executor: Executor, environment: Mapping[str, str]) -> Description:
    """Return what an executor says of itself, for callers without an event loop; raises as `describe` does."""
    return asyncio.run(describe(executor, environment))


async def describe(
    executor: Executor,
    environment: Mapping[str, str],
    lifelines: Lifelines | None = None,
    cleanup: CleanupJournal = NOT_NOTED,
) -> Description:
    """Return what an executor says of itself; on a lifeline nothing that it starts outlives its answer.

    Raises:
        DescribeFailed: it did not answer in time, failed, or wrote no description.
        OSError: it could not be started.
    """
    answer = await ask(executor, "describe", environment, DESCRIBE_SECONDS, lifelines, cleanup)
    if answer.exit_code is None:
        raise DescribeFailed(executor, f"it did not answer within {DESCRIBE_SECONDS:g} s")
    if answer.exit_code != 0:
        raise DescribeFailed(executor, f"it ended with {answer.exit_code}{_last_words(answer.stderr)}")
    if answer.stdout_bytes > MAX_ANSWER_BYTES:
        raise DescribeFailed(executor, f"its description has more than {MAX_ANSWER_BYTES} bytes")
    try:
        return parse_description(answer.stdout)
    except InvalidDescription as error:
        raise DescribeFailed(executor, str(error)) from error


async def ask(
    executor: Executor,
    verb: str,
    environment: Mapping[str, str],
    timeout_seconds: float,
    lifelines: Lifelines | None = None,
    cleanup: CleanupJournal = NOT_NOTED,
) -> Answer:
    """Run an executor with one argument and an empty stdin, and return what it wrote.

    Raises:
        OSError: it could not be started.
    """
    stdout, stderr = Tail(MAX_ANSWER_BYTES), Tail(MAX_ANSWER_BYTES)
    exit_code = None
    with (
        Child([str(executor.path), verb], environment, lifeline=lifelines) as child,
        cleanup.noted_group(child.pid),
    ):
        child.stdin.close()
        try:
            async with asyncio.timeout(timeout_seconds), asyncio.TaskGroup() as group:
                group.create_task(_read_to_end(child.stdout_fd, stdout))
                group.create_task(_read_to_end(child.stderr_fd, stderr))
                group.create_task(_until(child.exit_fd, lambda: _let_go_of_pipes(child)))
        except TimeoutError:
            pass  # the answer says so
        else:
            exit_code = child.reap()
    return Answer(stdout.kept(), stderr.text(), exit_code, stdout.total_bytes)


def _let_go_of_pipes(child: Child) -> bool:
    """End what an executor that has answered and left has in its group, so that nobody holds its pipes open."""
    child.signal_group(signal.SIGKILL)
    return True


async def _read_to_end(fd: int, tail: Tail) -> None:
    def read() -> bool:
        chunk = read_available(fd)
        if chunk:
            tail.feed(chunk)
        return chunk == b""

    await _until(fd, read)


async def _until(fd: int, is_done: Callable[[], bool]) -> None:
    """Call `is_done` whenever a descriptor is readable, until it is."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def look() -> None:
        if not over.done() and is_done():
            over.set_result(None)

    loop.add_reader(fd, look)
    try:
        await over
    finally:
        loop.remove_reader(fd)


def _last_words(stderr: str) -> str:
    lines = stderr.strip().splitlines()
    return f": {lines[-1][:200]}" if lines else ""

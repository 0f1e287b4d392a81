"""Find executors by name or path, and query them with `describe` and `check` (SPEC 7)."""

import asyncio
import difflib
import os
import re
import shlex
import signal
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from ao_lifeline.lifelines import Lifelines
from ao_protocol.documents import Description, InvalidDescription, parse_description
from ao_runner.errors import RunnerError
from ao_runner.processes.cleanup_journal import NOT_NOTED, CleanupJournal
from ao_runner.processes.spawn import Child, Tail, read_available, search_path

EXECUTABLE_NAME: Final = re.compile(r"ao-(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)-exec")

BRIDGE: Final = "http"
"""`ao-http-exec` runs executors for a runner of the older HTTP contract; it is not an executor of this protocol."""


class Executor(NamedTuple):
    """An executable that performs runs, and its name."""

    name: str
    path: Path
    prefix: tuple[str, ...] = ()
    """The command that starts it, such as a sandbox; empty if it is started directly."""

    @property
    def argv(self) -> list[str]:
        """The command line that starts the executor without arguments."""
        return [*self.prefix, str(self.path)]


USUAL_EXECUTORS: Final = {"claude": "claude-code", "anthropic": "claude-code", "openai": "codex", "google": "gemini"}
"""The executors that are meant by what people call an agent."""


class ExecutorNotFound(RunnerError):
    """No executable has that name, or the path leads to none. `available` are the names of the others."""

    def __init__(self, message: str, available: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.available = available


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return ` Did you mean …?` if a known name is similar to a name, else an empty string."""
    meant = USUAL_EXECUTORS.get(name.lower())
    close = [meant] if meant in known else difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def locate_executor(name_or_path: str, folders: Sequence[Path] | None = None) -> Executor:
    """Return the executor with a name or path.

    `folders` are searched in order; by default the folder of this installation's scripts, then PATH.

    Raises:
        ExecutorNotFound: There is none; the error lists the available names.
    """
    if "/" in name_or_path:
        path = Path(os.path.abspath(expanded(name_or_path)))  # noqa: PTH100  # a symlink keeps its own name
        if not _is_executable(path):
            told = f"{name_or_path} is not an executable file; check the path and its permissions (chmod +x)"
            raise ExecutorNotFound(told)
        return Executor(_name_of(path), path)
    whole_name = EXECUTABLE_NAME.fullmatch(name_or_path)
    for name in (name_or_path, whole_name["name"]) if whole_name else (name_or_path,):
        if (found := _executor_called(name, folders)) is not None:
            return found
    available = [*list_executors(folders)]
    raise ExecutorNotFound(
        f"no executor is called {name_or_path!r}; available: {', '.join(available) or 'none'}."
        f"{did_you_mean(name_or_path, available)} "
        f"Put ao-{name_or_path}-exec on PATH, or give a path that contains a slash",
        available,
    )


def _executor_called(name: str, folders: Sequence[Path] | None) -> Executor | None:
    """Return the first executor with a name. Its folders are not listed, since those of PATH are large."""
    file_name = f"ao-{name}-exec"
    if name == BRIDGE or not EXECUTABLE_NAME.fullmatch(file_name):
        return None
    paths = (folder / file_name for folder in (search_folders() if folders is None else folders))
    return next((Executor(name, path) for path in paths if _is_executable(path)), None)


def expanded(path: str) -> Path:
    """Return a path with `~` and `~user` expanded; that of an unknown user stays unchanged and does not exist."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # pathlib's raises


def list_executors(folders: Sequence[Path] | None = None) -> dict[str, Executor]:
    """Return every executor that can be found, by name. The first one with a name takes precedence."""
    found: dict[str, Executor] = {}
    for folder in dict.fromkeys(search_folders() if folders is None else folders):
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if EXECUTABLE_NAME.fullmatch(entry.name))
        except OSError:
            continue  # PATH often names folders that are not there or not readable
        for path in map(folder.joinpath, names):
            if _is_executable(path):
                found.setdefault(_name_of(path), Executor(_name_of(path), path))
    found.pop(BRIDGE, None)
    return dict(sorted(found.items()))


def search_folders() -> Iterator[Path]:
    """Yield the folders to search for executors: that of this installation's scripts, then PATH."""
    yield Path(sysconfig.get_path("scripts"))
    yield from map(Path, search_path(os.environ).split(os.pathsep))


def _name_of(path: Path) -> str:
    named = EXECUTABLE_NAME.fullmatch(path.name)
    return named["name"] if named else path.stem


def _is_executable(path: Path) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113  # a Path raises for too long a name


DESCRIBE_SECONDS: Final = 10.0
"""The protocol allows one second; a busy machine may need more."""
CHECK_SECONDS: Final = 30.0
MAX_OUTPUT_BYTES: Final = 1024 * 1024


class CommandOutput(NamedTuple):
    """The output and exit of a short command; `exit_code` is None if it timed out."""

    stdout: bytes
    """The end of the output, if it is long."""
    stderr: str
    exit_code: int | None
    stdout_bytes: int
    """The total number of bytes."""


class DescribeFailed(RunnerError):
    """An executable did not describe itself."""

    def __init__(self, executor: Executor, reason: str) -> None:
        command = shlex.join([*executor.argv, "describe"])
        super().__init__(f"{executor.path} does not print a valid description: {reason}. Run it: {command}")


@contextmanager
def startable(executor: Executor) -> Iterator[None]:
    """Report an executor that cannot be started as one that does not describe itself.

    Raises:
        DescribeFailed: In place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise DescribeFailed(executor, f"it cannot be started: {error.strerror or error}") from error


def describe_executor(executor: Executor, environment: Mapping[str, str]) -> Description:
    """Return the description of an executor, for callers without an event loop; raises the errors of `describe`."""
    return asyncio.run(describe(executor, environment))


async def describe(
    executor: Executor,
    environment: Mapping[str, str],
    lifelines: Lifelines | None = None,
    cleanup: CleanupJournal = NOT_NOTED,
) -> Description:
    """Return the description of an executor; on a lifeline none of its descendants outlives the answer.

    Raises:
        DescribeFailed: It did not answer in time, failed, or wrote no description.
        OSError: It could not be started.
    """
    output = await ask(executor, "describe", environment, DESCRIBE_SECONDS, lifelines, cleanup)
    if output.exit_code is None:
        raise DescribeFailed(executor, f"it did not answer within {DESCRIBE_SECONDS:g} s")
    if output.exit_code != 0:
        last_words = [f": {line[:200]}" for line in output.stderr.strip().splitlines()[-1:]]
        raise DescribeFailed(executor, f"it ended with {output.exit_code}{''.join(last_words)}")
    if output.stdout_bytes > MAX_OUTPUT_BYTES:
        raise DescribeFailed(executor, f"its description has more than {MAX_OUTPUT_BYTES} bytes")
    try:
        return parse_description(output.stdout)
    except InvalidDescription as error:
        raise DescribeFailed(executor, str(error)) from error


async def ask(
    executor: Executor,
    verb: str,
    environment: Mapping[str, str],
    timeout_seconds: float,
    lifelines: Lifelines | None = None,
    cleanup: CleanupJournal = NOT_NOTED,
) -> CommandOutput:
    """Run an executor with one argument and an empty stdin, and return its output.

    Raises:
        OSError: It could not be started.
    """
    stdout, stderr = Tail(MAX_OUTPUT_BYTES), Tail(MAX_OUTPUT_BYTES)
    exit_code = None
    with (
        Child([*executor.argv, verb], environment, lifeline=lifelines) as child,
        cleanup.noted_group(child.pid),
    ):
        child.stdin.close()

        def let_go_of_pipes() -> bool:
            """End the rest of the group of an executor that has exited, so that no process holds its pipes open."""
            child.signal_group(signal.SIGKILL)
            return True

        try:
            async with asyncio.timeout(timeout_seconds), asyncio.TaskGroup() as group:
                group.create_task(_read_to_end(child.stdout_fd, stdout))
                group.create_task(_read_to_end(child.stderr_fd, stderr))
                group.create_task(_until(child.exit_fd, let_go_of_pipes))
        except TimeoutError:
            pass  # `exit_code` stays None
        else:
            exit_code = child.reap()
    return CommandOutput(stdout.kept(), stderr.text(), exit_code, stdout.total_bytes)


async def _read_to_end(fd: int, tail: Tail) -> None:
    def read() -> bool:
        chunk = read_available(fd)
        if chunk:
            tail.feed(chunk)
        return chunk == b""

    await _until(fd, read)


async def _until(fd: int, is_done: Callable[[], bool]) -> None:
    """Call `is_done` whenever a descriptor is readable, until it returns True."""
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

"""Start and end the process of the CLI."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from ao_executors import VERSION
from ao_executors.codex.api_errors import delay_in
from ao_executors.codex.arguments import server_arguments, server_environment
from ao_executors.codex.cli import find_codex
from ao_executors.codex.rpc import AppServer, ServerEnded
from ao_executors.core import RunContext, RunFailed
from ao_executors.core.program import Program
from ao_lifeline.removal import remove_tree
from ao_protocol.errors import ErrorType
from ao_protocol.framing import LineSplitter

_STDERR_BYTES: Final = 4096
_MAX_LOG_BYTES: Final = 1024 * 1024
_LEAVE_SECONDS: Final = 1.0
"""How long an idle CLI may take to exit after its stdin is closed. It takes 0.05 s."""
_TERMINATE_SECONDS: Final = 2.0
_LATE_SECONDS: Final = 2.0
"""How long the log may lag behind the message about the same retry."""
_LOST_RACE: Final = "failed to initialize sqlite state runtime"
"""What CLI 0.163 ends with if another one creates the database of a new home in the same moment."""
_MOST_STARTS: Final = 5
_CLIENT: Final = {"name": "ao-codex-exec", "title": None, "version": VERSION}
_CAPABILITIES: Final = {"experimentalApi": True}
"""For the model's calls as it wrote them, and for ending the terminals that a turn has left."""


class RetryLog:
    """The delays before retries, which the CLI writes to stderr only."""

    def __init__(self) -> None:
        self._lines = LineSplitter(_MAX_LOG_BYTES)
        self._delays: asyncio.Queue[float] = asyncio.Queue()

    def feed(self, chunk: bytes) -> None:
        """Read a piece of stderr."""
        for line in self._lines.feed(chunk):
            delay = delay_in(line.decode(errors="replace")) if isinstance(line, bytes) else None
            if delay is not None:
                self._delays.put_nowait(delay)

    async def next_delay(self) -> float:
        """Return the delay of the next retry in seconds; 0 if the log does not tell it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LATE_SECONDS):
                return await self._delays.get()
        return 0.0


@asynccontextmanager
async def started_codex(context: RunContext) -> AsyncIterator[tuple[AppServer, RetryLog]]:
    """Start the app server for a run's context and initialize it. Leaving the block ends it and all its descendants.

    Raises:
        RunFailed: The program is missing (`dependency_missing`), or it ended.
    """
    codex, log = find_codex(context.config), RetryLog()
    folder = mkdtemp(prefix="ao-codex-")
    try:
        environment = server_environment(context, folder)
        if home := environment.get("CODEX_HOME"):  # the CLI creates its usual home only
            await asyncio.to_thread(Path(home).mkdir, parents=True, exist_ok=True)
        for start in count(1):
            async with _running(context, codex, environment, log) as server:
                try:
                    await server.call("initialize", clientInfo=_CLIENT, capabilities=_CAPABILITIES)
                except ServerEnded as error:
                    if start < _MOST_STARTS and _LOST_RACE in error.told:
                        continue
                    raise failure_of_end(error) from error
                await server.notify("initialized")
                yield server, log
                return
    finally:
        await asyncio.to_thread(remove_tree, folder)


def failure_of_end(error: ServerEnded) -> RunFailed:
    """Return the failure of a run whose CLI ended; it may be tried again if a signal ended the CLI."""
    is_killed = error.exit_code is not None and error.exit_code < 0
    return RunFailed(ErrorType.INTERNAL_ERROR, str(error), origin="environment", retryable=is_killed)


@asynccontextmanager
async def _running(
    context: RunContext, codex: Path, environment: Mapping[str, str], log: RetryLog
) -> AsyncIterator[AppServer]:
    program = Program(
        [str(codex), *server_arguments(context)],
        cwd=context.project_dir,
        env=environment,
        stop_seconds=_TERMINATE_SECONDS,
        max_stderr_bytes=_STDERR_BYTES,
        takes_input=True,
    )
    program.on_stderr = log.feed
    async with program:
        server = AppServer(program)
        reading = asyncio.ensure_future(server.read())
        try:
            yield server
        finally:  # it exits by itself, so that its session can be resumed
            program.close_stdin()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await program.wait()
            reading.cancel()
            await asyncio.wait({reading})

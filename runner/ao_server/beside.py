"""The worker beside a server, as a process of its own: started again when it ends, unless a person has drained it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from ao_runner.runs.run_request import on_signals
from ao_runner.store.ownership import Owner, host_name

PAUSE_SECONDS: Final = 2.0
"""The pause before a worker that ended by itself is started again."""


class WorkerBeside:
    """Keeps a worker running inside a `with` block. It drains at the end, also at a sudden end of the server.

    Args:
        command: The command of the worker; empty if there is to be none.
        environ: Its variables.
        drained_code: Its exit code after a person has drained it.
        tell: Receives a sentence for people.
    """

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], drained_code: int, tell: Callable[[str], object]
    ) -> None:
        self._command = command
        self._environ = environ
        self._drained_code = drained_code
        self._tell = tell
        self._pid: int | None = None
        self._wanted = asyncio.Event()
        self._wanted.set()

    async def __aenter__(self) -> Self:
        self._keeping = asyncio.create_task(self._keep_running())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeping.cancel()
        with suppress(asyncio.CancelledError):
            await self._keeping

    @property
    def is_drained(self) -> bool:
        """Whether the worker has ended because a person has drained it, and waits for `resume`."""
        return not self._wanted.is_set()

    def resume(self) -> None:
        """Start a drained worker again."""
        self._wanted.set()

    def is_it(self, owner: Owner) -> bool:
        """Return whether an owner of runs is this worker."""
        return owner.pid == self._pid and owner.host in {None, host_name()}

    async def _keep_running(self) -> None:
        while self._command:
            # A group of its own, so that Ctrl-C reaches the server only, which lets the worker drain.
            worker = await asyncio.create_subprocess_exec(
                *self._command, env=self._environ, stdin=asyncio.subprocess.PIPE, start_new_session=True
            )
            self._pid = worker.pid
            try:
                code = await worker.wait()
            except asyncio.CancelledError:
                await _drain(worker)
                raise
            self._pid = None
            if code == self._drained_code:
                self._wanted.clear()
                self._tell("the worker was drained; the page Workers, or the next start, starts it again")
                await self._wanted.wait()
            else:
                self._tell(f"the worker ended with exit code {code}, and is started again")
                await asyncio.sleep(PAUSE_SECONDS)


async def _drain(worker: asyncio.subprocess.Process) -> None:
    """Let a worker finish its runs. A further SIGINT or SIGTERM to the server goes to the worker."""

    def pass_on() -> None:
        with suppress(ProcessLookupError):
            worker.terminate()

    if worker.stdin is not None:
        worker.stdin.close()
    with on_signals(pass_on):
        await worker.wait()

"""Owns what an executor keeps from run to run: entered and left in one asyncio task of its own (SPEC 4.4, 4.5).

Internal.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from ao_executors.core.control import await_input
from ao_executors.core.executor import Connection, Executor, RunContext, RunFailed, Task
from ao_executors.core.executor_process import Cancellation, adopt_orphans, events_for
from ao_executors.core.stdio import Stdio

if TYPE_CHECKING:
    from ao_protocol.documents import Invocation
    from ao_protocol.wire import JsonObject

_CLOSE_SECONDS: Final = 8.0
"""How long a connection may take to end what it owns, where nobody has set a shorter time."""


class _HeldConnection:
    """One connection and the task that holds it."""

    def __init__(self, context: AbstractAsyncContextManager[Connection]) -> None:
        self._opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._owner = asyncio.create_task(self._hold(context))

    @property
    def is_opening(self) -> bool:
        """True until it is open, or has failed to."""
        return not self._opened.done() and not self._owner.done()

    @property
    def can_serve(self) -> bool:
        """True while it opens, and while it is open and alive."""
        return self.is_opening or (not self._owner.done() and self._opened.result().is_alive)

    async def connection(self) -> Connection:
        """Wait until it is open. Raises what opening it raised."""
        either: set[asyncio.Future[Any]] = {self._opened, self._owner}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._opened.done():
            self._owner.result()  # raises
        return self._opened.result()

    async def close(self, seconds: float) -> None:
        """Leave it. Raises what leaving it raised; what opening it raised is told to whoever waited for that."""
        self._closing.set()
        if not self._opened.done():
            self._owner.cancel()
        await asyncio.wait({self._owner}, timeout=seconds)
        if self._owner.done() and not self._owner.cancelled():
            error = self._owner.exception()
            if error is not None and self._opened.done():
                raise error

    async def _hold(self, context: AbstractAsyncContextManager[Connection]) -> None:
        async with context as connection:
            self._opened.set_result(connection)
            await self._closing.wait()


class Connections:
    """At most one connection at a time, for an executor that has any."""

    def __init__(self, connect: Callable[[RunContext], AbstractAsyncContextManager[Connection]] | None) -> None:
        self._connect = connect
        self._held: _HeldConnection | None = None
        self.tasks: frozenset[asyncio.Task[object]] = frozenset()
        """What ran when the connection was last handed out: its own tasks, which no run may end."""

    @property
    def is_alive(self) -> bool:
        """Whether another run can follow: always where there is nothing to connect."""
        return self._connect is None or (self._held is not None and self._held.can_serve)

    @property
    def is_opening(self) -> bool:
        """Whether one is being opened, so that no run has worked with it yet."""
        return self._held is not None and self._held.is_opening

    def open(self, context: RunContext) -> None:
        """Begin to connect, and do not wait for it."""
        if self._connect is not None:
            self._held = _HeldConnection(self._connect(context))

    async def connection(self, context: RunContext) -> Connection | None:
        """Return the connection, opening one where there is none that can serve.

        Raises:
            RunFailed: as the executor's `connect` says.
        """
        if self._held is None or not self._held.can_serve:
            await self.close()
            self.open(context)
        connection = await self._held.connection() if self._held is not None else None
        self.tasks = frozenset(asyncio.all_tasks())
        return connection

    async def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """End the connection, if there is one, within so many seconds."""
        held, self._held = self._held, None
        if held is not None:
            await held.close(seconds)


class PreparedConnection:
    """A connection that is opened before the invocation comes, as a `prepare` line asks, and its event loop.

    A `prepare` line that is wrong, or names an invocation that would be refused, connects nothing: the invocation
    itself is answered with what is wrong.
    """

    def __init__(self, executor: Executor, document: "JsonObject", stdio: Stdio, cancellation: Cancellation) -> None:
        self.loop: Final = asyncio.new_event_loop()
        self._context = _prepared_context(executor, document)
        self._stdio = stdio
        self._cancellation = cancellation
        self._connections = Connections(executor.connect)
        cancellation.listen_to_signals()
        adopt_orphans()

    def read_invocation_line(self, warm_up: Callable[[], None]) -> bytes:
        """Wait for the invocation while the connection is opened; call `warm_up` in the meantime.

        Raises:
            LineTooLong: it is longer than an invocation may be.
            EOFError: stdin ended, or a signal asked for the end; the connection has been closed.
        """
        return self.loop.run_until_complete(self._await_line(warm_up))

    async def connections_for(self, task: Task) -> Connections:
        """Return the connection, closed again if it was made for another invocation than the task's."""
        if self._context is None or _in_general(self._context.invocation) != _in_general(task.invocation):
            await self._connections.close()
        return self._connections

    async def _await_line(self, warm_up: Callable[[], None]) -> bytes:
        if self._context is not None:
            self._connections.open(self._context)
            await asyncio.sleep(0)  # what it starts boots while this process imports
        warm_up()
        try:
            while True:
                await await_input(self._stdio, self._cancellation)
                line = self._stdio.take_invocation_line()
                if line is not None:
                    return line
        except EOFError:
            await self._connections.close()
            raise


def _prepared_context(executor: Executor, document: "JsonObject") -> RunContext | None:
    from pydantic import ValidationError

    from ao_executors.core.task_from_invocation import prepare_context
    from ao_protocol.documents import Prepare

    to_nobody = events_for(executor, lambda _: None, None)
    try:
        context = prepare_context(executor, Prepare.model_validate(document).invocation, to_nobody)
    except (ValidationError, RunFailed):
        return None
    # Sessions of older versions depend on what these do not say now.
    return None if context.invocation.schema_version.startswith("2.") else context


def _in_general(invocation: "Invocation") -> "Invocation":
    """Leave out of an invocation what decides nothing of a connection; of the metadata, all but the trace."""
    trace = {name: value for name, value in invocation.metadata.items() if name == "traceparent"}
    of_the_run = {"run_id": None, "session_id": None, "parameters": {}, "prompt": None, "metadata": trace}
    return invocation.model_copy(update=of_the_run)

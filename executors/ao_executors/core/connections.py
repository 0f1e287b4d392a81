"""The owner of the connection that an executor keeps from run to run (SPEC 4.4, 4.5).

Internal. One asyncio task enters and leaves the context of `connect`.
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
"""How long a connection may take to close, unless the caller sets a shorter time."""


class _HeldConnection:
    """One connection and the task that holds it."""

    def __init__(self, context: AbstractAsyncContextManager[Connection]) -> None:
        self._opened: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._owner = asyncio.create_task(self._hold(context))

    @property
    def is_opening(self) -> bool:
        """True until the connection is open or has failed to open."""
        return not self._opened.done() and not self._owner.done()

    @property
    def can_serve(self) -> bool:
        """True while the connection opens, and while it is open and alive."""
        return self.is_opening or (not self._owner.done() and self._opened.result().is_alive)

    async def connection(self) -> Connection:
        """Wait until the connection is open and return it. Raises the exception of a failed opening."""
        either: set[asyncio.Future[Any]] = {self._opened, self._owner}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._opened.done():
            self._owner.result()  # raises
        return self._opened.result()

    async def close(self, seconds: float) -> None:
        """Close the connection. Raises an exception of the closing; `connection` raises one of the opening."""
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
    """At most one connection at a time; none for an executor without `connect`."""

    def __init__(self, connect: Callable[[RunContext], AbstractAsyncContextManager[Connection]] | None) -> None:
        self._connect = connect
        self._held: _HeldConnection | None = None
        self.tasks: frozenset[asyncio.Task[object]] = frozenset()
        """The asyncio tasks when the connection was last returned: tasks of the connection, which no run may end."""

    @property
    def is_alive(self) -> bool:
        """Whether another run can follow; always true without `connect`."""
        return self._connect is None or (self._held is not None and self._held.can_serve)

    @property
    def is_opening(self) -> bool:
        """Whether a connection is being opened, so that no run has used it yet."""
        return self._held is not None and self._held.is_opening

    def open(self, context: RunContext) -> None:
        """Begin to open a connection, and do not wait for it."""
        if self._connect is not None:
            self._held = _HeldConnection(self._connect(context))

    async def connection(self, context: RunContext) -> Connection | None:
        """Return the connection. Open a new one if there is none or it is not alive; None without `connect`.

        Raises:
            RunFailed: The executor's `connect` raised it.
        """
        if self._held is None or not self._held.can_serve:
            await self.close()
            self.open(context)
        connection = await self._held.connection() if self._held is not None else None
        self.tasks = frozenset(asyncio.all_tasks())
        return connection

    async def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Close the connection, if any, within `seconds`."""
        held, self._held = self._held, None
        if held is not None:
            await held.close(seconds)


class PreparedConnection:
    """A connection that a `prepare` line opens before the invocation arrives, and its event loop.

    An invalid `prepare` line, or one whose invocation would be refused, connects nothing. The invocation itself is then
    refused.
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
        """Return the invocation line. Meanwhile, open the connection and call `warm_up`.

        Raises:
            LineTooLong: The line is longer than 16 MiB.
            EOFError: stdin ended, or a signal requested the end. The connection is closed.
        """
        return self.loop.run_until_complete(self._await_line(warm_up))

    async def connections_for(self, task: Task) -> Connections:
        """Return the connections. Close the prepared one if it was opened for another invocation than the task's."""
        if self._context is None or _in_general(self._context.invocation) != _in_general(task.invocation):
            await self._connections.close()
        return self._connections

    async def _await_line(self, warm_up: Callable[[], None]) -> bytes:
        if self._context is not None:
            self._connections.open(self._context)
            await asyncio.sleep(0)  # a program that it starts boots while this process imports
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

    from ao_executors.core.task_from_invocation import prepare
    from ao_protocol.control_lines import Prepare

    to_nobody = events_for(executor, lambda _: None, None)
    try:
        invocation = Prepare.model_validate(document).invocation
        context = prepare(executor, invocation, to_nobody, has_parameters=False)
    except (ValidationError, RunFailed):
        return None
    # In version 2.x the session depends on fields that a prepared invocation does not have.
    return None if context.invocation.schema_version.startswith("2.") else context


def _in_general(invocation: "Invocation") -> "Invocation":
    """Return the invocation without the fields that may differ from the prepared one (AOX-069)."""
    trace = {name: value for name, value in invocation.metadata.items() if name == "traceparent"}
    names = ("run_id", "session_id", "prompt", "attachments")
    of_the_run: dict[str, Any] = {**dict.fromkeys(names), "parameters": {}, "requires": [], "metadata": trace}
    return invocation.model_copy(update=of_the_run)

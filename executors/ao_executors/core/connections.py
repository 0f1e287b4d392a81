"""Owns what an executor keeps from run to run: entered and left in one asyncio task of its own (SPEC 4.4)."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

from ao_executors.core.executor import Connection
from ao_executors.core.task import Setting

_CLOSE_SECONDS: Final = 8.0
"""How long a connection may take to end what it owns, where nobody has set a shorter time."""


class _Held:
    """One connection and the task that holds it."""

    def __init__(self, context: AbstractAsyncContextManager[Connection]) -> None:
        self._context = context
        self._opened, self._closing = asyncio.Event(), asyncio.Event()
        self._connection: Connection | None = None
        self._owner = asyncio.create_task(self._hold())

    @property
    def is_opening(self) -> bool:
        """True until it is open, or has failed to."""
        return self._connection is None and not self._owner.done()

    @property
    def can_serve(self) -> bool:
        """True while it opens, and while it is open and alive."""
        if self._connection is None or self._owner.done():
            return self.is_opening
        return self._connection.is_alive

    async def connection(self) -> Connection:
        """Wait until it is open. Raises what opening it raised."""
        opened = asyncio.create_task(self._opened.wait())
        try:
            await asyncio.wait({opened, self._owner}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            opened.cancel()
        if self._connection is None:
            self._owner.result()
            raise RuntimeError("the executor's connect yielded nothing")
        return self._connection

    async def close(self, seconds: float) -> None:
        """Leave it. Raises what leaving it raised; what opening it raised is told to whoever waited for that."""
        self._closing.set()
        if self._connection is None:
            self._owner.cancel()
        await asyncio.wait({self._owner}, timeout=seconds)
        if self._owner.done() and not self._owner.cancelled():
            error = self._owner.exception()
            if error is not None and self._connection is not None:
                raise error

    async def _hold(self) -> None:
        async with self._context as self._connection:
            self._opened.set()
            await self._closing.wait()


class Connections:
    """At most one connection at a time, for an executor that has any."""

    def __init__(self, connect: Callable[[Setting], AbstractAsyncContextManager[Connection]] | None) -> None:
        self._connect = connect
        self._held: _Held | None = None
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

    def open(self, setting: Setting) -> None:
        """Begin to connect, and do not wait for it."""
        if self._connect is not None:
            self._held = _Held(self._connect(setting))

    async def connection(self, setting: Setting) -> Connection | None:
        """Return the connection, opening one where there is none that can serve.

        Raises:
            RunFailed: as the executor's `connect` says.
        """
        if self._held is None or not self._held.can_serve:
            await self.close()
            self.open(setting)
        connection = await self._held.connection() if self._held is not None else None
        self.tasks = frozenset(asyncio.all_tasks())
        return connection

    async def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """End the connection, if there is one, within so many seconds."""
        held, self._held = self._held, None
        if held is not None:
            await held.close(seconds)

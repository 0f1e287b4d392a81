"""The server's connections to its store, in threads of their own: a slow disk or network delays no other request."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Final, Self, TypeVar

from fastapi import HTTPException

from ao_runner.coordinators.group_commit import GroupCommit
from ao_runner.coordinators.stored_queue import SharedStore
from ao_runner.errors import RunnerError
from ao_runner.processes.judging import with_judge
from ao_runner.store.opening import StorePlace
from ao_runner.store.ownership import Wakeup
from ao_runner.store.store import Store

READERS: Final = 4
POLL_SECONDS: Final = 1.0
REST_SECONDS: Final = 0.05
"""Minimum pause between two looks, since each added run wakes the tasks that look."""
Returned = TypeVar("Returned")


@dataclass(eq=False)
class _StepRefused(RunnerError):
    """A step refuses a request. As an error of the runner it fails alone, and not the steps that share its commit."""

    answer: HTTPException

    def __str__(self) -> str:
        return str(self.answer.detail)


class StoreAccess:
    """One connection that writes, and some that read. A `with` block owns them.

    Args:
        place: The store.
        name: The name of this server among the processes that use the store.
        tell: Receives a sentence if the store sends no notifications.
    """

    def __init__(self, place: StorePlace, name: str, tell: Callable[[str], None] = lambda _: None) -> None:
        self.place = place
        self._name = name
        self._tell = tell
        self._resources = AsyncExitStack()
        self._of_thread = threading.local()
        self._opened: list[Store] = []

    async def __aenter__(self) -> Self:
        """Open the store.

        Raises:
            StoreUnusable: It cannot be opened, or another version of this program made it.
            StoreUnwritable: It must be created or changed, and cannot be written now.
        """
        async with AsyncExitStack() as resources:
            self._writing = resources.enter_context(ThreadPoolExecutor(1, "writes"))
            self._reading = resources.enter_context(ThreadPoolExecutor(READERS, "reads"))
            self.writer = await self._in(self._writing, self.place.open)
            self.commits = GroupCommit(self.writer, self._writing)
            resources.push_async_callback(self._close)
            self.wakeup: Wakeup = await resources.enter_async_context(self.writer.listening(self._name, self._tell))
            self.shared = SharedStore(self.writer, self.commits, self.wakeup)
            self._resources = resources.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._resources.aclose()

    async def read(self, call: Callable[[Store], Returned]) -> Returned:
        """Return what a call reads from the store. Calls run side by side; one may also compute for long.

        A call that validates a value may be repeated, see `with_judge`; so may the steps of `write`.
        """
        return await with_judge(lambda: self._in(self._reading, lambda: _explained(self._reader(), call)))

    async def write(self, step: Callable[[Store], Returned]) -> Returned:
        """Run a step in a transaction, and return its return value when it is durable.

        Steps that are waiting at the same time share a transaction, and a failed one affects no other.

        Raises:
            CoordinatorUnavailable: The store cannot be written now; nothing was written.
        """

        def guarded() -> Returned:
            try:
                return step(self.writer)
            except HTTPException as error:
                raise _StepRefused(error) from error

        try:
            return await with_judge(lambda: self.commits.do(partial(copy_context().run, guarded)))
        except _StepRefused as refused:
            raise refused.answer from refused

    async def write_alone(self, call: Callable[[Store], Returned]) -> Returned:
        """Run a call that opens transactions itself, on the connection that writes."""
        return await self._in(self._writing, partial(_explained, self.writer, call))

    async def rounds(self) -> AsyncIterator[None]:
        """Yield now, and again after each change of the store, or a second, with a short rest between."""
        while True:
            yield
            await asyncio.sleep(REST_SECONDS)
            await self.wakeup.wait(POLL_SECONDS)

    def notify(self) -> None:
        """Wake the workers and everybody else who waits for a change of the store."""
        self._writing.submit(self.writer.notify)

    def _reader(self) -> Store:
        found = getattr(self._of_thread, "store", None)
        if found is None:
            found = self._of_thread.store = self.place.open()
            self._opened.append(found)
        return found

    async def _close(self) -> None:
        await self._in(self._writing, lambda: self.writer.__exit__(None, None, None))
        for store in self._opened:
            store.__exit__(None, None, None)

    @staticmethod
    async def _in(threads: ThreadPoolExecutor, call: Callable[[], Returned]) -> Returned:
        return await asyncio.get_running_loop().run_in_executor(threads, copy_context().run, call)


def _explained(store: Store, call: Callable[[Store], Returned]) -> Returned:
    """Run a call, with errors of the engine as errors of the store."""
    with store.explaining():
        return call(store)

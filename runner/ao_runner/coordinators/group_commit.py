"""Group commits: steps of concurrent tasks in one transaction of a store, and so with one sync of the disk."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TypeAlias, TypeVar

from ao_runner.coordinators.port import CoordinatorUnavailable
from ao_runner.store.store import Store
from ao_runner.store.store_errors import StoreDamaged, StoreUnusable, StoreUnwritable

Returned = TypeVar("Returned")


class GroupCommit:
    """Commits the steps of one turn of the event loop in one transaction, and so with one sync of the disk.

    With a thread, the steps that arrive during a commit form the next group.
    """

    def __init__(self, store: Store, thread: Executor | None) -> None:
        self._store = store
        self._thread = thread
        self._waiting: list[tuple[Callable[[], object], asyncio.Future[object]]] = []
        self._committing: asyncio.Task[None] | None = None

    async def do(self, step: Callable[[], Returned]) -> Returned:
        """Run a step and return its return value when it is durable.

        Raises:
            CoordinatorUnavailable: The store cannot be written now; nothing was written.
            NotHeld: The step raised it, before it wrote anything.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        self._waiting.append((step, future))
        if self._thread is not None and self._committing is None:
            self._committing = loop.create_task(self._commit_in_thread())
        elif self._thread is None and len(self._waiting) == 1:
            loop.call_soon(self._commit)
        return await future  # type: ignore[return-value]  # the future holds what its own step returned

    async def alone(self, call: Callable[[], Returned]) -> Returned:
        """Run a call outside of a group, in the thread if there is one."""
        if self._thread is None:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _commit(self) -> None:
        group, self._waiting = self._waiting, []
        _settle(group, self._outcomes(group))

    async def _commit_in_thread(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting, []
            _settle(group, await self.alone(partial(self._outcomes, group)))
        self._committing = None

    def _outcomes(self, group: "Sequence[_Step]") -> list[object]:
        try:
            return self._store.commit_together([step for step, _ in group])
        except (StoreUnwritable, StoreUnusable) as error:
            return [unavailable(self._store.place, error)] * len(group)
        except Exception as error:  # noqa: BLE001  # the caller of a step gets it, and no step waits for ever
            return [error] * len(group)


def unavailable(place: str, error: StoreUnwritable | StoreUnusable) -> CoordinatorUnavailable:
    """Return the error of a coordinator for one of its store."""
    return CoordinatorUnavailable(place, str(error), is_damaged=isinstance(error, StoreDamaged))


_Step: TypeAlias = tuple[Callable[[], object], "asyncio.Future[object]"]


def _settle(group: Sequence[_Step], outcomes: Sequence[object]) -> None:
    for (_, future), outcome in zip(group, outcomes, strict=True):
        if future.done():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

"""What has come and waits for the worker: runs that nobody has claimed, orders that nobody has obeyed."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from ao_protocol.lifecycle import note_calls
from ao_protocol.wire import JsonObject
from ao_runner.coordinators.port import InputAnswer, Orders
from ao_runner.errors import RunnerError

T = TypeVar("T")


def new_stops(wanted: Mapping[str, int], told: dict[str, int]) -> frozenset[str]:
    """Return the runs with requests to stop that were not told yet, one request of each run at a time, and note them.

    Args:
        wanted: The number of requests for each run.
        told: The number of those that were told, which this call increases.
    """
    new = frozenset(run_id for run_id, count in wanted.items() if count > told.get(run_id, 0))
    told.update({run_id: told.get(run_id, 0) + 1 for run_id in new})
    return new


class AskedRequests:
    """The requests of a worker's runs whose answers have not come, so that only a worker that waits asks for some."""

    def __init__(self) -> None:
        self._requests: dict[str, dict[str, bool]] = {}
        """Whether each request is open, by run and request."""

    def __bool__(self) -> bool:
        return any(any(requests.values()) for requests in self._requests.values())

    def note(self, run_id: str, events: Iterable[JsonObject]) -> None:
        """Take note of decoded events of a run, at least those about requests."""
        for event in events:
            note_calls(event, {}, self._requests.setdefault(run_id, {}))

    def forget(self, run_id: str) -> None:
        """Remove the requests of a run that has ended."""
        self._requests.pop(run_id, None)

    def take(self, answers: Sequence[InputAnswer]) -> tuple[InputAnswer, ...]:
        """Return the answers that are waited for, each once."""
        new = tuple(one for one in answers if self._requests.get(one.run_id, {}).get(one.request_id))
        for one in new:
            self._requests[one.run_id][one.request_id] = False
        return new


class Inbox(Generic[T]):
    """Belongs to one event loop. Whoever is cancelled while waiting has taken nothing."""

    def __init__(self) -> None:
        self._runs: deque[T] = deque()
        self._orders = Orders()
        self._failure: RunnerError | None = None
        self._news = asyncio.Event()

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._runs))

    def put(self, run: T) -> None:
        """Add a run at the end."""
        self._runs.append(run)
        self._news.set()

    def put_back(self, run: T) -> None:
        """Add a run at the front."""
        self._runs.appendleft(run)
        self._news.set()

    def remove(self, run: T) -> bool:
        """Take one run out, wherever it stands, and return whether it was there."""
        if is_there := run in self._runs:
            self._runs.remove(run)
            self._news.set()
        return is_there

    def order(self, orders: Orders) -> None:
        """Add to what is wanted of the worker."""
        waiting = self._orders
        self._orders = Orders(
            cancel_runs=waiting.cancel_runs | orders.cancel_runs,
            cancel_sessions=waiting.cancel_sessions | orders.cancel_sessions,
            lost=waiting.lost | orders.lost,
            answers=waiting.answers + orders.answers,
            drain=waiting.drain or orders.drain,
        )
        self._news.set()

    def fail(self, failure: RunnerError) -> None:
        """Let everybody who waits here, now or later, meet a failure."""
        self._failure = failure
        self._news.set()

    def take_orders(self) -> Orders:
        """Return what is wanted, once.

        Raises:
            RunnerError: what `fail` was given.
        """
        if self._failure is not None:
            raise self._failure
        orders, self._orders = self._orders, Orders()
        return orders

    async def until_run(self, seconds: float) -> bool:
        """Wait until there is a run; False when there was none for so long.

        Raises:
            RunnerError: what `fail` was given.
        """
        return await self._until(lambda: bool(self._runs), seconds)

    async def until_room(self, limit: int, seconds: float | None = None) -> bool:
        """Wait until there are fewer runs than `limit`; False when there were not for so long."""
        return await self._until(lambda: len(self._runs) < limit, seconds)

    async def until_orders(self, seconds: float) -> Orders:
        """Wait until something is wanted, at most for so long, and return it as `take_orders` does.

        Raises:
            RunnerError: what `fail` was given.
        """
        await self._until(lambda: self._orders != Orders(), seconds)
        return self.take_orders()

    async def _until(self, is_so: Callable[[], bool], seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while self._failure is None and not is_so():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        if self._failure is not None:
            raise self._failure
        return True

"""Durable events, read back from the disk: while that fails it is tried again, as writing is (see `spooling`)."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ao_runner.coordinators.backoff import Backoff
from ao_runner.outbox import OutboxUnreadable
from ao_runner.worker.log import Log

Returned = TypeVar("Returned")


class Reading:
    """Reads from one outbox. `stuck` is how many runs wait for that now."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.stuck = 0

    async def persist(self, read: Callable[[], Returned]) -> Returned:
        """Return what `read` returns, at once where it can; only `OutboxUnreadable` makes it wait."""
        try:
            return read()
        except OutboxUnreadable as error:
            if not self.stuck:
                self._log.error("outbox cannot be read; trying again", reason=error.reason)
        self.stuck += 1
        try:
            returned = await _until_read(read)
        finally:
            self.stuck -= 1
        if not self.stuck:
            self._log.info("outbox can be read again")
        return returned


async def _until_read(read: Callable[[], Returned]) -> Returned:
    backoff = Backoff()
    while True:
        await asyncio.sleep(backoff.next_seconds())
        with suppress(OutboxUnreadable):
            return read()

"""The requests of a run to a person (SPEC 8.3, 11.6): who may answer, until when, and which answer counts.

The first answer counts: that of a person in this process or elsewhere, or the end of the host's time. `decide` records
an answer unless there is one, and returns the one that counts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

from ao_protocol.wire import JsonObject

Decide = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Record an answer to the request with an id, unless there is one, and return the one that counts."""

EXPIRED: Final[JsonObject] = {"outcome": "expired", "by": "timeout"}
PARKED: Final[JsonObject] = {"park": True}
"""In place of an answer: the run ends as parked, and an answer may come later."""
CANCEL_REASON: Final = "nobody answered in time"


class InputPolicy(NamedTuple):
    """How long a run waits for an answer, and what happens then.

    Args:
        wait_seconds: The time for each request in seconds; None: no limit.
        then: `deny` goes on without the answer, `cancel` ends the run, `park` ends it so that an answer continues it.
    """

    wait_seconds: float | None = None
    then: Literal["deny", "cancel", "park"] = "deny"


async def decide_alone(_request_id: str, answer: JsonObject) -> JsonObject:
    """Return the answer, for a run whose answers are given in this process only."""
    return answer


class InputRequests:
    """The open requests of one run. All methods are called on the thread of the event loop.

    Args:
        policy: How long to wait, and what happens then.
        decide: Records an answer; see `Decide`.
        cancel: Cancels the run, with a reason.
    """

    def __init__(self, policy: InputPolicy, decide: Decide, cancel: Callable[[str], None]) -> None:
        self.policy = policy
        self._decide = decide
        self._cancel = cancel
        self._send: Callable[[JsonObject], None] | None = None
        self._open: dict[str, asyncio.TimerHandle | None] = {}
        self._deciding: set[asyncio.Task[None]] = set()

    @property
    def is_waiting(self) -> bool:
        """Whether a request is open."""
        return bool(self._open)

    @contextmanager
    def sent_by(self, send: Callable[[JsonObject], None]) -> Iterator[None]:
        """Send control lines to the executor by `send` inside the `with` block."""
        self._send = send
        try:
            yield
        finally:
            self._send = None
            for request_id in list(self._open):
                self.closed(request_id)

    def opened(self, request_id: str) -> None:
        """Take note of a request, and start its time."""
        loop, seconds = asyncio.get_running_loop(), self.policy.wait_seconds
        self._open[request_id] = None if seconds is None else loop.call_later(seconds, self._expire, request_id)

    def closed(self, request_id: str) -> None:
        """Take note that a request is resolved."""
        timer = self._open.pop(request_id, None)
        if timer is not None:
            timer.cancel()

    def receive(self, request_id: str, answer: JsonObject) -> None:
        """Send an answer that counts to the executor, if the request is open and no answer was sent before."""
        if self._send is None or request_id not in self._open:
            return
        self.closed(request_id)
        if answer == PARKED:
            self._send({"type": "park", "reason": CANCEL_REASON})
            return
        self._send({"type": "input_response", "request_id": request_id, **answer})
        if answer.get("outcome") == "expired" and self.policy.then == "cancel":
            self._cancel(CANCEL_REASON)

    def give(self, request_id: str, answer: JsonObject) -> None:
        """Let an answer of this process count if it is the first, and send the one that counts to the executor."""
        task = asyncio.get_running_loop().create_task(self._give(request_id, answer))
        self._deciding.add(task)
        task.add_done_callback(self._deciding.discard)

    async def _give(self, request_id: str, answer: JsonObject) -> None:
        counts = await self._decide(request_id, answer)
        if counts == PARKED:
            await self._park_others(request_id)
        self.receive(request_id, counts)

    async def _park_others(self, request_id: str) -> None:
        """Let the other open requests wait for an answer, too: `park` ends the run with all of them."""
        parked = {request_id}
        while others := self._open.keys() - parked:
            other = others.pop()
            parked.add(other)
            counts = await self._decide(other, PARKED)
            if counts != PARKED:
                self.receive(other, counts)

    def _expire(self, request_id: str) -> None:
        self.give(request_id, PARKED if self.policy.then == "park" else EXPIRED)

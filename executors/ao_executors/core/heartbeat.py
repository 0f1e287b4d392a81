"""Heartbeats: signs of life while nothing else is said (SPEC 5)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ao_executors.core.cancellation import Cancellation
from ao_executors.core.emitter import Emitter
from ao_protocol.events import Heartbeat


@contextmanager
def beat(
    loop: asyncio.AbstractEventLoop, events: Emitter, interval_seconds: float | None, cancellation: Cancellation
) -> Iterator[None]:
    """Write a `heartbeat` for every interval in which no event was written; none without an interval.

    The gap between two events is then less than two intervals. A reader that has gone cancels the run.
    """
    if interval_seconds is None:
        yield
        return
    seen = events.seq
    handle: asyncio.TimerHandle

    def tick() -> None:
        nonlocal seen, handle
        if events.seq == seen:
            try:
                events.emit(Heartbeat(phase=events.phase, last_progress_seq=events.last_progress_seq))
            except BrokenPipeError:
                cancellation.request("nobody reads the events any more")
        seen = events.seq
        handle = loop.call_later(interval_seconds, tick)

    handle = loop.call_later(interval_seconds, tick)
    try:
        yield
    finally:
        handle.cancel()

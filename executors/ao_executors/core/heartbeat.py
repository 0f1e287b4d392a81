"""Heartbeats: signs of life while nothing else is said (SPEC 5)."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ao_executors.core.cancellation import Cancellation
from ao_executors.core.emitter import Emitter
from ao_executors.core.stdio import NobodyReads

_LOOKS_PER_INTERVAL: Final = 2


@contextmanager
def beat(
    loop: asyncio.AbstractEventLoop, events: Emitter, interval_seconds: float | None, cancellation: Cancellation
) -> Iterator[None]:
    """Write a `heartbeat` for every interval in which no event was written; none without an interval.

    It looks twice in each interval, so that the gap between two events is one and a half of them at most, and a
    late timer does not make it two (AOX-080). A reader that has gone cancels the run.
    """
    if interval_seconds is None:
        yield
        return
    seen, quiet_looks = events.seq, 0
    handle: asyncio.TimerHandle

    def look() -> None:
        nonlocal seen, quiet_looks, handle
        quiet_looks = quiet_looks + 1 if events.seq == seen else 0
        if quiet_looks == _LOOKS_PER_INTERVAL:
            quiet_looks = 0
            try:
                at = {"phase": events.phase, "last_progress_seq": events.last_progress_seq}
                events.emit_fields("heartbeat", at)
            except NobodyReads:
                cancellation.request("the reader of the events has exited")
        seen = events.seq
        handle = loop.call_later(interval_seconds / _LOOKS_PER_INTERVAL, look)

    handle = loop.call_later(interval_seconds / _LOOKS_PER_INTERVAL, look)
    try:
        yield
    finally:
        handle.cancel()

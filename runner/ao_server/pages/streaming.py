"""Streams of pages: HTML that a page swaps in. A reader that reconnects with `Last-Event-ID` gets what it lacks."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent

from ao_protocol.raw_events import events_of_types
from ao_runner.store.records import RunState
from ao_runner.store.store import Store
from ao_server.api.streams import event_stream
from ao_server.context import ServerContext
from ao_server.event_log import EVENTS_AT_ONCE, EventPosition, LoggedEvent, some_events
from ao_server.pages.rendering import can_act, fragment
from ao_server.pages.timeline import EntryReader
from ao_server.shapes import names_of

BETWEEN_LISTS_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 1.0
RECORD_SECONDS: Final = 2.0
"""For how long a page waits for the record of a run that has ended. A run that was lost has none."""
SHARE: Final = 10
"""A list is looked for during at most about a tenth of the time."""
END: Final = "end"
"""The event behind which a page does not reconnect."""
SHOWN_IN_HEADS: Final = ("output_validation", "input_requested", "input_resolved")
Heads = Callable[[Store, Sequence[RunState]], str]


async def timeline_stream(
    context: ServerContext, session_id: str, after: EventPosition, run_id: str | None, head: Heads
) -> AsyncIterator[ServerSentEvent]:
    """Yield the new entries of a timeline, and the head of its page whenever that changes.

    With a run, end behind its last event; otherwise go on until the server stops.
    """
    progress: object = None
    reader = EntryReader(session_id, run_id is not None, is_live=True)

    def look(store: Store) -> tuple[Sequence[LoggedEvent], str, object, bool]:
        # Asked before reading: an event that comes between the two is read in the next round.
        every = store.runs.states_of(session_id)
        states = [state for state in every if run_id in {None, state.run.run_id}]
        events = some_events(store, session_id, after, run_id)
        by_id = {state.run.run_id: state for state in states}
        html = "".join(entry.html for entry in reader.read(store, events, by_id))
        records = store.sessions.progress_of([session_id]).get(session_id, (0,))[-1]
        now = records, [(state.run.run_id, names_of(state).run, state.attempt) for state in every]
        lines = [event.line.encode(errors="replace") for event in events]
        if now != progress or any(events_of_types(lines, SHOWN_IN_HEADS)):
            html += head(store, states)
        return events, html, now, run_id is not None and not any(state.run.ended_at is None for state in states)

    def has_record(store: Store) -> bool:
        return store.runs.find_record(run_id or "") is not None

    async with context.live.watching(session_id) as changed:
        while not context.live.closing.is_set():
            changed.clear()
            events, html, progress, is_over = await context.access.read(look)
            after = events[-1].id if events else after
            if events or html:
                yield ServerSentEvent(id=str(after), data=html)
            if len(events) == EVENTS_AT_ONCE:
                continue
            # The record, which has the answers that were refused, comes after the last event.
            if is_over and not await context.access.read(has_record) and await _comes(changed, RECORD_SECONDS):
                continue
            if is_over:
                yield ServerSentEvent(event=END, data="")
                return
            await changed.wait()


async def _comes(changed: asyncio.Event, seconds: float) -> bool:
    """Return whether something changes in time."""
    with suppress(TimeoutError):
        return await asyncio.wait_for(changed.wait(), seconds)
    return False


def list_stream(
    request: Request, context: ServerContext, template: str, find: Callable[[Store], dict[str, Any]]
) -> EventSourceResponse:
    """Return the HTML of a list as a stream: a template with what is found in the store, whenever it differs."""
    acts = can_act(request)
    lists: dict[object, SharedList] = request.app.state.lists
    key = (template, request.url.query, acts)

    async def follow() -> AsyncIterator[ServerSentEvent]:
        found = lists.setdefault(key, SharedList(lambda store: fragment(template, can_act=acts, **find(store))))
        found.readers += 1
        try:
            async for event in _whenever_it_differs(context, found):
                yield event
        finally:
            found.readers -= 1
            if not found.readers:
                del lists[key]

    return event_stream(follow())


@dataclass(slots=True)
class SharedList:
    """A list as HTML that all open pages with the same filters and rights show: it is rendered once for all."""

    write: Callable[[Store], str]
    readers: int = 0
    html: str = ""
    at: float = -math.inf
    """When its rendering began, on the clock of the event loop."""
    seconds: float = 0.0
    """How long that took."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def get(self, context: ServerContext, since: float) -> str:
        """Return the HTML, rendered again if it is too old, or older than the page that asks."""
        clock = asyncio.get_running_loop().time
        async with self.lock:
            begin = clock()
            if self.at < since or begin - self.at >= max(BETWEEN_LISTS_SECONDS, self.seconds * SHARE):
                self.html = await context.access.read(self.write)
                self.at, self.seconds = begin, clock() - begin
        return self.html


async def _whenever_it_differs(context: ServerContext, found: SharedList) -> AsyncIterator[ServerSentEvent]:
    """Yield HTML whenever it differs, at most twice a second, and less often if it takes long to find."""
    shown, since = None, asyncio.get_running_loop().time()
    while not context.live.closing.is_set():
        html = await found.get(context, since)
        if html != shown:
            shown = html
            yield ServerSentEvent(data=html)
        with suppress(TimeoutError):
            await asyncio.wait_for(context.live.closing.wait(), max(BETWEEN_LISTS_SECONDS, found.seconds * SHARE))
        await context.access.wakeup.wait(LOOK_SECONDS - BETWEEN_LISTS_SECONDS)

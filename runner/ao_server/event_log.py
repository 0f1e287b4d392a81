"""The events of a session in their order, each with an id by which a reader goes on."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Final, NamedTuple

from pydantic import StringConstraints

from ao_runner.store.store import Store

_WRITTEN: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")


class EventPosition(NamedTuple):
    """The place of an event in its session. It increases, and is never given to another event."""

    position: int
    seq: int

    def __str__(self) -> str:
        return f"{self.position}-{self.seq}"


EVENTS_AT_ONCE: Final = 200
"""The number of events that a reader gets at a time."""
FIRST: Final = EventPosition(0, 0)
"""The position before all events."""


def position_from(written: str) -> EventPosition:
    """Return the position that a text such as `17-3` stands for.

    Raises:
        ValueError: The text has another form.
    """
    found = _WRITTEN.fullmatch(written)
    if found is None:
        raise ValueError("expected the id of an event, such as 17-3")
    return EventPosition(int(found[1]), int(found[2]))


EventId = Annotated[str, StringConstraints(pattern=f"^{_WRITTEN.pattern}$")]
"""An id in a request. It is a text there: FastAPI takes the parameters of a tuple for a list."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """An event of a run as it was relayed."""

    id: EventPosition
    run_id: str
    line: str


def events_after(
    store: Store, session_id: str, after: EventPosition, run_id: str | None = None
) -> Iterator[LoggedEvent]:
    """Yield the events of a session, or of one of its runs, behind a position. Damaged rows go to `store.damage`."""
    for event in store.events.of_session(session_id, max(0, after.position - 1), run_id):
        found = EventPosition(event.position, event.seq)
        if found > after:
            yield LoggedEvent(found, event.run_id, event.line)


def some_events(store: Store, session_id: str, after: EventPosition, run_id: str | None) -> list[LoggedEvent]:
    """Return the first `EVENTS_AT_ONCE` of the events behind a position."""
    return list(islice(events_after(store, session_id, after, run_id), EVENTS_AT_ONCE))

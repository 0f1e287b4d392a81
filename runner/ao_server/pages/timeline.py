"""The events of a session as entries of a timeline: cut to a bounded size, and windowed. The rest can be downloaded."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import Final

from pydantic import JsonValue

from ao_protocol.events import InvalidEvent
from ao_protocol.short_text import Excerpt, begin_of_text, shorten, shorten_line
from ao_runner.runs import narration
from ao_runner.runs.narration import NOTHING, NarrationEntry, event_for_people
from ao_runner.store.brief_fields import begin_of
from ao_runner.store.records import RunState
from ao_runner.store.store import Store
from ao_server.event_log import FIRST, EventPosition, LoggedEvent, events_after
from ao_server.pages.rendering import fragment

EVENTS_OF_PAGE: Final = 100
MOST_READ: Final = 1_600
"""How many events are read for a page if most of them are pieces of messages, which a page shows as one entry."""
CHARACTERS_OF_PIECES: Final = 10_000
CHARACTERS_OF_PAGE: Final = 80_000
"""Maximum size of the timeline of a page, as HTML."""
CHARACTERS_OF_TEXT: Final = 2_000
LINES_OF_TEXT: Final = 60
CHARACTERS_OF_VALUE: Final = 2_000
CHARACTERS_OF_LINE: Final = 160
CHARACTERS_OF_POINT: Final = 300
MOST_POINTS: Final = 20
STATES: Final = {"good": "good", "fault": "bad", "error": "bad"}


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in a timeline: what it says to people, cut to a bounded size."""

    id: EventPosition
    run_id: str
    time: str
    told: NarrationEntry

    @property
    def html(self) -> str:
        """The entry as HTML."""
        return fragment("_entry.html", entry=self)

    @property
    def message(self) -> tuple[str, str]:
        """The run and the id of a message or of its pieces: another run may have a message with the same id."""
        return self.run_id, self.told.message_id

    @property
    def text(self) -> Excerpt:
        """The begin of its text, on one line if there is a value to open; all of the pieces of a message."""
        if self.told.kind == "delta":
            return Excerpt(self.told.text)
        is_line = self.told.kind in {"tool", "log"} and self.told.value is not NOTHING
        return Excerpt(in_one_line(self.told.text)) if is_line else cut(self.told.text)

    @property
    def value(self) -> Excerpt | None:
        """The begin of its value; None if there is none."""
        return None if self.told.value is NOTHING else pretty(self.told.value)

    @property
    def points(self) -> list[str]:
        """The begin of its first points."""
        return [shorten(point, CHARACTERS_OF_POINT) for point in self.told.points[:MOST_POINTS]]

    @property
    def state(self) -> str:
        """`good`, `bad` or nothing."""
        return STATES.get(self.told.severity, "")


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a timeline, as HTML. `earlier` is the end of the part before, if there is one."""

    html: str
    last: EventPosition
    earlier: str | None
    is_newest: bool


def cut(text: str, most: int = CHARACTERS_OF_TEXT) -> Excerpt:
    """Return the begin of a text."""
    return begin_of_text(text, most, LINES_OF_TEXT)


def pretty(value: object, most: int = CHARACTERS_OF_VALUE) -> Excerpt:
    """Return the begin of a value as indented JSON; a text stays as it is."""
    return cut(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False), most)


def in_one_line(value: JsonValue) -> str:
    """Return the begin of a value on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten_line(text[: 4 * CHARACTERS_OF_LINE], CHARACTERS_OF_LINE)


def asked_in(parameters: Mapping[str, JsonValue]) -> JsonValue:
    """Return the prompt of a run; other parameters as they are."""
    return parameters["prompt"] if parameters.keys() == {"prompt"} else begin_of(dict(parameters))


def entry_of(event: LoggedEvent, states: Mapping[str, RunState]) -> Entry | None:
    """Return an event as an entry; None if it says nothing to people."""
    try:
        parsed = event_for_people(event.line.encode(errors="replace"))
    except InvalidEvent:
        return Entry(event.id, event.run_id, "", NarrationEntry("log", "event", event.line))
    told = narration.entry_of(parsed.body)
    if told.weight == "quiet":
        return None
    if told.kind == "start" and (state := states.get(event.run_id)) is not None:
        told = replace(told, value=asked_in(state.run.parameters))
    return Entry(event.id, event.run_id, parsed.envelope.timestamp, told)


def window_of(store: Store, states: Sequence[RunState], until: tuple[str, int] | None) -> Window:
    """Return the last events of some runs of a session, or the last ones before an event of a run.

    Args:
        store: The store of the events.
        states: The runs, oldest first, at least one.
        until: A run and the `seq` of the first event that is not shown.
    """
    most = EVENTS_OF_PAGE
    while True:
        run_id, seq = _begin(states, until, most)
        begins_at_first = (run_id, seq) == (states[0].run.run_id, 1)
        found, entries = _read(
            store, states, EventPosition(store.events.position_of(run_id, seq), max(0, seq - 1)), until, most
        )
        if begins_at_first or len(entries) >= EVENTS_OF_PAGE // 2 or most >= MOST_READ:
            break
        most *= 4
    first, parts = _newest_that_fit([(entry, entry.html) for entry in entries])
    is_cut = first is not None and first is not entries[0]
    begin = (first.run_id, first.id.seq) if first is not None and is_cut else (run_id, seq)
    earlier = f"{begin[0]}.{begin[1]}" if begin != (states[0].run.run_id, 1) and found else None
    return Window("".join(parts), found[-1].id if found else FIRST, earlier, until is None)


def _read(
    store: Store, states: Sequence[RunState], begin: EventPosition, until: tuple[str, int] | None, most: int
) -> tuple[list[LoggedEvent], list[Entry]]:
    """Return the events of a window, and its entries."""
    by_id = {state.run.run_id: state for state in states}
    of_run = states[0].run.run_id if len(states) == 1 else None
    session_id = states[0].run.session_id
    before = takewhile(
        lambda event: until is None or event.run_id != until[0] or event.id.seq < until[1],
        events_after(store, session_id, begin, of_run),
    )
    found = list(islice(before, most))
    entries = with_joined_pieces([entry for event in found if (entry := entry_of(event, by_id)) is not None])
    incomplete = {entry.message for entry in entries if entry.told.kind == "delta"}
    if until is not None and incomplete:
        behind = islice(events_after(store, session_id, found[-1].id, of_run), MOST_READ)
        later = (entry_of(event, by_id) for event in behind)
        whole = {entry.message for entry in later if entry is not None and entry.told.kind == "message"}
        entries = [entry for entry in entries if entry.told.kind != "delta" or entry.message not in whole]
    return found, entries


def _begin(states: Sequence[RunState], until: tuple[str, int] | None, most: int) -> tuple[str, int]:
    """Return the run and the `seq` from which on there are `most` events, or the first of all."""
    left, is_before = most, until is None
    for state in reversed(states):
        run_id, last = state.run.run_id, state.last_seq
        if until is not None and run_id == until[0]:
            is_before, last = True, until[1] - 1
        if is_before:
            if last >= left:
                return run_id, last - left + 1
            left -= last
    return states[0].run.run_id, 1


def with_joined_pieces(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without the pieces of messages that are among them; other pieces of a message are joined."""
    whole = {entry.message for entry in entries if entry.told.kind == "message"}
    joined: list[Entry] = []
    for entry in entries:
        is_piece, last = entry.told.kind == "delta", joined[-1] if joined else None
        if is_piece and entry.message in whole:
            continue
        if is_piece and last is not None and last.told.kind == "delta" and last.message == entry.message:
            text = (last.told.text + entry.told.text)[-CHARACTERS_OF_PIECES:]
            joined[-1] = replace(last, told=replace(last.told, text=text))
        else:
            joined.append(entry)
    return joined


def _newest_that_fit(written: list[tuple[Entry, str]]) -> tuple[Entry | None, list[str]]:
    """Return the HTML of the newest entries that fit into a page, and the first of them."""
    size, first = 0, None
    for number in range(len(written) - 1, -1, -1):
        size += len(written[number][1])
        if size > CHARACTERS_OF_PAGE and first is not None:
            return first, [html for _, html in written[number + 1 :]]
        first = written[number][0]
    return first, [html for _, html in written]

"""The events of a session as entries of a timeline: cut to a bounded size, and windowed. The rest can be downloaded."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice, takewhile
from typing import Final, NamedTuple

from pydantic import JsonValue

from ao_protocol.events import InvalidEvent
from ao_protocol.short_text import Excerpt, begin_of_text, shorten, shorten_line
from ao_runner.runs import narration
from ao_runner.runs.narration import CHANGES, NOTHING, NarrationEntry, Nesting, event_for_people
from ao_runner.store.brief_fields import begin_of
from ao_runner.store.records import Run, RunState
from ao_runner.store.store import Store
from ao_server.event_log import FIRST, EventPosition, LoggedEvent, events_after
from ao_server.pages.calls import Bar, axes_of, bar_of, without_repetition
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
CHARACTERS_OF_CALL: Final = 80
CHARACTERS_OF_POINT: Final = 300
MOST_POINTS: Final = 20
MOST_FILES: Final = 200
CHARACTERS_OF_DIFFS: Final = 16_000
"""Maximum size of the diffs of an entry."""
STATES: Final = {"good": "good", "fault": "bad", "error": "bad"}


class ChangedFile(NamedTuple):
    """A file that a run changed in its workspace, and the begin of the diff."""

    change: str
    path: str
    diff: Excerpt

    @property
    def blocks(self) -> list[tuple[str, str]]:
        """The diff in blocks of lines of one class: `added`, `removed`, `place` of the next lines, or nothing."""
        kinds = {"+": "added", "-": "removed", "@": "place"}
        lines = re.findall(r".*\n|.+", self.diff.text)
        return [(kind, "".join(block)) for kind, block in groupby(lines, lambda line: kinds.get(line[0], ""))]


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in a timeline: what it says to people, cut to a bounded size."""

    id: EventPosition
    run_id: str
    time: str
    told: NarrationEntry
    end: NarrationEntry | None = None
    """The end of the tool call that the entry begins."""
    ended_at: str = ""
    bar: Bar | None = None
    """Its place on the time axis of its run."""
    is_update: bool = False
    """Whether a page has its begin already."""

    @property
    def html(self) -> str:
        """The entry as HTML."""
        return fragment("_entry.html", entry=self)

    @property
    def kind(self) -> str:
        """What people choose it by: `message`, `tool`, `check`, or `log` for all else."""
        return {"delta": "message", "start": "log", "end": "message"}.get(self.told.kind, self.told.kind)

    @property
    def output(self) -> tuple[str, Excerpt] | None:
        """What a call returned: on one line, and its begin; None if the entry is not a call that has ended."""
        if self.end is None:
            return None
        value = None if self.end.value is NOTHING else self.end.value
        return in_one_line(self.end.text), pretty("" if value is None else value)

    @property
    def files(self) -> list[ChangedFile]:
        """The first files that the run changed in its workspace."""
        fields = self.told.value if self.told.title == CHANGES else None
        found, diffs = (fields.get("files"), fields.get("diffs")) if isinstance(fields, dict) else (None, None)
        files, left = [], CHARACTERS_OF_DIFFS
        for one in found[:MOST_FILES] if isinstance(found, list) else ():
            if isinstance(one, dict):
                whole = diffs.get(str(one.get("path")), "") if isinstance(diffs, dict) else ""
                hunks = re.search(r"^@@.*", str(whole), re.MULTILINE | re.DOTALL)
                diff = cut(hunks[0] if hunks else "", min(left, CHARACTERS_OF_TEXT))
                left -= len(diff.text)
                path = shorten_line(str(one.get("path", "")), CHARACTERS_OF_POINT)
                files.append(ChangedFile(str(one.get("change", "")), path, diff))
        return files

    @property
    def status(self) -> str:
        """How a call ended; empty for all else."""
        return (self.end or self.told).label

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
    def reasoning(self) -> Excerpt:
        """The begin of what the model thought; all of the pieces of a message."""
        return Excerpt(self.told.reasoning) if self.told.kind == "delta" else cut(self.told.reasoning)

    @property
    def words(self) -> str:
        """The begin of what the model thought, on one line; while it thinks, the end of the last line."""
        thought = self.told.reasoning.strip()
        is_piece = self.told.kind == "delta"
        return in_one_line(thought.rpartition("\n")[2][-CHARACTERS_OF_LINE:] if is_piece else thought)

    @property
    def part_of(self) -> str:
        """The call that it is part of, in a few words: its name where the entry stands below it."""
        if self.told.part_of is None:
            return "an earlier call" if self.told.path else ""
        call = self.told.part_of
        begin = call.sentence[: 4 * CHARACTERS_OF_CALL]
        return call.title if self.told.is_below else shorten_line(begin, CHARACTERS_OF_CALL)

    @property
    def value(self) -> Excerpt | None:
        """The begin of its value; None if there is none."""
        return None if self.told.value is NOTHING or self.files else pretty(self.told.value)

    @property
    def points(self) -> list[str]:
        """The begin of its first points."""
        return [shorten(point, CHARACTERS_OF_POINT) for point in self.told.points[:MOST_POINTS]]

    @property
    def state(self) -> str:
        """`good`, `bad` or nothing."""
        return STATES.get((self.end or self.told).severity, "")


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


def asked_of(run: Run) -> JsonValue:
    """Return the prompt of a run; other parameters as they are."""
    parameters = run.parameters
    if not parameters and run.input_responses:
        return "It goes on with the answer of a person."
    return parameters["prompt"] if parameters.keys() == {"prompt"} else begin_of(dict(parameters))


@dataclass(slots=True)
class EntryReader:
    """Turns the events of a session into entries, which stand below the calls that they are part of."""

    session_id: str
    is_run_page: bool = False
    """Whether the page has panels for the parameters and the result of the run."""
    is_live: bool = False
    """Whether a page follows: the end of a call that it has then takes the place of the begin."""
    _nesting: Nesting = field(default_factory=lambda: Nesting(shown=("line", "detail")))
    _is_nested: bool = False
    _open: dict[tuple[str, str], Entry] = field(default_factory=dict)
    """The calls that have not ended, by run and id."""
    _has_looked_back: bool = False
    _said: dict[str, str] = field(default_factory=dict)
    """The text of the last message by run."""
    _points: dict[str, Sequence[str]] = field(default_factory=dict)
    """What was wrong with the last answer by run."""
    _bound: dict[str, str] = field(default_factory=dict)
    """The model of the last session by run: executors bind it again, with other ids, as it grows."""

    def read(self, store: Store, events: Sequence[LoggedEvent], states: Mapping[str, RunState]) -> list[Entry]:
        """Return the next events as entries, with the pieces of a message joined."""
        if not self._is_nested and any('"parent_tool_call_id"' in event.line for event in events):
            self._is_nested = True
            self._look_back(store, events[0])
        told = (entry_of(event, states) for event in events)
        entries = [entry for entry in told if entry is not None]
        ends = [one for one in entries if one.told.label]
        if ends and not self._has_looked_back:
            begun = {(one.run_id, one.told.call) for one in entries if one.told.kind == "tool" and not one.told.label}
            if any((one.run_id, one.told.call) not in begun | self._open.keys() for one in ends):
                self._look_back(store, events[0])
        return on_axes(with_joined_pieces(self._with_ends(entries, states)), states)

    @property
    def has_open_calls(self) -> bool:
        """Whether a call has begun and not ended."""
        return bool(self._open)

    def with_later_ends(
        self, entries: Sequence[Entry], later: Sequence[Entry], states: Mapping[str, RunState]
    ) -> list[Entry]:
        """Return the entries with the ends of their calls that are among later entries."""
        ends: dict[EventPosition, Entry] = {}
        for one in later:
            begun = self._open.pop((one.run_id, one.told.call), None) if one.told.label else None
            if begun is not None:
                ends[begun.id] = one
        closed = [replace(one, end=ends[one.id].told, ended_at=ends[one.id].time) if one.id in ends else one
                  for one in entries]  # fmt: skip
        return on_axes(closed, states)

    def _with_ends(self, entries: Sequence[Entry], states: Mapping[str, RunState]) -> list[Entry]:
        """Return the entries with the ends of calls in the entries of their begins, where these are shown."""
        found: dict[tuple[str, str] | EventPosition, Entry] = {}
        for one in entries:
            entry, key = one, (one.run_id, one.told.call)
            begun = self._open.pop(key, None) if one.told.label else None
            is_shown = begun is not None and (self.is_live or key in found)
            if self._is_nested:
                # The end of a call that stands at its begin does not come between others.
                told = replace(one.told, weight="quiet") if is_shown else one.told
                entry = replace(one, told=self._nesting.place(told))
            if begun is not None and is_shown:
                found[key] = replace(begun, end=one.told, ended_at=one.time, is_update=key not in found)
                continue
            if begun is not None:  # its begin is on an earlier page
                entry = replace(entry, time=begun.time, ended_at=one.time)
            entry = self._without_what_was_told(entry)
            if entry.told.weight == "quiet":
                continue
            if one.told.kind == "message" and not one.told.parent:
                self._said[one.run_id] = one.told.text
            said = self._said.get(one.run_id, "")
            state = states.get(one.run_id)
            has_parameters = state is None or bool(state.run.parameters)
            entry = replace(entry, told=without_repetition(entry.told, said, self.is_run_page, has_parameters))
            if one.told.kind == "tool" and not one.told.label:
                found[key] = self._open[key] = entry
            else:
                found[one.id] = entry
        return list(found.values())

    def _without_what_was_told(self, entry: Entry) -> Entry:
        """Return an entry without what an earlier one of its run has said: the session, or problems of an answer."""
        told, run_id = entry.told, entry.run_id
        if told.title == "Session":
            weight: narration.Weight = "quiet" if self._bound.get(run_id) == told.line else told.weight
            self._bound[run_id] = told.line
            return replace(entry, told=replace(told, weight=weight))
        if told.kind == "end" and told.points == self._points.get(run_id):
            return replace(entry, told=replace(told, points=()))
        if told.kind == "check" and told.points:
            self._points[run_id] = told.points
        return entry

    def _look_back(self, store: Store, first: LoggedEvent) -> None:
        """Find the calls that are open at an event, as far as the events before it tell."""
        self._has_looked_back = True
        seq = max(1, first.id.seq - MOST_READ)
        begin = EventPosition(store.events.position_of(first.run_id, seq), seq - 1)
        before = takewhile(lambda event: event.id < first.id, events_after(store, self.session_id, begin, first.run_id))
        for event in before:
            if '"tool_started"' not in event.line and '"tool_finished"' not in event.line:
                continue
            entry = entry_of(event, {})
            if entry is None or entry.told.kind != "tool":
                continue
            entry = replace(entry, told=self._nesting.place(entry.told))
            if entry.told.label:
                self._open.pop((entry.run_id, entry.told.call), None)
            else:
                self._open[entry.run_id, entry.told.call] = entry


def on_axes(entries: Sequence[Entry], states: Mapping[str, RunState]) -> list[Entry]:
    """Return the entries with their places on the time axes of their runs."""
    axes = axes_of(states, [(one.run_id, time) for one in entries for time in (one.time, one.ended_at)])
    placed = []
    for one in entries:
        is_call = one.told.kind == "tool" and not one.told.label
        axis = axes.get(one.run_id)
        placed.append(one if axis is None else replace(one, bar=bar_of(axis, one.time, one.ended_at, is_call)))
    return placed


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
        told = replace(told, value=asked_of(state.run))
    return Entry(event.id, event.run_id, parsed.envelope.timestamp, told)


def window_of(
    store: Store, states: Sequence[RunState], until: tuple[str, int] | None, is_run_page: bool = False
) -> Window:
    """Return the last events of some runs of a session, or the last ones before an event of a run.

    Args:
        store: The store of the events.
        states: The runs, oldest first, at least one.
        until: A run and the `seq` of the first event that is not shown.
        is_run_page: Whether the page has panels for the parameters and the result of the run.
    """
    most = EVENTS_OF_PAGE
    while True:
        run_id, seq = _begin(states, until, most)
        begins_at_first = (run_id, seq) == (states[0].run.run_id, 1)
        begin_at = EventPosition(store.events.position_of(run_id, seq), max(0, seq - 1))
        reader = EntryReader(states[0].run.session_id, is_run_page)
        found, entries = _read(store, states, begin_at, until, most, reader)
        if begins_at_first or len(entries) >= EVENTS_OF_PAGE // 2 or most >= MOST_READ:
            break
        most *= 4
    first, parts = _newest_that_fit([(entry, entry.html) for entry in entries])
    is_cut = first is not None and first is not entries[0]
    begin = (first.run_id, first.id.seq) if first is not None and is_cut else (run_id, seq)
    earlier = f"{begin[0]}.{begin[1]}" if begin != (states[0].run.run_id, 1) and found else None
    return Window("".join(parts), found[-1].id if found else FIRST, earlier, until is None)


def _read(
    store: Store,
    states: Sequence[RunState],
    begin: EventPosition,
    until: tuple[str, int] | None,
    most: int,
    reader: EntryReader,
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
    entries = reader.read(store, found, by_id)
    incomplete = {entry.message for entry in entries if entry.told.kind == "delta"}
    if until is not None and (incomplete or reader.has_open_calls):
        behind = islice(events_after(store, session_id, found[-1].id, of_run), MOST_READ)
        later = [entry for event in behind if (entry := entry_of(event, by_id)) is not None]
        whole = {entry.message for entry in later if entry.told.kind == "message"}
        entries = [entry for entry in entries if entry.told.kind != "delta" or entry.message not in whole]
        entries = reader.with_later_ends(entries, later, by_id)
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
    joined: dict[object, Entry] = {}
    for entry in entries:
        is_piece = entry.told.kind == "delta"
        if is_piece and entry.message in whole:
            continue
        begun = joined.setdefault(entry.message if is_piece else entry.id, entry)
        if begun is not entry:
            text = (begun.told.text + entry.told.text)[-CHARACTERS_OF_PIECES:]
            reasoning = (begun.told.reasoning + entry.told.reasoning)[-CHARACTERS_OF_PIECES:]
            joined[entry.message] = replace(begun, told=replace(begun.told, text=text, reasoning=reasoning))
    return list(joined.values())


def _newest_that_fit(written: list[tuple[Entry, str]]) -> tuple[Entry | None, list[str]]:
    """Return the HTML of the newest entries that fit into a page, and the first of them."""
    size, first = 0, None
    for number in range(len(written) - 1, -1, -1):
        size += len(written[number][1])
        if size > CHARACTERS_OF_PAGE and first is not None:
            return first, [html for _, html in written[number + 1 :]]
        first = written[number][0]
    return first, [html for _, html in written]

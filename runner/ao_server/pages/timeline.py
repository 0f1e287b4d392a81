"""The events of a session as entries of a timeline: cut to a bounded size, and windowed. The rest can be downloaded."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import islice
from typing import Final

from pydantic import JsonValue

from ao_protocol.events import (
    Body,
    Failure,
    InputRequested,
    InputResolved,
    InvalidEvent,
    Log,
    Message,
    MessageDelta,
    OutputValidation,
    Result,
    RetryScheduled,
    RunStarted,
    SessionBound,
    TextBlock,
    ToolFinished,
    ToolStarted,
    VendorEvent,
    parse_event,
)
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


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The begin of a text, and the number of characters that it lacks."""

    text: str
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """What an entry shows: its kind, who did something, a line or text, and a value to open."""

    kind: str
    who: str
    text: Excerpt = Excerpt("")
    value: Excerpt | None = None
    points: Sequence[str] = ()
    state: str = ""
    """`good`, `bad` or nothing."""
    label: str = ""
    """In front of the text."""
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in a timeline."""

    id: EventPosition
    run_id: str
    time: str
    shown: Shown

    @property
    def html(self) -> str:
        """The entry as HTML."""
        return fragment("_entry.html", entry=self)

    @property
    def message(self) -> tuple[str, str]:
        """The run and the id of a message or of its pieces: another run may have a message with the same id."""
        return self.run_id, self.shown.message_id


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a timeline, as HTML. `earlier` is the end of the part before, if there is one."""

    html: str
    last: EventPosition
    earlier: str | None
    is_newest: bool


def cut(text: str, most: int = CHARACTERS_OF_TEXT) -> Excerpt:
    """Return the begin of a text."""
    text = text.replace("\r\n", "\n")
    kept = "\n".join(text[:most].split("\n")[:LINES_OF_TEXT])
    return Excerpt(kept, len(text) - len(kept))


def pretty(value: JsonValue, most: int = CHARACTERS_OF_VALUE) -> Excerpt:
    """Return the begin of a value as indented JSON; a text stays as it is."""
    return cut(value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False), most)


def in_one_line(value: JsonValue) -> Excerpt:
    """Return the begin of a value on one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Excerpt(" ".join(text[: 2 * CHARACTERS_OF_LINE].split())[:CHARACTERS_OF_LINE])


def asked_in(parameters: Mapping[str, JsonValue]) -> JsonValue:
    """Return the prompt of a run; other parameters as they are."""
    return parameters["prompt"] if parameters.keys() == {"prompt"} else begin_of(dict(parameters))


def entry_of(event: LoggedEvent, states: Mapping[str, RunState]) -> Entry | None:
    """Return an event as an entry; None if it says nothing to people."""
    try:
        parsed = parse_event(event.line.encode(errors="replace"))
    except InvalidEvent:
        return Entry(event.id, event.run_id, "", Shown("log", "event", cut(event.line)))
    shown = _shown(parsed.body)
    if shown is None:
        return None
    if isinstance(parsed.body, RunStarted) and (state := states.get(event.run_id)) is not None:
        shown = Shown(shown.kind, shown.who, shown.text, pretty(asked_in(state.run.parameters), CHARACTERS_OF_TEXT))
    return Entry(event.id, event.run_id, parsed.envelope.timestamp, shown)


@singledispatch
def _shown(body: Body) -> Shown | None:
    return None  # usage and heartbeats


def _text_of(content: Sequence[object]) -> str:
    return "\n".join(block.text if isinstance(block, TextBlock) else f"[{block}]" for block in content)


@_shown.register
def _(body: RunStarted) -> Shown:
    return Shown("start", "Run started", Excerpt(f"{body.executor.name} {body.executor.version}"))


@_shown.register
def _(body: SessionBound) -> Shown:
    return Shown("log", "Session", Excerpt(" · ".join(filter(None, [body.model, body.executor_session_id]))))


@_shown.register
def _(body: Message) -> Shown:
    return Shown("message", body.role, cut(_text_of(body.content)), message_id=body.message_id)


@_shown.register
def _(body: MessageDelta) -> Shown:
    return Shown("delta", body.role, cut(_text_of(body.content)), message_id=body.message_id)


@_shown.register
def _(body: ToolStarted) -> Shown:
    return Shown("tool", body.tool_name, in_one_line(body.tool_input), pretty(body.tool_input))


@_shown.register
def _(body: ToolFinished) -> Shown:
    value = body.tool_output if body.error is None else body.error
    state = "" if body.status == "completed" else "bad"
    return Shown("tool", body.tool_name, in_one_line(value), pretty(value), state=state, label=body.status)


@_shown.register
def _(body: OutputValidation) -> Shown:
    if body.valid:
        return Shown("check", "Answer", Excerpt(f"attempt {body.attempt}: valid"), state="good")
    text = f"attempt {body.attempt}: not valid, retries left: {body.retries_left}"
    return Shown("check", "Answer", Excerpt(text), points=[cut(one, 300).text for one in body.errors[:20]], state="bad")


@_shown.register
def _(body: RetryScheduled) -> Shown:
    text = f"again in {body.delay_seconds:g} s: {body.error.type}: {body.error.message}"
    return Shown("log", f"Attempt {body.attempt}", cut(text))


@_shown.register
def _(body: Log) -> Shown:
    return Shown("log", body.level, cut(body.message), state="bad" if body.level == "error" else "")


@_shown.register
def _(body: InputRequested) -> Shown:
    return Shown("check", "Question", cut(body.title), None if body.schema_ is None else pretty(body.schema_))


@_shown.register
def _(body: InputResolved) -> Shown:
    by = {"person": "by a person", "policy": "because the run ended", "timeout": "nobody answered in time"}[body.by]
    return Shown("check", body.outcome.capitalize(), cut(by), state="good" if body.outcome == "accepted" else "bad")


@_shown.register
def _(body: Result) -> Shown:
    text = cut(body.result_text or "")
    return Shown("end", "Result", text, None if body.result_data is None else pretty(body.result_data), state="good")


@_shown.register
def _(body: Failure) -> Shown:
    text = cut(f"{body.error.type}: {body.error.message}")
    points = [cut(one, 300).text for one in (body.error.validation_errors or [])[:20]]
    return Shown("end", body.status.capitalize(), text, points=points, state="bad")


@_shown.register
def _(body: VendorEvent) -> Shown:
    return Shown("log", body.event_type, in_one_line(body.fields), pretty(body.fields))


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
    found = [*islice(_before(events_after(store, session_id, begin, of_run), until), most)]
    entries = with_joined_pieces([entry for event in found if (entry := entry_of(event, by_id)) is not None])
    incomplete = {entry.message for entry in entries if entry.shown.kind == "delta"}
    if until is not None and incomplete:
        behind = islice(events_after(store, session_id, found[-1].id, of_run), MOST_READ)
        later = (entry_of(event, by_id) for event in behind)
        whole = {entry.message for entry in later if entry is not None and entry.shown.kind == "message"}
        entries = [entry for entry in entries if entry.shown.kind != "delta" or entry.message not in whole]
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


def _before(events: Iterator[LoggedEvent], until: tuple[str, int] | None) -> Iterator[LoggedEvent]:
    for event in events:
        if until is not None and event.run_id == until[0] and event.id.seq >= until[1]:
            return
        yield event


def with_joined_pieces(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries without the pieces of messages that are among them; other pieces of a message are joined."""
    whole = {entry.message for entry in entries if entry.shown.kind == "message"}
    joined: list[Entry] = []
    for entry in entries:
        if entry.shown.kind == "delta" and entry.message in whole:
            continue
        last = joined[-1] if joined else None
        if (
            entry.shown.kind == "delta"
            and last is not None
            and last.shown.kind == "delta"
            and last.message == entry.message
        ):
            text = (last.shown.text.text + entry.shown.text.text)[-CHARACTERS_OF_PIECES:]
            joined[-1] = replace(last, shown=replace(last.shown, text=Excerpt(text)))
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

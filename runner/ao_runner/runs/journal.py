"""The journal of a run in the local store: what is kept of a run while it is performed, and who hears of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from ao_protocol.events import Body, Failure, Result, SessionBound, Terminal, Usage
from ao_runner.run_events import Relayed
from ao_runner.runs.attempt import Mark
from ao_runner.store.records import Run, RunRecord, Session, timestamp
from ao_runner.store.store import Store

_OF_INPUTS: Final = frozenset({"input_requested", "input_resolved"})
_REACTED_TO: Final = frozenset({"session_bound", "usage", "result", "failure"})


class Listener(Protocol):
    """An observer of a run."""

    def on_event(self, relayed: Relayed) -> None:
        """Handle an event that is already stored."""

    def on_note(self, note: str) -> None:
        """Handle a note from the runner about the run; a note is not an event."""

    @property
    def is_full(self) -> bool:
        """Whether the listener cannot accept more events for now."""

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the listener can accept events again."""


class NeverFull:
    """The backpressure methods of a listener that is never full."""

    is_full: Final = False

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` immediately."""
        callback()


@dataclass
class Marks:
    """The time of each step of a run, in seconds since its start."""

    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._began_at = self.clock()

    def set(self, what: Mark) -> None:
        """Record the first time of a mark; for `reaped`, record the last, because a run can have several attempts."""
        now = round(self.clock() - self._began_at, 4)
        if what == "reaped":
            self.seconds.pop(what, None)
        self.seconds.setdefault(what, now)


@dataclass
class StoredJournal:
    """The journal of a run in the local store.

    `owner` identifies the process that performs the run, see `ao_runner.store.ownership`.
    """

    store: Store
    run: Run
    listener: Listener
    owner: str
    new_session: Session | None = None
    """The session that this run creates, if any; it is stored together with its first run or not at all."""
    _marks: Marks = field(default_factory=Marks)
    _terminal: Terminal | None = None

    def begin(self) -> None:
        """Open the run.

        Raises:
            SessionBusy: The session has an unfinished run.
        """
        self._marks = Marks()
        self.store.runs.begin(self.run, self.owner, self.new_session)

    def mark(self, what: Mark) -> None:
        """Record the time of a step."""
        self._marks.set(what)

    def note(self, sentence: str) -> None:
        """Pass a note, which is not an event, to the listener."""
        self.listener.on_note(sentence)

    def relay(self, batch: Sequence[Relayed]) -> None:
        """Store events, then pass them to the listener. The events of one batch become durable together."""
        if not batch:
            return
        self.mark("first_event")
        # Before the events, so that whoever sees the event of a request finds the request.
        self.store.inputs.note(self.run.run_id, [item.line for item in batch if item.event_type in _OF_INPUTS])
        self.store.events.add(self.run.run_id, batch[0].seq, [item.line for item in batch])
        for item in batch:
            if item.event_type in _REACTED_TO:
                self._keep(item.event.body)
            self.listener.on_event(item)

    @property
    def is_full(self) -> bool:
        """Whether the listener cannot accept more for now; the store is never full."""
        return self.listener.is_full

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the listener can accept events again."""
        self.listener.when_room(callback)

    def end(self, record: RunRecord) -> Terminal:
        """Close the run with its record and return its terminal event, which must have been relayed."""
        self.store.runs.add_record(self.run.run_id, replace(record, seconds=self._marks.seconds))
        if self._terminal is None:
            raise RuntimeError(f"run {self.run.run_id} was closed before its terminal event was relayed")
        return self._terminal

    def _keep(self, body: Body) -> None:
        """Store the session id, the usage or the outcome that an event reports."""
        if isinstance(body, SessionBound):
            self.store.sessions.bind(self.run.session_id, body.executor_session_id)
        elif isinstance(body, Usage):
            self.store.figures.record_usage(self.run.run_id, body)
        elif isinstance(body, Result | Failure):
            from ao_runner.runs.outcome import error_type_of, status_of

            self._terminal = body
            self.mark("terminal")
            self.store.runs.end(self.run.run_id, status_of(body), timestamp(), error_type_of(body))
            self.store.figures.record_usage(self.run.run_id, body.usage)
            if self.store.deliveries.is_end_awaited(self.run.run_id):
                self.store.notify()

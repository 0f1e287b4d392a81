"""The journal of a run in the local store: what is kept of a run while it is performed, and who hears of it."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from ao_protocol.events import Terminal
from ao_runner.profiles import Profile
from ao_runner.run_events import Relayed
from ao_runner.runs.attempt import Mark
from ao_runner.runs.projection import PROJECTED, project, project_end
from ao_runner.store.records import Run, RunRecord, Session
from ao_runner.store.store import Store

TERMINAL_EVENTS: Final = frozenset({"result", "failure"})


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


def paused_profiles(run: Run, profile: Profile) -> tuple[str, ...]:
    """Return the name that a usage limit of a run pauses; none unless its profile says so."""
    return (run.profile or profile.name,) if profile.pause_on_limit else ()


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
    pausing: Collection[str] = ()
    """The profiles that a usage limit pauses."""
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
        run_id, ended = self.run.run_id, None
        lines = [item.line for item in batch]
        changing = [item.document for item in batch if item.event_type in PROJECTED]
        with self.store.transaction():
            self.store.events.add(run_id, batch[0].seq, lines)
            if changing:
                project(self.store, run_id, changing)
            if batch[-1].event_type in TERMINAL_EVENTS:
                terminal: Terminal = batch[-1].body  # type: ignore[assignment]  # its type says so
                ended = project_end(self.store, run_id, terminal, self.pausing)
                self._terminal = terminal
                self.mark("terminal")
        if ended is not None and ended.pause is not None:
            self.note(ended.pause)
        if ended is not None and ended.is_awaited:
            self.store.notify()
        for item in batch:
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

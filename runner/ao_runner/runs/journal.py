"""What happens in one run, kept as it happens, and then told to whoever listens."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol

from ao_protocol.events import Event, Failure, Result, SessionBound, Terminal
from ao_runner.run_events import Relayed
from ao_runner.store.records import Run, RunRecord, RunStatus, Session, timestamp
from ao_runner.store.store import Store

_REACTED_TO: Final = frozenset({"session_bound", "result", "failure"})

Mark = Literal["described", "spawned", "first_event", "terminal", "reaped"]


class Listener(Protocol):
    """Somebody who follows a run."""

    def on_event(self, relayed: Relayed) -> None:
        """Take an event that is already stored."""

    def on_note(self, note: str) -> None:
        """Take a remark of the runner's about the run; it is no event."""

    @property
    def is_full(self) -> bool:
        """Whether no more events should come for now."""

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once there is room again."""


class Ready:
    """The part of a listener that takes everything at once."""

    is_full: Final = False

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back now."""
        callback()


class Journal(Protocol):
    """Where a run is kept while it is performed."""

    def begin(self) -> None:
        """Open the run."""

    def mark(self, what: Mark) -> None:
        """Note when something happened."""

    def note(self, sentence: str) -> None:
        """Take a remark that is no event."""

    def relay(self, batch: Sequence[Relayed]) -> None:
        """Take events."""

    @property
    def is_full(self) -> bool:
        """Whether no more events should come for now."""

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once there is room again."""

    def end(self, record: RunRecord) -> Terminal:
        """Close the run, whose terminal event was relayed, and return that event."""


@dataclass
class Marks:
    """When what happened in a run, in seconds from its start."""

    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._began_at = self.clock()

    def set(self, what: Mark) -> None:
        """Note the first time; a run of several attempts is reaped with the last."""
        now = round(self.clock() - self._began_at, 4)
        if what == "reaped":
            self.seconds.pop(what, None)
        self.seconds.setdefault(what, now)


@dataclass
class StoredJournal:
    """The journal of a run in the local store.

    `owner` names the process that performs it, see `ao_runner.store.ownership`.
    """

    store: Store
    run: Run
    listener: Listener
    owner: str
    new_session: Session | None = None
    """The session that the run begins, if it does: it is kept with its first run, and not without."""
    _marks: Marks = field(default_factory=Marks)
    _terminal: Terminal | None = None

    def begin(self) -> None:
        """Open the run.

        Raises:
            SessionBusy: the session has a run that is not over.
        """
        self._marks = Marks()
        self.store.begin_run(self.run, self.owner, self.new_session)

    def mark(self, what: Mark) -> None:
        """Note when something happened."""
        self._marks.set(what)

    def note(self, sentence: str) -> None:
        """Tell the listener something that is no event."""
        self.listener.on_note(sentence)

    def relay(self, batch: Sequence[Relayed]) -> None:
        """Store events, then tell them. Those of one batch are durable together."""
        if not batch:
            return
        self.mark("first_event")
        self.store.add_events(self.run.run_id, batch[0].seq, [item.line for item in batch])
        for item in batch:
            if item.event_type in _REACTED_TO:
                self._react(item.event)
            self.listener.on_event(item)

    @property
    def is_full(self) -> bool:
        """Whether the listener takes no more for now; the store takes what comes."""
        return self.listener.is_full

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once it does."""
        self.listener.when_room(callback)

    def end(self, record: RunRecord) -> Terminal:
        """Close the run with what is known of how it went, and return its terminal event, which has been relayed."""
        self.store.add_record(self.run.run_id, replace(record, seconds=self._marks.seconds))
        if self._terminal is None:
            raise RuntimeError(f"run {self.run.run_id} was closed before its terminal event was relayed")
        return self._terminal

    def _react(self, event: Event) -> None:
        match event.body:
            case SessionBound(executor_session_id=executor_session_id):
                self.store.bind_session(self.run.session_id, executor_session_id)
            case Result() | Failure():
                self._terminal = event.body
                self.mark("terminal")
                self.store.end_run(self.run.run_id, status_of(event.body), timestamp(), error_type_of(event.body))
            case _:
                pass


def status_of(terminal: Result | Failure) -> RunStatus:
    """Return how the store calls such an end."""
    return "completed" if isinstance(terminal, Result) else terminal.status


def error_type_of(terminal: Result | Failure) -> str | None:
    """Return the type of a failure's error."""
    return terminal.error.type if isinstance(terminal, Failure) else None

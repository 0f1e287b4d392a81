"""Write events into the outbox: appended at once, made durable together, and delivered only then."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ao_protocol.events import Terminal
from ao_runner.coordinators.port import Backoff
from ao_runner.outbox.outbox import Outbox
from ao_runner.outbox.outbox_errors import OutboxFull, OutboxUnwritable
from ao_runner.run_events import Relayed, RunKey
from ao_runner.runs.attempt import Mark
from ao_runner.runs.journal import Marks
from ao_runner.store.records import RunRecord
from ao_runner.worker.log import WorkerLog

GROUP_SECONDS: Final = 0.005
"""How long events of all runs are gathered for one sync. A terminal event is not delayed."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    key: RunKey
    first_seq: int
    lines: Sequence[bytes]
    ends: bool


class Spooler:
    """Appends events of all runs and makes them durable in groups. `on_durable` receives the keys with new ones.

    If the disk is full or the outbox has reached its quota, events wait in memory, `is_full` is true so that no more
    are read from executors, and writing resumes when there is room.
    """

    def __init__(self, outbox: Outbox, log: WorkerLog, on_durable: Callable[[RunKey], None]) -> None:
        self._outbox = outbox
        self._log = log
        self._on_durable = on_durable
        self._loop = asyncio.get_running_loop()
        self._sync_at: asyncio.TimerHandle | None = None
        self._backoff = Backoff()
        self._is_stuck = False
        self._waiting: deque[_Waiting] = deque()
        self._wanting_room: list[Callable[[], None]] = []

    @property
    def is_full(self) -> bool:
        """Whether no more events should be appended for now."""
        return self._is_stuck or bool(self._waiting) or self._outbox.is_full

    @property
    def has_room(self) -> bool:
        """Whether there is room for the events of another run."""
        return self._outbox.has_room and not self.is_full

    @property
    def has_unwritten(self) -> bool:
        """Whether a crash would lose events now."""
        return self._sync_at is not None or bool(self._waiting)

    def append(self, key: RunKey, first_seq: int, lines: Sequence[bytes], *, ends: bool) -> None:
        """Append events of one run, without a gap to those before."""
        waiting = _Waiting(key, first_seq, lines, ends)
        if any(other.key == key for other in self._waiting) or not self._appended(waiting):
            if not self._waiting:
                self._log.warning("outbox is full; executors wait")
            self._waiting.append(waiting)
        self._sync_in(0.0 if ends else GROUP_SECONDS)

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back, once, when `is_full` becomes false."""
        self._wanting_room.append(callback)

    def has_delivered(self) -> None:
        """Events were acknowledged, which may have made room."""
        if self._waiting:
            self._retry_waiting()
        if not self.is_full and self._wanting_room:
            callbacks, self._wanting_room = self._wanting_room, []
            for callback in callbacks:
                callback()

    def sync(self) -> None:
        """Make the appended events durable now, if the disk has room."""
        if self._sync_at is not None:
            self._sync_at.cancel()
            self._sync_at = None
        try:
            durable = self._outbox.sync()
        except OutboxUnwritable as error:
            seconds = self._backoff.next_seconds()
            if not self._is_stuck:
                self._log.error("outbox is not writable; executors wait", reason=str(error))
            self._is_stuck = True
            self._sync_in(seconds)
            return
        if self._is_stuck:
            self._log.info("outbox is writable again")
            self._is_stuck = False
            self._backoff = Backoff()
        for key in durable:
            self._on_durable(key)
        self.has_delivered()

    def _sync_in(self, seconds: float) -> None:
        at = self._loop.time() + seconds
        if self._sync_at is not None:
            if self._is_stuck or self._sync_at.when() <= at:
                return
            self._sync_at.cancel()
        self._sync_at = self._loop.call_at(at, self.sync)

    def _appended(self, waiting: _Waiting) -> bool:
        try:
            self._outbox.append(waiting.key, waiting.first_seq, waiting.lines, ends=waiting.ends)
        except OutboxFull:
            return False
        return True

    def _retry_waiting(self) -> None:
        stuck: set[RunKey] = set()
        for waiting in [self._waiting.popleft() for _ in range(len(self._waiting))]:
            if waiting.key in stuck or not self._appended(waiting):
                stuck.add(waiting.key)
                self._waiting.append(waiting)
            else:
                self._sync_in(GROUP_SECONDS)


class SpooledJournal:
    """The journal of a run whose events go through an outbox; see `ao_runner.runs.attempt.Journal`."""

    __slots__ = ("_key", "_log", "_spooler", "_terminal", "events", "marks", "record")

    def __init__(self, key: RunKey, spooler: Spooler, log: WorkerLog) -> None:
        self._key = key
        self._spooler = spooler
        self._log = log
        self._terminal: Terminal | None = None
        self.marks = Marks()
        self.events = 0
        self.record: RunRecord | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the terminal event was relayed."""
        return self._terminal is not None

    def begin(self) -> None:
        """Start the clock. The coordinator has the start already."""
        self.marks = Marks()

    def mark(self, what: Mark) -> None:
        """Record the time of a step."""
        self.marks.set(what)

    def note(self, sentence: str) -> None:
        """Write a remark into the log."""
        self._log.info(sentence, run_id=self._key.run_id)

    def relay(self, batch: Sequence[Relayed]) -> None:
        """Append events."""
        if not batch:
            return
        self.mark("first_event")
        last = batch[-1]
        ends = last.event_type in {"result", "failure"}
        self._spooler.append(self._key, batch[0].seq, [item.line for item in batch], ends=ends)
        self.events += len(batch)
        if ends:
            self._terminal = last.body  # type: ignore[assignment]  # guaranteed by its type
            self.mark("terminal")

    @property
    def is_full(self) -> bool:
        """Whether no more events should be appended for now."""
        return self._spooler.is_full

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back once there is room again."""
        self._spooler.when_room(callback)

    def end(self, record: RunRecord) -> Terminal:
        """Close the run."""
        self.record = replace(record, seconds=self.marks.seconds)
        if self._terminal is None:
            raise RuntimeError(f"run {self._key.run_id} was closed before its terminal event was relayed")
        return self._terminal

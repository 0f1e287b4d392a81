"""The outbox: events of runs are durable here before anybody is told of them, and stay until the receiver has them.

One process owns the folder. It appends, syncs, hands out batches and takes acknowledgements; after a crash the next
owner finds every event that was reported as durable. One thread at a time may use it.
"""

import re
import sqlite3
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Final, Self

from ao_runner.outbox.errors import (
    AcknowledgedTooMuch,
    KeyEnded,
    OldOutbox,
    OutboxFull,
    OutboxUnreadable,
    OutboxUnusable,
    OutboxUnwritable,
    RecordDamaged,
    SeqOutOfOrder,
)
from ao_runner.outbox.outbox_file import Progress, Record
from ao_runner.outbox.owning import found_leftovers, note_own, owned
from ao_runner.outbox.salvage import Damage, Lost, open_outbox_file
from ao_runner.run_events import RunKey

ADMISSION: Final = 0.80
BACKPRESSURE: Final = 0.85
ORDINARY: Final = 0.90
"""Parts of the quota: up to which new runs find room, output is read, and events that do not end a run are kept."""
_ENOUGH_BYTES: Final = 1 << 18
"""A record that has so much takes no further lines: it is read back as a whole."""
_GROUP_BYTES: Final = 1 << 21
"""In one transaction, but for a single record that has more: the log stays small."""
_ROW_BYTES: Final = 128
"""What a row takes beside its lines, about."""
_OF_OLD: Final = re.compile(r"[0-9]{12}-[0-9a-f]{16}\.jsonl|state\.sqlite3")


@dataclass(frozen=True, slots=True)
class OutboxOptions:
    """How much an outbox may hold on the disk and in memory."""

    quota_bytes: int = 1 << 30
    cache_bytes: int = 16 << 20
    has_a_knowing_coordinator: bool = False  # it ends begun runs of which nothing is here: a damaged file forgets them


@dataclass(frozen=True, slots=True)
class KeyState:
    """What is known of a key that is not closed. `has_terminal` says that its terminal event is durable."""

    key: RunKey
    durable_seq: int
    acknowledged_seq: int
    has_terminal: bool
    note: str = ""
    """What was noted with the last acknowledgement."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Durable events, numbered from `first_seq` without a gap: their lines verbatim, without LF.

    `ends` says that the last one is the terminal event.
    """

    key: RunKey
    first_seq: int
    lines: Sequence[bytes]
    ends: bool

    @property
    def last_seq(self) -> int:
        """The number of the last one."""
        return self.first_seq + len(self.lines) - 1


@dataclass(slots=True, eq=False)
class _Backlog:
    """The events of one key; `records` are those that are durable and not acknowledged, in order."""

    key: RunKey
    appended_seq: int = 0
    durable_seq: int = 0
    acknowledged_seq: int = 0
    is_ended: bool = False
    has_terminal: bool = False
    note: str = ""
    records: list[Record] = field(default_factory=list)

    @classmethod
    def resume(cls, key: RunKey, progress: Progress) -> Self:
        """Return the backlog of a key of which nothing is there but what was acknowledged."""
        seq, closed = progress.acknowledged_seq, progress.is_closed
        return cls(key, seq, seq, seq, is_ended=closed, has_terminal=closed, note=progress.note)

    @property
    def progress(self) -> Progress:
        """What is kept of the acknowledgements."""
        return Progress(self.acknowledged_seq, self.is_closed, "" if self.is_closed else self.note)

    @property
    def is_closed(self) -> bool:
        """Say whether the terminal event was acknowledged."""
        return self.has_terminal and self.acknowledged_seq == self.durable_seq

    def recover(self, record: Record) -> tuple[int, int] | None:
        """Take a record of an earlier owner, each in its order, and return from where to where events are lost."""
        known, self.durable_seq = self.durable_seq, record.last_seq
        self.appended_seq = record.last_seq
        if record.is_lost:
            return known + 1, record.last_seq
        self.records.append(record)
        self.is_ended = self.has_terminal = record.ends
        return (known + 1, record.first_seq - 1) if record.first_seq > known + 1 else None

    def records_after(self, seq: int) -> int:
        """Return the place of the first record that holds an event with a higher number."""
        return bisect_right(self.records, seq, key=lambda record: record.last_seq)


class Outbox:
    """A folder of events that this process owns. Use it in a `with` block, or call `close`."""

    def __init__(self, folder: Path, options: OutboxOptions | None = None) -> None:
        """Own a folder, made when it is not there, and read what it holds.

        Raises:
            OutboxBusy: somebody owns it already.
            OutboxUnusable: the folder or the file in it cannot be read or written, or is of an earlier form.
            StateDamaged: the file is damaged, and to make it anew could lose something.
        """
        self._folder = folder
        self._options = options or OutboxOptions()
        self._waiting = deque[Record]()
        self._growing = dict[RunKey, Record]()
        self._durable = dict[RunKey, int]()
        self._progress = dict[RunKey, Progress]()
        self._released = set[int]()
        self._released_bytes = self._used_bytes = 0
        self._cached, self._cached_bytes = deque[Record](), 0
        self._is_open = True
        for path in sorted(folder.glob("*")):
            if _OF_OLD.fullmatch(path.name):
                raise OldOutbox(folder, path.name)
        with ExitStack() as undo:
            try:
                self._lock = undo.enter_context(owned(folder))
                self._open()
                undo.callback(self._file.close)
                self._file.restore_reserve()
                if not self._left_over:
                    note_own(self._lock)
            except (OSError, sqlite3.Error) as error:
                raise OutboxUnusable(folder, str(error)) from error
            self._resources = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._folder

    @property
    def damages(self) -> tuple[Damage, ...]:
        """What was found damaged or missing when the outbox was opened."""
        return self._damages

    @property
    def used_bytes(self) -> int:
        """How much the events take, on the disk or on their way to it."""
        return self._used_bytes

    @property
    def has_room(self) -> bool:
        """Say whether a new run may begin."""
        return self._used_bytes < self._options.quota_bytes * ADMISSION

    @property
    def is_full(self) -> bool:
        """Say whether to stop reading from executors until more is acknowledged."""
        return self._used_bytes >= self._options.quota_bytes * BACKPRESSURE

    def knows(self, key: RunKey) -> bool:
        """Tell whether there ever was an event of a key here.

        Raises:
            OutboxUnusable: a key that is not open cannot be looked up.
        """
        return key in self._backlogs or self._begin(key).appended_seq > 0

    def open_keys(self) -> list[KeyState]:
        """Return the keys whose terminal event was not acknowledged, those that were found at opening first."""
        return [
            KeyState(key, backlog.durable_seq, backlog.acknowledged_seq, backlog.has_terminal, backlog.note)
            for key, backlog in self._backlogs.items()
        ]

    def expect(self, key: RunKey, note: str) -> None:
        """Remember, durably, that events of a key will come: after a crash it is among the open keys, with its note.

        Raises:
            OutboxUnwritable: it cannot be remembered now.
        """
        backlog = self._backlogs.get(key) or self._begin(key)
        backlog.note = note
        self._backlogs[key] = backlog
        self._progress[key] = backlog.progress
        self.flush_state()

    def append(self, key: RunKey, first_seq: int, lines: Sequence[bytes], *, ends: bool = False) -> None:
        """Take events into memory; `sync` makes them durable.

        Args:
            key: whose they are.
            first_seq: the number of the first; a new key begins with 1, and there is never a gap.
            lines: the events, one each, without LF.
            ends: the last one is the terminal event.

        Raises:
            OutboxFull: the quota does not allow it. The last tenth of it is for calls with `ends`. Nothing was kept.
            SeqOutOfOrder: the caller repeats or leaves out an event. Nothing was kept.
            KeyEnded: the key has its terminal event, also if it was acknowledged long ago.
            OutboxUnusable: a new key cannot be looked up.
            ValueError: there are no lines, or one has an LF in it.
        """
        backlog = self._backlogs.get(key) or self._begin(key)
        if backlog.is_ended:
            raise KeyEnded(key)
        if first_seq != backlog.appended_seq + 1:
            raise SeqOutOfOrder(key, first_seq, backlog.appended_seq + 1)
        payload = b"\n".join(lines) + b"\n"
        if not lines or payload.count(b"\n") != len(lines):
            raise ValueError("events are given as one line each, without LF, and at least one")
        record = self._growing.get(key)
        if record is None or record.size >= _ENOUGH_BYTES:
            record = Record(key, first_seq)
        wanted, quota = len(payload) + (0 if record.count else _ROW_BYTES), self._options.quota_bytes
        if self._used_bytes + wanted > quota * (1 if ends else ORDINARY):
            raise OutboxFull(self._folder, wanted, self._used_bytes, quota)
        if not record.count:
            self._growing[key] = record
            self._waiting.append(record)
        record.parts.append(payload)
        record.size += len(payload)
        record.count += len(lines)
        record.ends = backlog.is_ended = ends
        self._used_bytes += wanted
        backlog.appended_seq += len(lines)
        self._backlogs[key] = backlog

    def sync(self) -> dict[RunKey, int]:
        """Make all that was appended durable and return through which seq that is, for each key with something new.

        Raises:
            OutboxUnwritable: the disk did not take all of it. Nothing is lost from memory; the next call tries again.
        """
        self._growing.clear()
        while group := self._next_group():
            try:
                self._insert(group)
            except sqlite3.Error as error:
                raise OutboxUnwritable(self._folder, str(error)) from error
            for record in group:
                self._waiting.popleft()
                backlog = self._backlogs[record.key]
                backlog.records.append(record)
                backlog.durable_seq = self._durable[record.key] = record.last_seq
                backlog.has_terminal = record.ends
                self._cache(record)
        durable, self._durable = self._durable, {}
        return durable

    def next_batch(
        self, key: RunKey, *, after_seq: int = 0, max_events: int = 1000, max_bytes: int = 1 << 20
    ) -> Batch | None:
        """Return events of a key that are durable and not acknowledged, or None when there are none.

        Args:
            key: whose events.
            after_seq: the last number that the caller has sent already; 0 begins with the first not acknowledged.
            max_events: the most events, at least 1.
            max_bytes: the most bytes, but for a single event that has more.

        Raises:
            RecordDamaged: the file no longer holds what was written.
            OutboxUnreadable: the file cannot be read now.
        """
        if (backlog := self._backlogs.get(key)) is None:
            return None
        after_seq = max(after_seq, backlog.acknowledged_seq)
        try:
            first = backlog.records_after(after_seq)
            records = (backlog.records[index] for index in range(first, len(backlog.records)))
            return _gather(records, self._lines_of, after_seq, max_events, max_bytes)
        except sqlite3.Error as error:
            raise OutboxUnreadable(self._folder, str(error)) from error

    def acknowledge(self, key: RunKey, through_seq: int, note: str = "") -> None:
        """Remember that the receiver has all events up to a number. Less than before, or a closed key, changes nothing.

        A key is closed when its terminal event is acknowledged. What nobody needs any more is deleted now and then. The
        memory of it reaches the disk later: if that is lost, the same events are sent again under the same numbers.
        `note` is kept with it, and found again as `KeyState.note`: it can say what there is to know of events that may
        be gone.

        Raises:
            AcknowledgedTooMuch: those events are not durable here.
            OutboxUnusable: a key that is not open cannot be looked up.
        """
        if (backlog := self._backlogs.get(key)) is None:
            backlog = self._begin(key)
        if backlog.is_closed or through_seq <= backlog.acknowledged_seq:
            return
        if through_seq > backlog.durable_seq:
            raise AcknowledgedTooMuch(key, through_seq, backlog.durable_seq)
        backlog.acknowledged_seq, backlog.note = through_seq, note
        done = backlog.records_after(through_seq)
        for record in backlog.records[:done]:
            self._release(record)
        del backlog.records[:done]
        self._progress[key] = backlog.progress
        if backlog.is_closed:
            del self._backlogs[key]
            if key in self._left_over:
                self._left_over.remove(key)
                if not self._left_over:
                    with suppress(OSError):  # whoever looks waits too long at the worst
                        note_own(self._lock)
        if self._released_bytes * 8 >= self._options.quota_bytes or self._released_bytes >= _ENOUGH_BYTES * 32:
            # The quota tells if that goes on failing, and `flush_state` says why.
            with suppress(OutboxUnwritable):
                self.flush_state()

    def flush_state(self) -> None:
        """Make the acknowledgements durable, and delete the events that nobody needs any more.

        Raises:
            OutboxUnwritable: the disk did not take them; the next call tries again.
        """
        try:
            self._file.update(self._progress, self._released)
        except sqlite3.Error as error:
            raise OutboxUnwritable(self._folder, str(error)) from error
        self._progress.clear()
        self._released.clear()
        self._used_bytes -= self._released_bytes
        self._released_bytes = 0
        if not self._used_bytes:
            self._file.shrink()

    def close(self) -> None:
        """Sync, flush, delete what nobody needs and give the folder back. A second call does nothing.

        Raises:
            OutboxUnwritable: something could not be made durable; the folder was given back all the same.
        """
        if not self._is_open:
            return
        self._is_open = False
        with self._resources:
            try:
                self.sync()
            finally:
                self.flush_state()
            if not self._backlogs:
                note_own(self._lock, is_empty=True)

    def _open(self) -> None:
        self._file, known, records, damages = open_outbox_file(
            self._folder,
            self._options.cache_bytes // 8,
            may_forget_begun=self._options.has_a_knowing_coordinator,
            may_forget=not found_leftovers(self._lock),
        )
        self._backlogs = {key: _Backlog.resume(key, progress) for key, progress in known.items()}
        lost = list[Lost]()
        for record in sorted(records, key=lambda record: (record.key, record.first_seq)):
            backlog = self._backlogs.get(record.key) or self._begin(record.key)
            self._used_bytes += record.size + _ROW_BYTES
            if backlog.is_closed or record.last_seq <= backlog.durable_seq:
                self._release(record)
                continue
            self._backlogs[record.key] = backlog
            if (missed := backlog.recover(record)) is not None:
                lost.append(Lost(record.key, *missed))
        if lost:
            at = damages.pop() if damages and not damages[-1].was_cut else Damage(self._file.path)
            damages.append(replace(at, lost=tuple(lost)))
        self._damages = tuple(damages)
        self._left_over = set(self._backlogs)

    def _insert(self, group: Sequence[Record]) -> None:
        try:
            self._file.insert(group)
        except sqlite3.Error:
            if not self._released:
                raise
            self.flush_state()
            self._file.insert(group)

    def _next_group(self) -> list[Record]:
        group, size = list[Record](), 0
        for record in self._waiting:
            if size >= _GROUP_BYTES:
                break
            group.append(record)
            size += record.size
        return group

    def _cache(self, record: Record) -> None:
        """Keep the lines of the newest records: in the usual case delivery does not read the disk."""
        self._cached.append(record)
        self._cached_bytes += record.size
        while self._cached and (self._cached_bytes > self._options.cache_bytes or not self._cached[0].parts):
            oldest = self._cached.popleft()
            oldest.parts = []
            self._cached_bytes -= oldest.size

    def _lines_of(self, record: Record) -> bytes:
        if record.parts:
            return b"".join(record.parts)
        if (lines := self._file.read_lines(record)) is None:
            raise RecordDamaged(self._file.path, record.row, record.key, record.first_seq, record.last_seq)
        return lines

    def _release(self, record: Record) -> None:
        record.parts = []
        self._released.add(record.row)
        self._released_bytes += record.size + _ROW_BYTES

    def _begin(self, key: RunKey) -> _Backlog:
        try:
            progress = self._progress.get(key) or self._file.find(key)
        except sqlite3.Error as error:
            raise OutboxUnusable(self._folder, str(error)) from error
        return _Backlog.resume(key, progress) if progress else _Backlog(key)


def _gather(
    records: Iterable[Record], read: Callable[[Record], bytes], after_seq: int, max_events: int, max_bytes: int
) -> Batch | None:
    """Return the events after a number, up to the limits or to a gap; one at least, if there is one.

    A record that is not needed is not read.
    """
    batch: Batch | None = None
    lines = list[bytes]()
    for record in records:
        begin = max(after_seq + 1, record.first_seq)
        fits = record.count <= max_events and record.size <= max_bytes
        if batch and (not fits or begin > batch.last_seq + 1):
            break
        found = read(record)[:-1].split(b"\n")[begin - record.first_seq :]
        if not fits:
            sizes = accumulate(len(line) + 1 for line in found[:max_events])
            found = found[: sum(size <= max_bytes for size in sizes) or 1]
        lines += found
        first_seq = batch.first_seq if batch else begin
        batch = Batch(record.key, first_seq, lines, record.ends and first_seq + len(lines) > record.last_seq)
        if not fits:
            break
        max_events -= record.count
        max_bytes -= record.size
    return batch

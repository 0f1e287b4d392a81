"""The outbox: events of runs are durable here before they are sent, and stay until the receiver has acknowledged them.

One process owns the folder. It appends, syncs, hands out batches and processes acknowledgements; after a crash the next
owner finds every event that was reported as durable. Only one thread at a time may use it.
"""

import re
import sqlite3
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ao_runner.outbox.events_of_key import Backlog, Batch, KeyState, gather
from ao_runner.outbox.outbox_errors import (
    OldOutbox,
    OutboxError,
    OutboxFull,
    OutboxUnreadable,
    OutboxUnusable,
    OutboxUnwritable,
    RecordDamaged,
    StateDamaged,
)
from ao_runner.outbox.outbox_file import FileDamaged, OutboxFile, Progress, Record, keeping_log, set_aside
from ao_runner.outbox.owning import found_leftovers, note_own, owned
from ao_runner.run_events import RunKey

ADMISSION: Final = 0.80
BACKPRESSURE: Final = 0.85
ORDINARY: Final = 0.90
"""Fractions of the quota: limits for new runs, for reading output, and for events that do not end a run."""
_ENOUGH_BYTES: Final = 1 << 18
"""A record of this size takes no further lines, because it is read as a whole."""
_GROUP_BYTES: Final = 1 << 21
"""Maximum size of a transaction, except for a single larger record: this keeps the log small."""
_ROW_BYTES: Final = 128
"""Approximate size of a row in addition to its lines."""
_OF_OLD: Final = re.compile(r"[0-9]{12}-[0-9a-f]{16}\.jsonl|state\.sqlite3")


@dataclass(frozen=True, slots=True)
class OutboxOptions:
    """The maximum size of an outbox on the disk and in memory."""

    quota_bytes: int = 1 << 30
    cache_bytes: int = 16 << 20
    has_a_knowing_coordinator: bool = False  # it ends runs that a damaged file forgets


class Outbox:
    """A folder of events that this process owns. Use it in a `with` block, or call `close`."""

    def __init__(self, folder: Path, options: OutboxOptions | None = None) -> None:
        """Take ownership of a folder, created if missing, and read its contents.

        Raises:
            OutboxBusy: Another process owns it.
            OutboxUnusable: The folder or its file cannot be read or written, or has an earlier format.
            StateDamaged: The file is damaged, and the coordinator does not know the runs in it.
        """
        self.folder: Final = folder
        """The folder of the outbox."""
        self.damage: str | None = None
        """A sentence about the damage for which the file was set aside when the outbox was opened."""
        self.used_bytes = 0
        """The size of the events, durable or not, in bytes."""
        self._options = options or OutboxOptions()
        self._waiting = deque[Record]()
        self._growing = dict[RunKey, Record]()
        self._durable = dict[RunKey, int]()
        self._progress = dict[RunKey, Progress]()
        self._released, self._released_bytes = set[int](), 0
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
                if not (self._left_over and found_leftovers(self._lock)):
                    note_own(self._lock)
            except (OSError, sqlite3.Error) as error:
                raise OutboxUnusable(folder, str(error)) from error
            self._resources = undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def has_room(self) -> bool:
        """Whether a new run may begin."""
        return self.used_bytes < self._options.quota_bytes * ADMISSION

    @property
    def is_full(self) -> bool:
        """Whether to stop reading from executors until more is acknowledged."""
        return self.used_bytes >= self._options.quota_bytes * BACKPRESSURE

    def knows(self, key: RunKey) -> bool:
        """Return whether the outbox ever contained an event of a key.

        Raises:
            OutboxUnusable: A key that is not open cannot be looked up.
        """
        return key in self._backlogs or self._begin(key).appended_seq > 0

    def open_keys(self) -> list[KeyState]:
        """Return the keys whose terminal event was not acknowledged, first those found at opening."""
        return [
            KeyState(key, backlog.durable_seq, backlog.acknowledged_seq, backlog.has_terminal, backlog.note)
            for key, backlog in self._backlogs.items()
        ]

    def expect(self, key: RunKey, note: str) -> None:
        """Store durably that events of a key will follow: after a crash it is among the open keys, with its note.

        Raises:
            OutboxUnwritable: The key cannot be stored now.
        """
        backlog = self._backlogs.get(key) or self._begin(key)
        backlog.note = note
        self._backlogs[key] = backlog
        self._progress[key] = backlog.progress
        self.flush_state()

    def append(self, key: RunKey, first_seq: int, lines: Sequence[bytes], *, ends: bool = False) -> None:
        """Add events in memory; `sync` makes them durable.

        Args:
            key: The key of the events.
            first_seq: The `seq` of the first event; a new key begins with 1, and gaps are not allowed.
            lines: The events, one each, without LF.
            ends: Whether the last event is the terminal event.

        Raises:
            OutboxFull: The quota is exceeded; its last tenth is reserved for calls with `ends`. Nothing was added.
            OutboxError: The caller repeats or omits an event, or the key has its terminal event, possibly acknowledged
                long ago. Nothing was added.
            OutboxUnusable: A new key cannot be looked up.
            ValueError: There are no lines, or one contains an LF.
        """
        backlog = self._backlogs.get(key) or self._begin(key)
        if backlog.is_ended:
            raise OutboxError(f"{key} has its terminal event. Use a new attempt for more events")
        if first_seq != backlog.appended_seq + 1:
            raise OutboxError(f"{key} continues with seq {backlog.appended_seq + 1}, not {first_seq}. Append each once")
        payload = b"\n".join(lines) + b"\n"
        if not lines or payload.count(b"\n") != len(lines):
            raise ValueError("events are given as one line each, without LF, and at least one")
        record = self._growing.get(key)
        if record is None or record.size >= _ENOUGH_BYTES:
            record = Record(key, first_seq)
        wanted, quota = len(payload) + (0 if record.count else _ROW_BYTES), self._options.quota_bytes
        if self.used_bytes + wanted > quota * (1 if ends else ORDINARY):
            full = f"has no room for {wanted} bytes: {self.used_bytes} of {quota} are used"
            raise OutboxFull(f"the outbox {self.folder} {full}. Deliver and acknowledge its events, or raise its quota")
        if not record.count:
            self._growing[key] = record
            self._waiting.append(record)
        record.parts.append(payload)
        record.size += len(payload)
        record.count += len(lines)
        record.ends = backlog.is_ended = ends
        self.used_bytes += wanted
        backlog.appended_seq += len(lines)
        self._backlogs[key] = backlog

    def sync(self) -> dict[RunKey, int]:
        """Make all appended events durable and return the last durable `seq` of each key with new events.

        Raises:
            OutboxUnwritable: The disk did not accept all of them. They stay in memory; the next call tries again.
        """
        self._growing.clear()
        while group := self._next_group():
            try:
                self._insert(group)
            except sqlite3.Error as error:
                raise OutboxUnwritable(self.folder, str(error)) from error
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
        """Return durable, unacknowledged events of a key, or None if there are none.

        Args:
            key: The key of the events.
            after_seq: The last `seq` that the caller has sent; 0 begins with the first unacknowledged event.
            max_events: The maximum number of events, at least 1.
            max_bytes: The maximum size, except for a single larger event.

        Raises:
            RecordDamaged: The file no longer contains the data that was written.
            OutboxUnreadable: The file cannot be read now.
        """
        if (backlog := self._backlogs.get(key)) is None:
            return None
        after_seq = max(after_seq, backlog.acknowledged_seq)
        try:
            first = backlog.records_after(after_seq)
            records = (backlog.records[index] for index in range(first, len(backlog.records)))
            return gather(records, self._lines_of, after_seq, max_events, max_bytes)
        except sqlite3.Error as error:
            raise OutboxUnreadable(self.folder, str(error)) from error

    def acknowledge(self, key: RunKey, through_seq: int, note: str = "") -> None:
        """Record that the receiver has all events up to a `seq`. A lower `seq` or a closed key changes nothing.

        Acknowledging its terminal event closes a key. Acknowledged events are deleted from time to time.
        Acknowledgements reach the disk later: if they are lost, the same events are sent again with the same numbers.
        `note` is stored with the acknowledgement and returned in `KeyState.note`; it can describe events that may be
        deleted.

        Raises:
            OutboxError: The events are not durable here, so they cannot have been sent.
            OutboxUnusable: A key that is not open cannot be looked up.
        """
        if (backlog := self._backlogs.get(key)) is None:
            backlog = self._begin(key)
        if backlog.is_closed or through_seq <= backlog.acknowledged_seq:
            return
        if through_seq > backlog.durable_seq:
            raise OutboxError(f"{key} was acknowledged through {through_seq}, and is durable to {backlog.durable_seq}")
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
                    with suppress(OSError):  # at worst, an observer waits too long
                        note_own(self._lock)
        if self._released_bytes * 8 >= self._options.quota_bytes or self._released_bytes >= _ENOUGH_BYTES * 32:
            # If this keeps failing, the quota fills up, and `flush_state` reports the cause.
            with suppress(OutboxUnwritable):
                self.flush_state()

    def flush_state(self) -> None:
        """Make the acknowledgements durable and delete acknowledged events.

        Raises:
            OutboxUnwritable: The disk did not accept them; the next call tries again.
        """
        try:
            self._file.update(self._progress, self._released)
        except sqlite3.Error as error:
            raise OutboxUnwritable(self.folder, str(error)) from error
        self._progress.clear()
        self._released.clear()
        self.used_bytes -= self._released_bytes
        self._released_bytes = 0
        if not self.used_bytes:
            self._file.shrink()

    def close(self) -> None:
        """Sync, flush, delete acknowledged events and release the folder. A second call does nothing.

        Raises:
            OutboxUnwritable: Some data could not be made durable; the folder was released anyway.
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
        """Open the file, or a new one if it is damaged."""
        has_leftovers, reason = found_leftovers(self._lock), None
        try:
            with keeping_log(self.folder):
                self._load(may_be_new=not has_leftovers)
        except FileDamaged as error:
            reason = str(error)
        # An exception may keep the damaged file open: if SQLite closed it later, it would delete the new log.
        if reason is not None:
            if has_leftovers and not self._options.has_a_knowing_coordinator:
                raise StateDamaged(self.folder, reason)
            self.damage = set_aside(self.folder, reason)
            self._load(may_be_new=True)
        self._left_over = set(self._backlogs)

    def _load(self, *, may_be_new: bool) -> None:
        self._file = OutboxFile(self.folder, self._options.cache_bytes // 8, may_be_new=may_be_new)
        self._backlogs = dict[RunKey, Backlog]()
        self.used_bytes = self._released_bytes = 0
        self._released.clear()
        with ExitStack() as undo:
            undo.callback(self._file.close)
            for found in self._file.read():
                if isinstance(found, Record):
                    self._recover(found)
                else:
                    self._backlogs[found[0]] = Backlog.resume(*found)
            undo.pop_all()

    def _recover(self, record: Record) -> None:
        record.parts = []  # memory may not suffice for all lines
        backlog = self._backlogs.get(record.key) or self._begin(record.key)
        self.used_bytes += record.size + _ROW_BYTES
        if backlog.is_closed or record.last_seq <= backlog.durable_seq:
            self._release(record)
        else:
            backlog.recover(record)
            self._backlogs[record.key] = backlog

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
        """Cache the lines of the newest records, so that delivery usually does not read the disk."""
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
            lost = f"events {record.first_seq} to {record.last_seq} of {record.key} are lost"
            advice = f"Check the disk; acknowledge through {record.last_seq} to go on without them"
            place = f"{self._file.path} is damaged at row {record.row}"
            raise RecordDamaged(f"{place}: {lost}. {advice}", record.last_seq)
        return lines

    def _release(self, record: Record) -> None:
        record.parts = []
        self._released.add(record.row)
        self._released_bytes += record.size + _ROW_BYTES

    def _begin(self, key: RunKey) -> Backlog:
        try:
            progress = self._progress.get(key) or self._file.find(key)
        except sqlite3.Error as error:
            raise OutboxUnusable(self.folder, str(error)) from error
        return Backlog.resume(key, progress) if progress else Backlog(key)

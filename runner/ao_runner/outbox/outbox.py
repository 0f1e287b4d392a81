"""The outbox: events of runs are durable here before anybody is told of them, and stay until the receiver has them.

One process owns the folder. It appends, syncs, hands out batches and takes acknowledgements; after a crash the next
owner finds every event that was reported as durable. One thread at a time may use it.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from ao_runner.outbox.backlog import Backlog, KeyState
from ao_runner.outbox.batch import Batch, gather
from ao_runner.outbox.buffer import Buffer
from ao_runner.outbox.cache import RecordCache
from ao_runner.outbox.errors import OutboxFull, OutboxUnreadable, OutboxUnusable, OutboxUnwritable
from ao_runner.outbox.owning import found_leftovers, note_empty, note_own, owned
from ao_runner.outbox.rebuilding import open_state
from ao_runner.outbox.recovery import Damage, recover
from ao_runner.outbox.segment import Disk
from ao_runner.outbox.spool import Spool
from ao_runner.outbox.state import Progress
from ao_runner.run_events import RunKey

ADMISSION: Final = 0.80
BACKPRESSURE: Final = 0.85
ORDINARY: Final = 0.90
"""Parts of the quota: up to which new runs find room, output is read, and events that do not end a run are kept."""


@dataclass(frozen=True, slots=True)
class OutboxOptions:
    """How much an outbox may hold on the disk and in memory, and through what it writes.

    A segment is deleted only as a whole, so another is begun after an eighth of the quota at most.
    """

    quota_bytes: int = 1 << 30
    segment_bytes: int = 8 << 20
    cache_bytes: int = 16 << 20
    disk: Disk = field(default_factory=Disk)
    has_a_knowing_coordinator: bool = False  # it ends begun runs of which nothing is here: a damaged state forgets them


class Outbox:
    """A folder of events that this process owns. Use it in a `with` block, or call `close`."""

    def __init__(self, folder: Path, options: OutboxOptions | None = None) -> None:
        """Own a folder, made when it is not there, and read what it holds.

        Raises:
            OutboxBusy: somebody owns it already.
            OutboxUnusable: the folder or the state in it cannot be read, written or repaired.
            StateDamaged: the state is damaged, and to make it anew could lose something.
        """
        self._folder = folder
        self._options = options or OutboxOptions()
        self._buffer = Buffer()
        self._cache = RecordCache(self._options.cache_bytes)
        self._progress = dict[RunKey, Progress]()
        self._is_open = True
        with ExitStack() as undo:
            try:
                self._lock = undo.enter_context(owned(folder))
                may_forget = self._options.has_a_knowing_coordinator or not found_leftovers(self._lock)
                self._state, self._damages = open_state(folder, may_forget_begun=may_forget)
                undo.callback(self._state.close)
                self._state.restore_reserve()
                self._recover()
            except (OSError, sqlite3.Error) as error:
                raise OutboxUnusable(folder, str(error)) from error
            undo.callback(self._spool.close)
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
        """What was found damaged or missing when the outbox was opened, in the order in which it was found."""
        return self._damages

    @property
    def used_bytes(self) -> int:
        """How much the events take, on the disk or on their way to it. The state file is not counted."""
        return self._spool.used_bytes + self._buffer.used_bytes

    @property
    def has_room(self) -> bool:
        """Say whether a new run may begin."""
        return self.used_bytes < self._options.quota_bytes * ADMISSION

    @property
    def is_full(self) -> bool:
        """Say whether to stop reading from executors until more is acknowledged."""
        return self.used_bytes >= self._options.quota_bytes * BACKPRESSURE

    def knows(self, key: RunKey) -> bool:
        """Tell whether there ever was an event of a key here.

        Raises:
            OutboxUnusable: the state of a key that is not open cannot be looked up.
        """
        return key in self._backlogs or self._begin(key).appended_seq > 0

    def open_keys(self) -> list[KeyState]:
        """Return the keys whose terminal event was not acknowledged, those that were found at opening first."""
        return [backlog.state for backlog in self._backlogs.values()]

    def expect(self, key: RunKey, note: str) -> None:
        """Remember, durably, that events of a key will come: after a crash it is among the open keys, with its note.

        Raises:
            OutboxUnwritable: it cannot be remembered now.
        """
        backlog = self._backlogs.get(key) or self._begin(key)
        backlog.note = note
        self._backlogs[key] = backlog
        self._progress[key] = Progress(backlog.acknowledged_seq, backlog.is_closed, note)
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
            OutboxUnusable: the state of a new key cannot be looked up.
            ValueError: there are no lines, or one has an LF in it.
        """
        backlog = self._backlogs.get(key) or self._begin(key)
        backlog.expect(first_seq)
        payload = b"\n".join(lines) + b"\n"
        if not lines or payload.count(b"\n") != len(lines):
            raise ValueError("events are given as one line each, without LF, and at least one")
        wanted, quota = self._buffer.needed_bytes(key, payload), self._options.quota_bytes
        if self.used_bytes + wanted > quota * (1 if ends else ORDINARY):
            raise OutboxFull(self._folder, wanted, self.used_bytes, quota)
        self._buffer.add(key, first_seq, len(lines), payload, ends=ends)
        backlog.appended_seq += len(lines)
        backlog.is_ended = ends
        self._backlogs[key] = backlog

    def sync(self) -> dict[RunKey, int]:
        """Make all that was appended durable and return through which seq that is, for each key with something new.

        Raises:
            OutboxUnwritable: the disk did not take it. Nothing is lost from memory; the next call tries again.
        """
        if not (records := self._buffer.list_records()):
            return {}
        try:
            stored = self._spool.write(records)
        except OSError as error:
            raise OutboxUnwritable(self._folder, str(error)) from error
        self._buffer.clear()
        for record in stored:
            self._backlogs[record.header.key].store(record)
            self._cache.add(record)
        return {record.header.key: record.header.last_seq for record in stored}

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
            return gather(backlog.iterate_after(after_seq), self._cache.payload, after_seq, max_events, max_bytes)
        except OSError as error:
            raise OutboxUnreadable(self._folder, str(error)) from error

    def acknowledge(self, key: RunKey, through_seq: int, note: str = "") -> None:
        """Remember that the receiver has all events up to a number. Less than before, or a closed key, changes nothing.

        A key is closed when its terminal event is acknowledged. What nobody needs any more is deleted now and then. The
        memory of it reaches the disk later: if that is lost, the same events are sent again under the same numbers.
        `note` is kept with it, and found again as `KeyState.note`: it can say what there is to know of events that may
        be gone.

        Raises:
            AcknowledgedTooMuch: those events are not durable here.
            OutboxUnusable: the state of a key that is not open cannot be looked up.
        """
        if (backlog := self._backlogs.get(key)) is None:
            backlog = self._begin(key)
        if backlog.is_closed or through_seq <= backlog.acknowledged_seq:
            return
        released = backlog.acknowledge(through_seq)
        backlog.note = "" if backlog.is_closed else note
        self._progress[key] = Progress(backlog.acknowledged_seq, backlog.is_closed, backlog.note)
        for record in released:
            record.segment.unacknowledged -= 1
            self._cache.drop(record)
        if backlog.is_closed:
            del self._backlogs[key]
            self._forget_left_over(key)
        if self._spool.list_finished():
            # The quota tells if that goes on failing, and `flush_state` says why.
            with suppress(OutboxUnwritable):
                self.flush_state()

    def flush_state(self) -> None:
        """Make the acknowledgements durable, and delete the segments that nobody needs any more.

        Raises:
            OutboxUnwritable: the disk did not take them; the next call tries again.
        """
        try:
            self._state.flush(self._progress)
        except sqlite3.Error as error:
            raise OutboxUnwritable(self._folder, str(error)) from error
        self._progress.clear()
        # A file that cannot be removed now is tried again with the next flush, and counts until then.
        with suppress(OSError):
            self._spool.delete_finished()
        self._state.restore_reserve()

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
                self._spool.close()
                self.flush_state()
            if not self._backlogs:
                note_empty(self._lock)

    def _recover(self) -> None:
        options = self._options
        recovered = recover(self._folder, self._state.find)
        segment_bytes = min(options.segment_bytes, options.quota_bytes // 8)
        self._spool = Spool(self._folder, recovered.segments, segment_bytes, options.disk)
        self._damages += recovered.damages
        known = self._state.list_open()
        self._backlogs = {key: Backlog.resume(key, progress) for key, progress in known.items()}
        for key, last_seq in recovered.last_seqs.items():
            backlog = self._backlogs.setdefault(key, Backlog(key))
            for record in recovered.records[key]:
                record.segment.unacknowledged += 1
                backlog.store(record)
            backlog.appended_seq = backlog.durable_seq = last_seq
            backlog.is_ended = backlog.has_terminal
        self._spool.delete_finished()
        self._left_over = set(self._backlogs)
        if not self._left_over:
            note_own(self._lock)

    def _forget_left_over(self, key: RunKey) -> None:
        if key not in self._left_over:
            return
        self._left_over.remove(key)
        if not self._left_over:
            # Whoever looks waits too long at the worst.
            with suppress(OSError):
                note_own(self._lock)

    def _begin(self, key: RunKey) -> Backlog:
        try:
            progress = self._progress.get(key) or self._state.find(key)
        except sqlite3.Error as error:
            raise OutboxUnusable(self._folder, str(error)) from error
        return Backlog.resume(key, progress) if progress else Backlog(key)

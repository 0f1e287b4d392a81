"""What an outbox knows of one key, and the batches that are handed out of it."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Self

from ao_runner.outbox.errors import AcknowledgedTooMuch, KeyEnded, SeqOutOfOrder
from ao_runner.outbox.outbox_file import Progress, Record
from ao_runner.run_events import RunKey


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
class Backlog:
    """The events of one key; `records` are those that are durable and not acknowledged, in order."""

    key: RunKey
    appended_seq: int = 0
    durable_seq: int = 0
    acknowledged_seq: int = 0
    is_ended: bool = False
    has_terminal: bool = False
    note: str = ""
    records: list[Record] = field(default_factory=list)

    @property
    def state(self) -> KeyState:
        """What the outside may know."""
        return KeyState(self.key, self.durable_seq, self.acknowledged_seq, self.has_terminal, self.note)

    @property
    def progress(self) -> Progress:
        """What is kept of the acknowledgements."""
        return Progress(self.acknowledged_seq, self.is_closed, "" if self.is_closed else self.note)

    @property
    def is_closed(self) -> bool:
        """Say whether the terminal event was acknowledged."""
        return self.has_terminal and self.acknowledged_seq == self.durable_seq

    @classmethod
    def resume(cls, key: RunKey, progress: Progress) -> Self:
        """Return the backlog of a key of which nothing is there but what was acknowledged."""
        seq, closed = progress.acknowledged_seq, progress.is_closed
        return cls(key, seq, seq, seq, is_ended=closed, has_terminal=closed, note=progress.note)

    def recover(self, record: Record) -> tuple[int, int] | None:
        """Take a record of an earlier owner, each in its order, and return from where to where events are lost."""
        known, self.durable_seq = self.durable_seq, record.last_seq
        self.appended_seq = record.last_seq
        if record.is_lost:
            return known + 1, record.last_seq
        self.records.append(record)
        self.is_ended = self.has_terminal = record.ends
        return (known + 1, record.first_seq - 1) if record.first_seq > known + 1 else None

    def expect(self, first_seq: int) -> None:
        """Do nothing if events can be appended from this number on.

        Raises:
            KeyEnded: the terminal event was appended.
            SeqOutOfOrder: another number comes next.
        """
        if self.is_ended:
            raise KeyEnded(self.key)
        if first_seq != self.appended_seq + 1:
            raise SeqOutOfOrder(self.key, first_seq, self.appended_seq + 1)

    def store(self, record: Record) -> None:
        """Take a record that is durable now."""
        self.records.append(record)
        self.durable_seq = record.last_seq
        self.has_terminal = record.ends

    def acknowledge(self, through_seq: int, note: str) -> list[Record]:
        """Return the records that nobody needs any more.

        Raises:
            AcknowledgedTooMuch: so much was never durable.
        """
        if through_seq > self.durable_seq:
            raise AcknowledgedTooMuch(self.key, through_seq, self.durable_seq)
        self.acknowledged_seq, self.note = through_seq, note
        done = bisect_right(self.records, through_seq, key=lambda record: record.last_seq)
        released, self.records[:done] = self.records[:done], []
        return released

    def iterate_after(self, seq: int) -> Iterator[Record]:
        """Yield the records that hold events with higher numbers."""
        first = bisect_right(self.records, seq, key=lambda record: record.last_seq)
        return (self.records[index] for index in range(first, len(self.records)))


def gather(
    records: Iterable[Record], read: Callable[[Record], bytes], after_seq: int, max_events: int, max_bytes: int
) -> Batch | None:
    """Return the events after a number, up to the limits or to a gap; one at least, if there is one.

    Args:
        records: those that hold them, in order; one that is not needed is not read.
        read: returns the lines of a record.
        after_seq: what was handed out before.
        max_events: the most events.
        max_bytes: the most bytes, but for a single event that has more.
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

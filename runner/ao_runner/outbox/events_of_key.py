"""The events of one key in an outbox: what is durable, what is acknowledged, and what is sent next."""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Self

from ao_runner.outbox.outbox_file import FileDamaged, Progress, Record
from ao_runner.run_events import EventBatch, RunKey


@dataclass(frozen=True, slots=True)
class KeyState:
    """The state of a key that is not closed. With `has_terminal`, its terminal event is durable."""

    key: RunKey
    durable_seq: int
    acknowledged_seq: int
    has_terminal: bool
    note: str = ""
    """The note of the last acknowledgement."""


@dataclass(frozen=True, slots=True)
class Batch(EventBatch):
    """Durable events. With `ends`, the last event is the terminal event."""

    ends: bool


@dataclass(slots=True, eq=False)
class Backlog:
    """The events of one key; `records` are the durable and unacknowledged ones, in order."""

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
        """Return the backlog of a key of which only the acknowledgements remain."""
        seq, closed = progress.acknowledged_seq, progress.is_closed
        return cls(key, seq, seq, seq, is_ended=closed, has_terminal=closed, note=progress.note)

    @property
    def progress(self) -> Progress:
        """The state of the acknowledgements to store."""
        return Progress(self.acknowledged_seq, self.is_closed, "" if self.is_closed else self.note)

    @property
    def is_closed(self) -> bool:
        """Whether the terminal event was acknowledged."""
        return self.has_terminal and self.acknowledged_seq == self.durable_seq

    def recover(self, record: Record) -> None:
        """Add a record of an earlier owner, in order.

        Raises:
            FileDamaged: The events before it are missing.
        """
        if record.first_seq > self.durable_seq + 1:
            raise FileDamaged(f"events {self.durable_seq + 1} to {record.first_seq - 1} of {self.key} are missing")
        self.appended_seq = self.durable_seq = record.last_seq
        self.records.append(record)
        self.is_ended = self.has_terminal = record.ends

    def records_after(self, seq: int) -> int:
        """Return the index of the first record that contains an event with a higher `seq`."""
        return bisect_right(self.records, seq, key=lambda record: record.last_seq)


def gather(
    records: Iterable[Record], read: Callable[[Record], bytes], after_seq: int, max_events: int, max_bytes: int
) -> Batch | None:
    """Return the events after a number, up to the limits or a gap, but at least one if available.

    Records that are not needed are not read.
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

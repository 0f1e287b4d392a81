"""One key's way through the outbox: what was appended, is durable, was acknowledged, and where it stands."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from ao_runner.outbox.errors import AcknowledgedTooMuch, KeyEnded, SeqOutOfOrder
from ao_runner.outbox.segment import StoredRecord
from ao_runner.outbox.state import Progress
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
    records: list[StoredRecord] = field(default_factory=list)

    @property
    def state(self) -> KeyState:
        """What the outside may know."""
        return KeyState(self.key, self.durable_seq, self.acknowledged_seq, self.has_terminal, self.note)

    @property
    def is_closed(self) -> bool:
        """Say whether the terminal event was acknowledged."""
        return self.has_terminal and self.acknowledged_seq == self.durable_seq

    @classmethod
    def resume(cls, key: RunKey, progress: Progress) -> Self:
        """Return the backlog of a key of which nothing is there but what was acknowledged."""
        seq, closed = progress.acknowledged_seq, progress.is_closed
        return cls(key, seq, seq, seq, is_ended=closed, has_terminal=closed, note=progress.note)

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

    def store(self, record: StoredRecord) -> None:
        """Take a record that is durable now."""
        self.records.append(record)
        self.durable_seq = max(self.durable_seq, record.header.last_seq)
        self.has_terminal = self.has_terminal or record.header.ends

    def acknowledge(self, through_seq: int) -> list[StoredRecord]:
        """Return the records that nobody needs any more.

        Raises:
            AcknowledgedTooMuch: so much was never durable.
        """
        if through_seq > self.durable_seq:
            raise AcknowledgedTooMuch(self.key, through_seq, self.durable_seq)
        self.acknowledged_seq = max(self.acknowledged_seq, through_seq)
        done = bisect_right(self.records, self.acknowledged_seq, key=lambda record: record.header.last_seq)
        released, self.records[:done] = self.records[:done], []
        return released

    def iterate_after(self, seq: int) -> Iterator[StoredRecord]:
        """Yield the records that hold events with higher numbers."""
        first = bisect_right(self.records, seq, key=lambda record: record.header.last_seq)
        return (self.records[index] for index in range(first, len(self.records)))

"""What is handed out for delivery: events of one key that follow each other."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate

from ao_runner.outbox.segment import StoredRecord
from ao_runner.run_events import RunKey


@dataclass(frozen=True, slots=True)
class Batch:
    """Durable events, numbered from `first_seq` without a gap; `payload` holds their lines verbatim, each with its LF.

    `ends` says that the last one is the terminal event.
    """

    key: RunKey
    first_seq: int
    last_seq: int
    payload: bytes
    ends: bool

    @property
    def lines(self) -> list[bytes]:
        """The events without their LF."""
        return self.payload[:-1].split(b"\n")


def gather(
    records: Iterable[StoredRecord],
    read: Callable[[StoredRecord], bytes],
    after_seq: int,
    max_events: int,
    max_bytes: int,
) -> Batch | None:
    """Return the events after a number, up to the limits or to a gap; one at least, if there is one.

    Args:
        records: those that hold them, in order; one that is not needed is not read.
        read: returns the lines of a record.
        after_seq: what was handed out before.
        max_events: the most events.
        max_bytes: the most bytes, but for a single event that has more.
    """
    payloads, taken = list[bytes](), list[StoredRecord]()
    for record in records:
        header = record.header
        begins_inside = header.first_seq <= after_seq
        fits = not begins_inside and header.count <= max_events and header.size <= max_bytes
        if not taken and not fits:
            return _part(record, read(record), max(after_seq + 1, header.first_seq), max_events, max_bytes)
        if not fits or (taken and header.first_seq != taken[-1].header.last_seq + 1):
            break
        payloads.append(read(record))
        taken.append(record)
        max_events -= header.count
        max_bytes -= header.size
    if not taken:
        return None
    first, last = taken[0].header, taken[-1].header
    return Batch(first.key, first.first_seq, last.last_seq, b"".join(payloads), last.ends)


def _part(record: StoredRecord, payload: bytes, first_seq: int, max_events: int, max_bytes: int) -> Batch:
    header = record.header
    begin = first_seq - header.first_seq
    lines = payload[:-1].split(b"\n")[begin : begin + max_events]
    count = sum(size <= max_bytes for size in accumulate(len(line) + 1 for line in lines)) or 1
    last_seq, text = first_seq + count - 1, b"\n".join(lines[:count]) + b"\n"
    return Batch(header.key, first_seq, last_seq, text, header.ends and last_seq == header.last_seq)

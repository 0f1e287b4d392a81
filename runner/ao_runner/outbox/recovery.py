"""What a folder of segments holds after its owner ended, in whatever way, and what is missing."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ao_runner.outbox.record import Broken, Header, Intact, scan
from ao_runner.outbox.segment import Segment, StoredRecord, cut
from ao_runner.outbox.state import Progress
from ao_runner.run_events import RunKey


@dataclass(frozen=True, slots=True)
class Lost:
    """Events of a key that are not there, both ends included."""

    key: RunKey
    from_seq: int
    to_seq: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are no record, or one that is there twice. 0 bytes: something before them is missing.

    `lost` holds what is known to be missing: the header was readable, or a later record of the same key follows a gap.
    Such a gap is counted to the nearest damage before that record. `was_cut` marks the end of the newest segment, which
    was removed, and whose numbers are used again: it is what a crash leaves before anybody was told of the events.
    """

    path: Path
    offset: int
    bytes: int
    lost: tuple[Lost, ...] = ()
    was_cut: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """All segments; of keys that are not closed the unacknowledged records, in order, and the highest number used."""

    segments: list[Segment]
    records: dict[RunKey, list[StoredRecord]]
    last_seqs: dict[RunKey, int]
    damages: tuple[Damage, ...]


def recover(folder: Path, find: Callable[[RunKey], Progress | None]) -> Recovered:
    """Read the segments of a folder; cut a damaged end off the newest one and make what is left of it durable.

    Never raises because of what the bytes are. Reads one segment at a time.

    Args:
        folder: that of the segments.
        find: tells what is known of a key's acknowledgements.

    Raises:
        OSError: a file cannot be read or cut.
    """
    reading = _Reading()
    segments = Segment.list_all(folder)
    for segment in segments:
        content = segment.path.read_bytes()
        for piece in scan(content, segment.mark):
            reading.add(segment, piece)
    if segments:
        newest = segments[-1]
        newest.size = reading.take_tail(newest)
        cut(newest.path, newest.size)
    records, last_seqs = dict[RunKey, list[StoredRecord]](), dict[RunKey, int]()
    for key in reading.found.keys() | reading.claims.keys():
        progress = find(key) or Progress(0, is_closed=False)
        if progress.is_closed:
            continue
        in_order, last_seq = reading.put_in_order(key, progress.acknowledged_seq)
        if last_seq:
            records[key], last_seqs[key] = in_order, last_seq
    return Recovered(segments, records, last_seqs, tuple(reading.damages))


@dataclass(slots=True)
class _Reading:
    """What was read so far. Numbers next to a record or a header say which of the damages was the last before it."""

    damages: list[Damage] = field(default_factory=list)
    found: defaultdict[RunKey, list[tuple[StoredRecord, int]]] = field(default_factory=lambda: defaultdict(list))
    claims: defaultdict[RunKey, list[tuple[Header, int]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, segment: Segment, piece: Intact | Broken) -> None:
        match piece:
            case Intact(header, _, payload_offset):
                stored = StoredRecord(header, segment, payload_offset)
                self.found[header.key].append((stored, len(self.damages) - 1))
            case Broken(header, offset, size):
                self.damages.append(Damage(segment.path, offset, size))
                if header:
                    self.claims[header.key].append((header, len(self.damages) - 1))

    def take_tail(self, newest: Segment) -> int:
        """Turn the damages at the end of a segment into one that was cut, and return where the good part ends."""
        size = newest.size
        while self.damages and self.damages[-1].path == newest.path and _end(self.damages[-1]) == size:
            size = self.damages.pop().offset
        if size < newest.size:
            self.damages.append(Damage(newest.path, size, newest.size - size, was_cut=True))
        last = len(self.damages) - 1
        for key, claims in self.claims.items():
            self.claims[key] = [(header, min(damage, last)) for header, damage in claims]
        return size

    def put_in_order(self, key: RunKey, acknowledged_seq: int) -> tuple[list[StoredRecord], int]:
        """Return the unacknowledged records of a key, each once, and its highest number; note what is missing."""
        last_seq, records = 0, list[StoredRecord]()
        for record, before in sorted(self.found[key], key=lambda each: each[0].header.first_seq):
            header, known, damage = record.header, max(last_seq, acknowledged_seq), before
            if header.first_seq <= last_seq:
                self.damages.append(Damage(record.segment.path, record.offset, header.size))
                continue
            if header.first_seq > known + 1:
                if damage < 0:
                    damage = len(self.damages)
                    self.damages.append(Damage(record.segment.path, record.offset, 0))
                self._lose(Lost(key, known + 1, header.first_seq - 1), damage)
            last_seq = header.last_seq
            if last_seq > acknowledged_seq:
                records.append(record)
        return records, self._lose_end(key, max(last_seq, acknowledged_seq))

    def _lose_end(self, key: RunKey, last_seq: int) -> int:
        claims = [(header, damage) for header, damage in self.claims[key] if header.last_seq > last_seq]
        for header, damage in claims:
            if self.damages[damage].was_cut:
                self._note(Lost(key, header.first_seq, header.last_seq), damage)
            elif header.last_seq > last_seq:
                self._lose(Lost(key, last_seq + 1, header.last_seq), damage)
                last_seq = header.last_seq
        return last_seq

    def _lose(self, lost: Lost, nearest: int) -> None:
        from_seq = lost.from_seq
        for header, damage in sorted(self.claims[lost.key], key=lambda claim: claim[0].first_seq):
            if from_seq <= header.first_seq and header.last_seq <= lost.to_seq:
                if from_seq < header.first_seq:
                    self._note(Lost(lost.key, from_seq, header.first_seq - 1), nearest)
                self._note(Lost(lost.key, header.first_seq, header.last_seq), damage)
                from_seq = header.last_seq + 1
        if from_seq <= lost.to_seq:
            self._note(Lost(lost.key, from_seq, lost.to_seq), nearest)

    def _note(self, lost: Lost, damage: int) -> None:
        self.damages[damage] = replace(self.damages[damage], lost=(*self.damages[damage].lost, lost))


def _end(damage: Damage) -> int:
    return damage.offset + damage.bytes

"""The segments of a folder, oldest first: where the next records go, how much they take, which are done with."""

from collections.abc import Sequence
from pathlib import Path

from ao_runner.outbox.record import Record
from ao_runner.outbox.segment import Disk, Segment, SegmentWriter, StoredRecord


class Spool:
    """Writes to the newest segment and begins another when it is large enough, or not to be trusted any more.

    What an earlier process wrote is never appended to.
    """

    def __init__(self, folder: Path, segments: list[Segment], segment_bytes: int, disk: Disk) -> None:
        self._folder = folder
        self._segments = segments
        self._segment_bytes = segment_bytes
        self._disk = disk
        self._writer: SegmentWriter | None = None
        self._next_number = segments[-1].number + 1 if segments else 1

    @property
    def used_bytes(self) -> int:
        """How much the segments take."""
        return sum(segment.size for segment in self._segments)

    def write(self, records: Sequence[Record]) -> list[StoredRecord]:
        """Make records durable, all or none.

        Raises:
            OSError: none is kept; the next call tries again.
        """
        self._leave_full()
        if self._writer is None:
            segment = Segment.name_new(self._folder, self._next_number)
            self._writer = SegmentWriter(segment, self._disk)
            self._segments.append(segment)
            self._next_number += 1
        return self._writer.write(records)

    def list_finished(self) -> list[Segment]:
        """Return the segments that hold nothing for anybody and are not written to any more."""
        self._leave_full()
        current = self._writer.segment if self._writer else None
        return [segment for segment in self._segments if segment.unacknowledged == 0 and segment is not current]

    def delete_finished(self) -> None:
        """Remove these segments. The acknowledgements have to be durable before.

        Raises:
            OSError: not all of them could be removed.
        """
        for segment in self.list_finished():
            segment.path.unlink(missing_ok=True)
            self._segments.remove(segment)

    def close(self) -> None:
        """Stop writing to the newest segment."""
        if self._writer:
            self._writer.close()
            self._writer = None

    def _leave_full(self) -> None:
        if self._writer and (not self._writer.is_sound or self._writer.segment.size >= self._segment_bytes):
            self.close()

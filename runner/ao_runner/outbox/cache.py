"""Lines of the newest records in memory, so that in the usual case delivery does not read the disk."""

from collections import deque

from ao_runner.outbox.errors import RecordDamaged
from ao_runner.outbox.record import is_whole
from ao_runner.outbox.segment import StoredRecord


class RecordCache:
    """Bounded by bytes; the oldest go first. One record that had to be read from the disk is kept besides."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._used_bytes = 0
        self._records = deque[StoredRecord]()
        self._last_read: tuple[StoredRecord, bytes] | None = None

    def add(self, record: StoredRecord) -> None:
        """Take a record with its payload."""
        self._records.append(record)
        self._used_bytes += record.header.size
        while self._used_bytes > self._limit_bytes:
            self._leave_oldest()

    def drop(self, record: StoredRecord) -> None:
        """Forget a record's payload. Its bytes count until older ones are gone: so the list is bounded too."""
        record.payload = None
        while self._records and self._records[0].payload is None:
            self._leave_oldest()

    def _leave_oldest(self) -> None:
        oldest = self._records.popleft()
        oldest.payload = None
        self._used_bytes -= oldest.header.size

    def payload(self, record: StoredRecord) -> bytes:
        """Return a record's lines, from memory or from its file.

        Raises:
            RecordDamaged: the file does not hold any more what was written.
            OSError: the file cannot be read.
        """
        if record.payload is not None:
            return record.payload
        if self._last_read is None or self._last_read[0] is not record:
            payload, header = record.read(), record.header
            if not is_whole(header, payload):
                path, offset = record.segment.path, record.offset
                raise RecordDamaged(path, offset, header.key, header.first_seq, header.last_seq)
            self._last_read = record, payload
        return self._last_read[1]

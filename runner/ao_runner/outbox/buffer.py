"""Events that were appended and are not durable yet."""

import zlib
from dataclasses import dataclass, field
from typing import Final

from ao_runner.outbox.record import Header, Record, header_bound
from ao_runner.run_events import RunKey

_ENOUGH_BYTES: Final = 1 << 20
"""A record that has so much takes no further lines: it is read back as a whole."""


@dataclass(slots=True, eq=False)
class _Growing:
    first_seq: int
    payloads: list[bytes] = field(default_factory=list)
    size: int = 0
    count: int = 0
    ends: bool = False


class Buffer:
    """Gathers the lines of each key into records. `used_bytes` is at least what they take on the disk."""

    def __init__(self) -> None:
        self.used_bytes = 0
        self._growing = dict[RunKey, _Growing]()
        self._records = list[Record]()

    def needed_bytes(self, key: RunKey, payload: bytes) -> int:
        """Return by how much adding a payload raises `used_bytes`."""
        return len(payload) + (0 if key in self._growing else header_bound(key))

    def add(self, key: RunKey, first_seq: int, count: int, payload: bytes, *, ends: bool) -> None:
        """Take as many lines, each with its LF, that follow those of the key which are here already."""
        self.used_bytes += self.needed_bytes(key, payload)
        growing = self._growing.setdefault(key, _Growing(first_seq))
        growing.payloads.append(payload)
        growing.size += len(payload)
        growing.count += count
        growing.ends = ends
        if growing.size >= _ENOUGH_BYTES:
            self._finish(key, self._growing.pop(key))

    def list_records(self) -> list[Record]:
        """Return all there is, in order. What was returned once never changes, so writing it twice is harmless."""
        for key, growing in self._growing.items():
            self._finish(key, growing)
        self._growing.clear()
        return self._records

    def clear(self) -> None:
        """Forget all of it: it is durable."""
        self._records = []
        self.used_bytes = 0

    def _finish(self, key: RunKey, growing: _Growing) -> None:
        payload = b"".join(growing.payloads)
        header = Header(key, growing.first_seq, growing.count, len(payload), zlib.crc32(payload), growing.ends)
        self._records.append(Record(header, payload))

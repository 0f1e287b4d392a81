"""A segment: one file of records, and the only code that writes to it."""

import os
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Final, Self

from ao_runner.outbox.record import Header, Record, encode_header

_NAME: Final = re.compile(r"([0-9]{12})-([0-9a-f]{16})\.jsonl")
_FDATASYNC: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)
"""Darwin has no fdatasync."""

_MAX_BUFFERS: Final = 1024
"""How many buffers Linux takes in one call (IOV_MAX)."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The two system calls by which events become durable. A test of a failing disk hands in its own."""

    writev: Callable[[int, Sequence[bytes]], int] = os.writev
    fdatasync: Callable[[int], None] = _FDATASYNC


@dataclass(slots=True, eq=False)
class Segment:
    """A file of records: how much of it is good, and how many of its records nobody has acknowledged."""

    path: Path
    number: int
    mark: str
    size: int = 0
    unacknowledged: int = 0

    @classmethod
    def name_new(cls, folder: Path, number: int) -> Self:
        """Return the segment of this number, with a mark that nobody can guess; no file is made."""
        mark = secrets.token_hex(8)
        return cls(folder / f"{number:012}-{mark}.jsonl", number, mark)

    @classmethod
    def list_all(cls, folder: Path) -> list[Self]:
        """Return the segments of a folder in the order in which they were written; other files are left out."""
        names = ((path, _NAME.fullmatch(path.name)) for path in folder.iterdir())
        found = [cls(path, int(name[1]), name[2], path.stat().st_size) for path, name in names if name]
        return sorted(found, key=lambda segment: segment.path.name)


@dataclass(slots=True, eq=False)
class StoredRecord:
    """A record on the disk, whose lines begin at `offset`; `payload` is there while they are in memory too."""

    header: Header
    segment: Segment
    offset: int
    payload: bytes | None = None

    def read(self) -> bytes:
        """Return the lines as they are in the file now.

        Raises:
            OSError: the file cannot be read.
        """
        with self.segment.path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), self.header.size, self.offset)


class SegmentWriter:
    """Appends to one new segment. `is_sound` turns false when its file must not be written to any more."""

    def __init__(self, segment: Segment, disk: Disk) -> None:
        """Make the file, durably.

        Raises:
            OSError: it cannot be made; nothing is left behind.
        """
        self.segment = segment
        self.is_sound = True
        self._disk = disk
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._descriptor = os.open(segment.path, flags, 0o600)
        try:
            sync_folder(segment.path.parent)
        except BaseException:
            self.close()
            segment.path.unlink()
            raise

    def write(self, records: Sequence[Record]) -> list[StoredRecord]:
        """Make records durable, all or none, with one write and one fdatasync.

        Raises:
            OSError: none is kept, and the file ends where it ended before.
        """
        size, chunks, stored = self.segment.size, list[bytes](), list[StoredRecord]()
        for record in records:
            header = encode_header(record.header, self.segment.mark)
            stored.append(StoredRecord(record.header, self.segment, size + len(header), record.payload))
            chunks += header, record.payload
            size += len(header) + len(record.payload)
        try:
            self._write_all(chunks)
        except BaseException:
            self._cut_back()
            raise
        try:
            self._disk.fdatasync(self._descriptor)
        except BaseException:
            # The kernel may have dropped the pages and told so only once: a second call would succeed and mean nothing.
            self.is_sound = False
            self._cut_back()
            raise
        self.segment.size = size
        self.segment.unacknowledged += len(stored)
        return stored

    def close(self) -> None:
        """Give the file back."""
        os.close(self._descriptor)

    def _write_all(self, chunks: list[bytes]) -> None:
        buffers = iter(chunks)
        while group := list(islice(buffers, _MAX_BUFFERS)):
            written = self._disk.writev(self._descriptor, group)
            if written < sum(map(len, group)):
                buffers = chain([b"".join(group)[written:]], buffers)

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._descriptor, self.segment.size)
        except OSError:
            self.is_sound = False


def cut(path: Path, size: int) -> None:
    """Shorten a file and make all that is left durable: a process that was killed had perhaps written, but not synced.

    Raises:
        OSError: it could not be done.
    """
    with path.open("r+b") as file:
        os.ftruncate(file.fileno(), size)
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable.

    Raises:
        OSError: it could not be done.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

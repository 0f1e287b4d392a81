"""A record: event lines of one key, after a header line that tells whose they are. Only bytes here, no files.

    {"outbox":1,"mark":"0f1e2d3c4b5a6978","run_id":"run_1","attempt":1,"first_seq":7,"count":2,"bytes":22,
     "bytes_crc32":"89abcdef","ends":false,"crc32":"01234567"}                            (one line in the file)
    {"seq":7}
    {"seq":8}

`bytes_crc32` covers the event lines, `crc32` the header up to itself. The mark is random, one for each segment, and
also in the segment's name: event lines that look like a header, by chance or on purpose, are never taken for one.
"""

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ao_runner.run_events import RunKey

_MAX_HEADER_BYTES: Final = 8192
_CRC_BYTES: Final = len(b',"crc32":"01234567"}\n')
_NUMBER: Final = rb"([1-9][0-9]{0,17})"
_HEADER: Final = re.compile(
    rb'\{"outbox":1,"mark":"[0-9a-f]{16}","run_id":("[^\n]*"),"attempt":'
    + _NUMBER
    + rb',"first_seq":'
    + _NUMBER
    + rb',"count":'
    + _NUMBER
    + rb',"bytes":'
    + _NUMBER
    + rb',"bytes_crc32":"([0-9a-f]{8})","ends":(true|false)'
)


@dataclass(frozen=True, slots=True)
class Header:
    """Whose events a record holds, and how to know that they are whole. `size` is in bytes, `crc32` is of the lines."""

    key: RunKey
    first_seq: int
    count: int
    size: int
    crc32: int
    ends: bool

    @property
    def last_seq(self) -> int:
        """The number of the record's last event."""
        return self.first_seq + self.count - 1


@dataclass(frozen=True, slots=True)
class Record:
    """Events to be written: `payload` holds the lines verbatim, each with its LF."""

    header: Header
    payload: bytes


@dataclass(frozen=True, slots=True)
class Intact:
    """A record that was found whole; its event lines begin at `payload_offset`."""

    header: Header
    offset: int
    payload_offset: int

    @property
    def end(self) -> int:
        """The offset of the first byte after the record."""
        return self.payload_offset + self.header.size


@dataclass(frozen=True, slots=True)
class Broken:
    """Bytes that are no whole record; `header` is there when it alone is whole, and says what was lost."""

    header: Header | None
    offset: int
    size: int


def header_bound(key: RunKey) -> int:
    """Return how many bytes a header of this key takes at most."""
    return 256 + len(json.dumps(key.run_id))


def encode_header(header: Header, mark: str) -> bytes:
    """Return the header line, with its LF."""
    line = (
        f'{{"outbox":1,"mark":"{mark}","run_id":{json.dumps(header.key.run_id)},"attempt":{header.key.attempt},'
        f'"first_seq":{header.first_seq},"count":{header.count},"bytes":{header.size},'
        f'"bytes_crc32":"{header.crc32:08x}","ends":{"true" if header.ends else "false"}'
    ).encode()
    return line + b',"crc32":"%08x"}\n' % zlib.crc32(line)


def decode_header(line: bytes, mark: str) -> Header | None:
    """Return what a line says, with its LF, or None unless it is a header of this segment as it was written."""
    covered = line[:-_CRC_BYTES]
    if not line.startswith(_beginning(mark)) or line[len(covered) :] != b',"crc32":"%08x"}\n' % zlib.crc32(covered):
        return None
    if (match := _HEADER.fullmatch(covered)) is None:
        return None
    run_id, attempt, first_seq, count, size, crc32, ends = match.groups()
    try:
        key = RunKey(json.loads(run_id), int(attempt))
    except ValueError:
        return None
    return Header(key, int(first_seq), int(count), int(size), int(crc32, 16), ends == b"true")


def is_whole(header: Header, payload: bytes) -> bool:
    """Say whether these are the event lines that the header was written for."""
    return (
        len(payload) == header.size
        and zlib.crc32(payload) == header.crc32
        and payload.endswith(b"\n")
        and payload.count(b"\n") == header.count
    )


def scan(content: bytes, mark: str) -> Iterator[Intact | Broken]:
    """Tell all records of a segment from what is none, in order and without a byte left out.

    Never raises, whatever the bytes are. After damage it goes on at the next place that looks like a header.
    """
    offset = 0
    while offset < len(content):
        header, payload_offset = _header_at(content, offset, mark)
        if header and is_whole(header, content[payload_offset : payload_offset + header.size]):
            intact = Intact(header, offset, payload_offset)
            yield intact
            offset = intact.end
        else:
            following = content.find(_beginning(mark), offset + 1)
            end = len(content) if following < 0 else following
            yield Broken(header, offset, end - offset)
            offset = end


def _header_at(content: bytes, offset: int, mark: str) -> tuple[Header | None, int]:
    end = content.find(b"\n", offset, offset + _MAX_HEADER_BYTES) + 1
    return (decode_header(content[offset:end], mark) if end else None), end


def _beginning(mark: str) -> bytes:
    return b'{"outbox":1,"mark":"%s",' % mark.encode()

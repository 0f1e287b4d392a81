"""What stands in a segment, byte for byte, and how it is found again among damage."""

import pytest

from ao_runner.outbox.record import Broken, Header, Intact, decode_header, encode_header, header_bound, scan
from ao_runner.run_events import RunKey

MARK = "0f1e2d3c4b5a6978"
FIRST = Header(RunKey("run_1", 1), first_seq=7, count=2, size=20, crc32=0xE33618F2, ends=False)
FIRST_BYTES = (
    b'{"outbox":1,"mark":"0f1e2d3c4b5a6978","run_id":"run_1","attempt":1,"first_seq":7,"count":2,"bytes":20,'
    b'"bytes_crc32":"e33618f2","ends":false,"crc32":"f238594c"}\n'
    b'{"seq":7}\n'
    b'{"seq":8}\n'
)
LAST = Header(RunKey('r"\u00fc\n', 2), first_seq=1, count=1, size=3, crc32=0xDDA1B006, ends=True)
LAST_BYTES = (
    b'{"outbox":1,"mark":"0f1e2d3c4b5a6978","run_id":"r\\"\\u00fc\\n","attempt":2,"first_seq":1,"count":1,"bytes":3,'
    b'"bytes_crc32":"dda1b006","ends":true,"crc32":"f979ab8c"}\n'
    b"{}\n"
)


@pytest.mark.parametrize(("header", "content"), [(FIRST, FIRST_BYTES), (LAST, LAST_BYTES)], ids=["first", "last"])
def test_a_record_is_a_header_line_and_the_event_lines(header: Header, content: bytes) -> None:
    line = content[: content.index(b"\n") + 1]

    assert encode_header(header, MARK) == line
    assert decode_header(line, MARK) == header
    assert len(line) <= header_bound(header.key)
    assert list(scan(content, MARK)) == [Intact(header, 0, len(line))]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"\0" * 9, [Broken(None, 0, 9)], id="zeros"),
        pytest.param(
            b"x" + FIRST_BYTES, [Broken(None, 0, 1), Intact(FIRST, 1, len(FIRST_BYTES) - 19)], id="something before"
        ),
        pytest.param(FIRST_BYTES[:-1], [Broken(FIRST, 0, len(FIRST_BYTES) - 1)], id="torn lines"),
        pytest.param(FIRST_BYTES[:50], [Broken(None, 0, 50)], id="a torn header"),
        pytest.param(
            FIRST_BYTES[:-1] + LAST_BYTES,
            [
                Broken(FIRST, 0, len(FIRST_BYTES) - 1),
                Intact(LAST, len(FIRST_BYTES) - 1, len(FIRST_BYTES) + len(LAST_BYTES) - 4),
            ],
            id="a lost LF",
        ),
        pytest.param(
            FIRST_BYTES.replace(b'"first_seq":7', b'"first_seq":6'),
            [Broken(None, 0, len(FIRST_BYTES))],
            id="another number in the header",
        ),
        pytest.param(
            FIRST_BYTES.replace(MARK.encode(), b"0" * 16),
            [Broken(None, 0, len(FIRST_BYTES))],
            id="the mark of another segment",
        ),
    ],
)
def test_what_is_no_whole_record_is_told_from_what_is(content: bytes, found: list[Intact | Broken]) -> None:
    assert list(scan(content, MARK)) == found


@pytest.mark.parametrize(
    ("run_id", "attempt"),
    [("", 1), ("x" * 513, 1), ("\u0001" * 512, 1), ("\ud800", 1), ("run", 0), ("run", 10**18)],
    ids=["empty", "long", "long as JSON", "no unicode", "attempt 0", "attempt too large"],
)
def test_a_key_that_could_not_be_read_back_is_refused(run_id: str, attempt: int) -> None:
    with pytest.raises(ValueError, match=r"run_id|attempts"):
        RunKey(run_id, attempt)

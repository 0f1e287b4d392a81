"""What is told by likeness is what would have been told by reading: the same events, the same texts, in blocks, too."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.events import InvalidEvent, parse_event
from ao_protocol.events.event_template import Likeness, likeness_of
from ao_protocol.events.plain import plain_event
from ao_protocol.framing import LineTooLong

ENVELOPE = {"session_id": "ses_1", "run_id": "run_1", "seq": 2, "timestamp": "2026-01-10T12:00:00.123Z"}
TEXT = {"type": "text", "text": "Hi"}
BODIES: dict[str, dict[str, Any]] = {
    "message_delta": {"message_id": "m1", "role": "assistant", "content": [TEXT]},
    "message": {"message_id": "m1", "role": "user", "content": [TEXT]},
    "log": {"level": "info", "message": "Hi"},
}


def line_of(seq: int, text: str, kind: str = "message_delta", **changes: Any) -> bytes:
    told = {"message": text} if kind == "log" else {"content": [{"type": "text", "text": text}]}
    document = {"event_type": kind, **ENVELOPE, **BODIES[kind], **told, "seq": seq, **changes}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=len(text) % 2 == 0).encode()


def learned(line: bytes) -> Likeness:
    document = plain_event(line)
    assert document is not None
    like = likeness_of(line, document)
    assert like is not None
    return like


LIKE_DELTAS = learned(line_of(2, "Hi"))


def texts_of(*lines: bytes | LineTooLong, seq: int = 3) -> list[str]:
    return LIKE_DELTAS.texts_of(lines, 0, 100, seq)


def texts_by_reading(lines: list[bytes], seq: int) -> list[str]:
    """Return what `parse_event` alone says of the lines, up to the first that is not the next delta of the message."""
    texts: list[str] = []
    for number, line in enumerate(lines, seq):
        try:
            document = parse_event(line).to_document()
        except InvalidEvent:
            break
        is_delta = document["event_type"] == "message_delta"
        text = str(document["content"][0]["text"]) if is_delta else ""  # type: ignore[index,call-overload]  # deltas have it
        if json.loads(line) | ENVELOPE != json.loads(line_of(number, text)) | ENVELOPE:
            break
        if (document["seq"], document["run_id"], document["session_id"]) != (number, "run_1", "ses_1"):
            break
        texts.append(text)
    return texts


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("written", [json.dumps, lambda value: json.dumps(value, separators=(",", ":"))])
def test_events_that_differ_in_number_time_and_text_are_alike(kind: str, written: Any) -> None:
    document = {"event_type": kind, **ENVELOPE, **BODIES[kind]}
    first, other = (
        document | {"seq": seq, "timestamp": time} | json.loads(json.dumps(BODIES[kind]).replace("Hi", text))
        for seq, time, text in [(9, "2026-01-10T12:00:00Z", "Hi"), (10, "2026-01-10T12:00:00.250001Z", "Grüße")]
    )
    like = learned(written(first).encode())

    assert like.of == (kind, document.get("message_id", ""))
    assert like.texts_of([written(first).encode(), written(other).encode()], 0, 100, 9) == ["Hi", "Grüße"]


def test_texts_are_decoded_and_as_many_as_wanted_from_where_it_is_wanted() -> None:
    told = ["", "a\n", '"', "\\", "é", "e", "\U0001f600!", "\U0001f600"]
    lines = [line_of(seq, text) for seq, text in enumerate(told, 3)]

    assert texts_of(*lines) == told
    assert LIKE_DELTAS.texts_of(lines, 2, 3, 5) == told[2:5]
    assert texts_of(lines[0], LineTooLong(9), lines[2]) == told[:1]


@pytest.mark.parametrize(
    "line",
    [
        line_of(4, "Hi"),
        line_of(3, "Hi", message_id="m2"),
        line_of(3, "Hi", run_id="run_2"),
        line_of(3, "Hi", timestamp="today"),
        line_of(3, "Hi", timestamp='"'),
        line_of(3, "Hi", "log"),
        line_of(3, "Hi", more=1),
        line_of(3, "Hi") + b" ",
        b" " + line_of(3, "Hi"),
        line_of(3, "?").replace(b'?"', b""),
        line_of(3, "?").replace(b"?", b'a"b'),
        line_of(3, "?").replace(b"?", b"\\"),
        line_of(3, "?").replace(b"?", b"\t"),
        line_of(3, "?").replace(b"?", b"\xff"),
        line_of(3, "?").replace(b"?", b"\\ud800"),
        line_of(3, "?").replace(b"?", b'"},{"type":"text","text":"'),
        line_of(3, "").replace(b"3", b"03"),
        b"",
    ],
)
def test_any_other_line_is_left_to_be_read_and_ends_the_block(line: bytes) -> None:
    assert texts_of(line) == []
    assert texts_of(line_of(2, "Hi"), line, line_of(4, "Hi"), seq=2) == ["Hi"]


@pytest.mark.parametrize(
    "written",
    [
        [b'a","b', b"c\\"],
        [b'a",["b', b"c", b'd"],"e'],
        [b'a",{"b":"c"},"d', b'"],["'],
        [b"a", b'b"],"c', b"d"],
        [b"a\\", b',"b'],
        [b"a\\", b'","b'],
        [b"a", b"\\u12", b"34"],
    ],
)
def test_texts_that_would_be_valid_only_together_are_not(written: list[bytes]) -> None:
    lines = [line_of(seq, "?").replace(b"?", text) for seq, text in enumerate(written, 3)]

    assert texts_of(*lines) == texts_by_reading(lines, 3)


@pytest.mark.parametrize(
    "line",
    [
        line_of(2, "Hi").replace(b'"seq":2,', b"")[:-1] + b',"seq":2}',
        line_of(2, "Hi", "log").replace(b'"level"', b'"more":{"message":"Hi"},"level"'),
        line_of(2, "Hi", content=[TEXT, TEXT]),
        line_of(2, "Hi", content=[]),
        line_of(2, "Hi").replace(b'"seq"', b'"more":{"seq":1},"seq"'),
        line_of(2, "Hi" * 3000),
    ],
    ids=["number at the end", "two messages", "two texts", "no text", "two numbers", "long"],
)
def test_where_the_parts_cannot_be_told_for_certain_nothing_is_learned(line: bytes) -> None:
    document = plain_event(line)
    assert document is not None

    assert likeness_of(line, document) is None


SCRAPS = st.sampled_from(
    [*(character.encode() for character in '"\\:{}[],\r\t\0'), b'","', b'"],["', b"\\u", b"\\ud800", b"\xc3", b"1e0"]
) | st.binary(max_size=2).filter(lambda scrap: b"\n" not in scrap)


@given(st.lists(st.text(max_size=4), min_size=1, max_size=6), st.data())
def test_a_block_that_was_damaged_anywhere_is_judged_as_its_lines_are(texts: list[str], data: st.DataObject) -> None:
    lines = [line_of(seq, text) for seq, text in enumerate(texts, 3)]
    assert texts_of(*lines) == texts

    for _ in range(data.draw(st.integers(1, 3))):
        hit = data.draw(st.integers(0, len(lines) - 1))
        at = data.draw(st.integers(0, len(lines[hit])) | st.integers(len(lines[hit]) - 12, len(lines[hit])))
        cut = data.draw(st.integers(0, 2))
        lines[hit] = lines[hit][:at] + data.draw(SCRAPS) + lines[hit][at + cut :]

    told, read = texts_of(*lines), texts_by_reading(lines, 3)
    assert told == read[: len(told)]


@given(st.binary(max_size=30), st.integers(0, 250), st.integers(0, 6))
def test_whatever_is_learned_from_it_takes_no_line_that_is_read_otherwise(scrap: bytes, at: int, cut: int) -> None:
    line = line_of(2, "Hi")
    line = line[:at] + scrap.replace(b"\n", b"") + line[at + cut :]
    document = plain_event(line)
    like = None if document is None else likeness_of(line, document)
    if document is None or like is None:
        return
    text = document["message"] if document["event_type"] == "log" else document["content"][0]["text"]

    assert like.texts_of([line], 0, 1, document["seq"]) == [text]
    assert like.of == (document["event_type"], document.get("message_id", ""))

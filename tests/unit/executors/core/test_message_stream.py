"""A message in pieces: what is written at once, what waits, and what is never cut."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_executors.core import Emitter, MessageStream
from ao_protocol.redaction import Redactor

SECRET = "sk-key-sk-key-0123"
SECRETS = {"A": SECRET, "B": "sk-key-sk", "C": "0123aaaaaaaa"}


class Written(list[bytes]):
    """The lines of a run; `more` is set by each of them."""

    def __init__(self) -> None:
        self.more = asyncio.Event()

    def write(self, line: bytes) -> None:
        self.append(line)
        self.more.set()

    def texts(self, event_type: str) -> list[str]:
        documents: Iterator[dict[str, Any]] = map(json.loads, self)
        return [event["content"][0]["text"] for event in documents if event["event_type"] == event_type]


def stream_to(written: Written, *secrets: str) -> MessageStream:
    return MessageStream(Emitter(written.write, run_id="run_1", session_id="ses_1", secrets=secrets), "m")


@pytest.mark.parametrize(("message_id", "text"), [("", "x"), (7, "x"), ("m", 7)])
def test_a_message_is_text_and_has_a_name(message_id: Any, text: Any) -> None:
    written = Written()
    stream = MessageStream(Emitter(written.write, run_id="run_1", session_id="ses_1"), message_id)
    with pytest.raises(TypeError, match="expected texts"):
        stream.end(text)
    assert written == []


async def test_the_first_piece_is_written_at_once_and_later_ones_together() -> None:
    written = Written()
    stream = stream_to(written)
    for piece in ("One", " two", " three"):
        stream.add(piece)
    assert written.texts("message_delta") == ["One"]

    written.more.clear()
    await written.more.wait()

    assert written.texts("message_delta") == ["One", " two three"]


@pytest.mark.requirement("AOX-079")
async def test_the_whole_message_follows_its_pieces() -> None:
    written = Written()
    stream = stream_to(written)
    for piece in ("One", " two", " three"):
        stream.add(piece)
    stream.end()

    assert written.texts("message_delta") == ["One", " two three"]
    assert written.texts("message") == ["One two three"]


async def test_white_space_alone_is_no_message() -> None:
    written = Written()
    stream = stream_to(written)
    stream.add("\n\n ")
    stream.end()

    assert written == []


@pytest.mark.requirement("AOX-028", "AOX-029")
async def test_a_piece_that_is_longer_than_an_event_is_written_in_several() -> None:
    written = Written()
    emitter = Emitter(written.write, run_id="run_1", session_id="ses_1")
    emitter.max_event_bytes = 4096
    stream = MessageStream(emitter, "m")
    text = "a\x00\U0001f600" * 3000
    stream.add(text)
    stream.end()

    assert max(map(len, written)) <= 4096
    assert "".join(written.texts("message_delta")) == text


@pytest.mark.requirement("AOX-198")
async def test_the_beginning_of_a_secret_waits_for_what_follows() -> None:
    written = Written()
    stream = stream_to(written, SECRET)
    stream.add(f"It is {SECRET[:5]}")
    assert written.texts("message_delta") == ["It is "]
    stream.add(f"{SECRET[5:]}, you see")
    stream.end()

    assert "".join(written.texts("message_delta")) == "It is ***, you see"


@given(st.lists(st.sampled_from([*SECRETS.values(), *SECRET, "sk-", "x"]), max_size=8), st.data())
def test_however_a_text_is_cut_what_is_shown_of_it_has_no_secret(parts: list[str], data: st.DataObject) -> None:
    redactor = Redactor(SECRETS)
    text, shown, waiting = "".join(parts), "", ""
    while text:
        size = data.draw(st.integers(1, len(text)))
        waiting, text = waiting + text[:size], text[size:]
        settled = redactor.settled_length(waiting)
        shown, waiting = shown + redactor.text(waiting[:settled]), waiting[settled:]
    shown += redactor.text(waiting)

    assert not any(value in shown for value in SECRETS.values())

"""The quick way of reading an event never takes what the strict one refuses, and sees the same in it."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.events import InvalidEvent, parse_event
from ao_protocol.events.plain import plain_event
from ao_protocol.framing import encode_line
from ao_protocol.lifecycle import LifecycleError, Phase, RunLifecycle
from ao_protocol.vector_store import load_vectors

ENVELOPE = {"session_id": "ses_1", "run_id": "run_1", "seq": 2, "timestamp": "2026-01-10T12:00:00.123Z"}
DELTA = {"message_id": "m1", "role": "assistant", "content": [{"type": "text", "text": "Hi"}]}
CALL = {"tool_call_id": "t1", "tool_name": "Bash"}
PLAIN: dict[str, dict[str, Any]] = {
    "message_delta": DELTA,
    "message": DELTA | {"content": [{"type": "text", "text": 'Grüße: "x"\n'}, {"type": "text", "text": ":\\"}]},
    "tool_started": CALL | {"tool_input": {"command": "ls", "depth": [1, -2.5, None, True, {"a": {}}]}},
    "tool_finished": CALL | {"status": "failed", "error": "no", "tool_output": ["a", 3]},
    "log": {"level": "info", "message": "m", "unknown": {"of": "others"}},
    "heartbeat": {"phase": "model", "last_progress_seq": 0},
    "usage": {"input_tokens": 3, "output_tokens": 0, "cost_usd": 0.25},
    "_acme/thing": {"percent": 3},
}


def line_of(kind: str, **changes: Any) -> bytes:
    # By hand: what `encode_line` refuses to write is to be judged here, too.
    document = {"event_type": kind, **ENVELOPE, **PLAIN[kind], **changes}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def assert_agreed(line: bytes) -> None:
    """Whatever the quick way takes, the strict way takes for the same."""
    document = plain_event(line)
    if document is None:
        return
    event = parse_event(line)
    envelope = event.envelope
    assert (document["event_type"], document["seq"]) == (event.body.event_type, envelope.seq)
    assert (document["run_id"], document["session_id"]) == (envelope.run_id, envelope.session_id)
    for name in ("tool_call_id", "tool_name", "message_id"):
        assert not hasattr(event.body, name) or document[name] == getattr(event.body, name)
    if event.body.event_type == "message_delta":
        assert [block["text"] for block in document["content"]] == [block.text for block in event.body.content]  # type: ignore[union-attr]  # a delta has content


@pytest.mark.parametrize("event_type", PLAIN)
def test_the_usual_events_are_plain(event_type: str) -> None:
    line = line_of(event_type)

    assert plain_event(line) is not None
    assert plain_event(json.dumps(json.loads(line), indent=1).replace("\n", " ").encode()) is not None
    assert_agreed(line)


@pytest.mark.parametrize(
    "line",
    [
        line_of("message_delta").replace(b'{"event', b'{"seq":2,"event'),
        line_of("message_delta").replace(b'{"event', b'{"seq" :2,"event'),
        line_of("message_delta").replace(b'"seq":2', b'"\\u0073eq":2,"seq":2'),
        line_of("message_delta").replace(b'"run_id":"run_1"', b'"run_id":null,"x":1,"x":1'),
        line_of("tool_started").replace(b'"a":{}', b'"a":{},"a":{}'),
        line_of("tool_started", tool_input=2**53),
        line_of("tool_started").replace(b"-2.5", b"-1e999"),
        line_of("tool_started").replace(b"-2.5", b"NaN"),
        line_of("tool_started").replace(b"-2.5", b"[" * 62 + b"]" * 62),
        line_of("message_delta").replace(b"Hi", b"H\xff"),
        line_of("message_delta").replace(b"Hi", b"H\t"),
        line_of("message_delta", seq=True),
        line_of("message_delta", seq=0),
        line_of("message_delta", timestamp="2026-01-10T12:00:00Z\n"),
        line_of("message_delta", message_id=""),
        line_of("message_delta", role="robot"),
        line_of("message_delta", content=[{"type": "image", "text": ""}]),
        line_of("message_delta", truncated="yes"),
        line_of("tool_finished", error=3),
        line_of("usage", input_tokens=None),
        line_of("usage", cost_usd=-1),
        line_of("_acme/thing", event_type="_Acme/thing"),
        line_of("log", event_type="unknown"),
        line_of("log", event_type=["log"]),
        b"[1]",
        b'"text"',
        b"",
    ],
)
def test_what_is_wrong_is_never_plain(line: bytes) -> None:
    with pytest.raises(InvalidEvent):
        parse_event(line)

    assert plain_event(line) is None


def test_the_deepest_line_that_is_allowed_is_plain_and_one_level_more_is_not() -> None:
    flat = line_of("tool_started", tool_input="?")
    deepest, deeper = (flat.replace(b'"?"', b"[" * levels + b"]" * levels) for levels in (63, 64))

    assert plain_event(deepest) is not None
    assert plain_event(deeper) is None
    assert_agreed(deepest)


SEEDS = [line_of(event_type) for event_type in PLAIN] + [
    encode_line(vector["document"])[:-1] for vector in load_vectors("event")
]
SCRAPS = [
    *(character.encode() for character in '"\\:{}[], \r\t\0\x7f\ufeff\u2028-0'),
    *(b'\\"', b'":', b"\\/", b"\\u0022", b"\\ud800", b"\xc3", b"9007199254740992", b"1.0", b"1e400", b"null", b"true"),
    *(b'"seq":3,', b'"a":1,"a":2,', b'"content":[],', b'"run_id":"run_1",', b'"x" :":",'),
]


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from(SCRAPS) | st.binary(max_size=3), st.integers(0, 6))),
)
def test_a_line_that_was_damaged_anywhere_is_judged_alike(line: bytes, damage: list[tuple[int, bytes, int]]) -> None:
    for at, scrap, cut in damage:
        line = line[:at] + scrap + line[at + cut :]

    assert_agreed(line)


def test_thousands_of_damaged_lines_are_judged_alike() -> None:
    chance, plain = random.Random(7), 0
    for _ in range(20_000):
        line = chance.choice(SEEDS)
        for _ in range(chance.choice([1, 1, 2])):
            at = chance.randrange(len(line) + 1)
            line = line[:at] + chance.choice(SCRAPS) + line[at + chance.choice([0, 0, 1, 2]) :]
        assert_agreed(line)
        plain += plain_event(line) is not None

    assert plain > 100


@pytest.mark.parametrize("vector", load_vectors("line"), ids=lambda vector: vector["id"])
def test_no_line_that_is_no_i_json_is_plain(vector: dict[str, Any]) -> None:
    text = vector.get("line", "")
    if isinstance(text, str) and text.startswith("{"):
        assert_agreed(text.encode())
        inside = line_of("tool_started").replace(b'"ls"', text.encode())
        assert_agreed(inside)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(PLAIN)), st.dictionaries(st.text(max_size=4), JSON_VALUES), st.booleans())
def test_whatever_payload_an_event_has_it_is_judged_alike(
    event_type: str, payload: dict[str, Any], ensure_ascii: bool
) -> None:
    document = {"event_type": event_type, **ENVELOPE, **PLAIN[event_type], "more": payload}

    assert_agreed(json.dumps(document, ensure_ascii=ensure_ascii).encode(errors="surrogatepass"))


STEPS = st.tuples(
    st.sampled_from(["log", "tool_started", "tool_finished", "message_delta"]),
    st.sampled_from([1, 1, 1, 1, 0, 2]),
    st.sampled_from(["t1", "t2"]),
    st.sampled_from(["run_1", "run_1", "run_1", "run_2"]),
)


@given(st.lists(STEPS, max_size=20))
@pytest.mark.requirement("AOX-090", "AOX-092")
def test_what_is_followed_is_what_would_have_been_received(steps: list[tuple[str, int, str, str]]) -> None:
    quick, strict = (RunLifecycle("run_1", "ses_1", Phase.RUNNING, 1) for _ in range(2))
    seq = 1
    for event_type, step, call, run_id in steps:
        seq = max(1, seq + step)
        changes = {"tool_call_id": call} if event_type.startswith("tool") else {}
        line = line_of(event_type, seq=seq, run_id=run_id, **changes)
        document = plain_event(line)
        assert document is not None
        before = (quick.last_seq, dict(quick.open_tools))
        if quick.follow(document):
            strict.receive(parse_event(line))
        else:
            assert (quick.last_seq, quick.open_tools) == before
            with pytest.raises(LifecycleError):
                strict.receive(parse_event(line))
            return
        assert quick == strict

"""The conversation, fed literals. What it relays is a whole run, whatever it was fed."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.events import ErrorInfo, Failure, MessageDelta, parse_event
from ao_protocol.lifecycle import RunLifecycle
from ao_protocol.message_content import text_of
from ao_protocol.published import load_vectors
from ao_protocol.redaction import Redactor
from ao_protocol.wire import ExecutorIdentity
from ao_runner.run_events import Relayed, RunIdentity
from ao_runner.runs.conversation import MAX_TOLD_PROBLEMS, MOST_CHARACTERS, MOST_OPEN_TOOLS, Conversation

IDENTITY = RunIdentity("run_1", "ses_1", ExecutorIdentity(name="x", version="1"))
MISSING = Failure(
    status="failed",
    error=ErrorInfo(
        type="missing_terminal", message="gone", retryable=False, side_effects="possible", origin="executor"
    ),
)


def new_conversation(**settings: Any) -> Conversation:
    return Conversation(IDENTITY, 4096, lambda: "2026-01-01T00:00:00Z", **settings)


def line(event_type: str, seq: int, **fields: Any) -> bytes:
    envelope = {"session_id": "ses_1", "run_id": "run_1", "seq": seq, "timestamp": "2026-01-01T00:00:00Z"}
    return json.dumps({"event_type": event_type, **envelope, **fields}).encode() + b"\n"


KEY = "sk-secret-key"
HIDING = Redactor({"KEY": KEY})
STARTED = line("run_started", 1, schema_version="3.0", executor={"name": "x", "version": "1"})


FIGURES = {"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.5}
USED = line("usage", 2, **FIGURES)
CANCELLED: dict[str, Any] = {
    "status": "cancelled",
    "error": {"type": "cancelled", "message": "x", "retryable": False, "side_effects": "none", "origin": "caller"},
}


def result(seq: int, text: str = "done") -> bytes:
    return line("result", seq, result_text=text, result_data=None, stop_reason="end_turn")


def relay(*chunks: bytes, conversation: Conversation | None = None) -> list[Relayed]:
    conversation = conversation or new_conversation()
    relayed = [item for chunk in chunks for item in conversation.receive(chunk)]
    relayed += conversation.end_of_stream()
    return relayed + list(conversation.conclude(MISSING))


def types(relayed: list[Relayed]) -> list[str]:
    return [item.event.body.event_type for item in relayed]


def logs(relayed: list[Relayed]) -> list[str]:
    documents = [json.loads(item.line) for item in relayed]
    return [document["message"] for document in documents if document["event_type"] == "log"]


def test_a_run_that_keeps_the_protocol_passes_unchanged() -> None:
    lines = [STARTED, line("_acme/thing", 2, depth={"unknown": [1]}), line("log", 3, level="info", message="m", x=1)]

    relayed = relay(*lines, result(4))

    assert [item.line + b"\n" for item in relayed] == [*lines, result(4)]


def test_where_a_line_is_cut_makes_no_difference() -> None:
    stream = STARTED + result(2, "grüße")

    one_by_one = relay(*(bytes([byte]) for byte in stream))

    assert [item.line for item in one_by_one] == [item.line for item in relay(stream)]


NO_NAMES: dict[str, Any] = {"run_id": None, "session_id": None}
UNNAMED = line("run_started", 1, schema_version="3.0", executor={"name": "x", "version": "1"}, new=1, **NO_NAMES)
REFUSED = {"type": "invalid_json", "message": "?", "retryable": False, "side_effects": "none", "origin": "caller"}


@pytest.mark.requirement("AOX-241")
def test_a_refusal_that_names_no_run_is_this_runs_end() -> None:
    conversation = new_conversation()

    relayed = relay(UNNAMED, line("failure", 2, status="failed", error=REFUSED, **NO_NAMES), conversation=conversation)

    documents = [json.loads(item.line) for item in relayed]
    assert [(document["run_id"], document["session_id"]) for document in documents] == [("run_1", "ses_1")] * 2
    assert documents[0]["new"] == 1
    assert documents[1]["error"] == REFUSED
    assert conversation.problems == []


@pytest.mark.requirement("AOX-242")
def test_a_start_that_names_no_run_is_told_where_the_run_goes_on() -> None:
    conversation = new_conversation()

    relayed = relay(UNNAMED, line("log", 2, level="info", message="m"), result(3), conversation=conversation)

    assert types(relayed) == ["run_started", "log", "log", "result"]
    assert conversation.problems == ['run_id is null, expected "run_1"']


def test_noise_before_the_first_event_is_told_after_it() -> None:
    relayed = relay(b"Loading...\n", STARTED, result(2))

    assert types(relayed) == ["run_started", "log", "result"]
    assert "Loading..." in logs(relayed)[0]


def test_after_a_fault_the_numbers_go_on_without_a_gap_and_unknown_fields_stay() -> None:
    relayed = relay(STARTED, b"oops\n", line("log", 2, level="info", message="m", unknown=7), result(3))

    documents = [json.loads(item.line) for item in relayed]
    assert [document["seq"] for document in documents] == [1, 2, 3, 4]
    assert documents[2]["unknown"] == 7


def test_blank_lines_are_no_fault() -> None:
    assert types(relay(STARTED, b"\n \r\n", result(2))) == ["run_started", "result"]


def test_without_run_started_the_runner_begins_the_run() -> None:
    relayed = relay(result(1))

    assert types(relayed) == ["run_started", "log", "result"]


def test_a_stream_without_a_terminal_event_gets_the_runners() -> None:
    conversation = new_conversation()

    relayed = relay(STARTED, conversation=conversation)

    assert types(relayed) == ["run_started", "failure"]
    assert conversation.terminal == MISSING
    assert not conversation.problems


def test_nothing_at_all_still_becomes_a_whole_run() -> None:
    assert types(relay()) == ["run_started", "failure"]


def test_what_comes_after_the_terminal_event_is_left_out_and_counted() -> None:
    conversation = new_conversation()

    relayed = relay(STARTED, result(2), result(3, "again"), conversation=conversation)

    assert types(relayed) == ["run_started", "result"]
    assert conversation.late_problems == ["'result' came after the terminal event and was dropped"]


def test_what_comes_after_the_runner_has_ended_the_run_is_left_out() -> None:
    conversation = new_conversation()
    relayed = [*conversation.receive(STARTED), *conversation.conclude(MISSING)]

    assert types(relayed) == ["run_started", "failure"]
    assert not list(conversation.receive(delta(2, "late")))
    assert conversation.problem_count == 1


def test_a_flood_of_faults_hides_no_event() -> None:
    escaped = line("log", 2, level="info", message="m").replace(b"event_type", b"event\\u005ftype")

    relayed = relay(STARTED, b"{}\n" * 50, b"noise\n" * 50, escaped, result(3))

    assert types(relayed)[-3:] == ["log", "log", "result"]
    assert logs(relayed)[-2:] == ["m", "and 80 more problems of this kind"]


def test_a_line_without_an_end_counts_when_it_is_whole() -> None:
    assert types(relay(STARTED, result(2).rstrip(b"\n"))) == ["run_started", "log", "result"]


def test_a_line_that_is_too_long_is_told_once_and_explains_the_gap_after_it() -> None:
    relayed = relay(STARTED, line("log", 2, level="info", message="x" * 9000), result(3))

    assert types(relayed) == ["run_started", "log", "result"]


def test_of_many_faults_the_first_are_told_and_the_others_counted() -> None:
    conversation = new_conversation()

    relayed = relay(STARTED, b"noise\n" * 1000, result(2), conversation=conversation)

    assert len(logs(relayed)) == MAX_TOLD_PROBLEMS + 1
    assert logs(relayed)[-1] == "and 980 more problems of this kind"
    assert (conversation.problem_count, len(conversation.problems)) == (1000, MAX_TOLD_PROBLEMS)


def test_the_last_word_over_a_terminal_event_can_be_anothers() -> None:
    relayed = relay(STARTED, result(2), conversation=new_conversation(settle=lambda _: MISSING))

    assert types(relayed) == ["run_started", "failure"]


@pytest.mark.parametrize("noise", [b"the key is sk-secret-key\n", b'{"event_type":"sk-secret-key"}\n'])
def test_a_fault_that_holds_a_secret_is_told_without_a_quotation(noise: bytes) -> None:
    conversation = new_conversation(redactor=HIDING)

    relayed = relay(STARTED, noise, conversation=conversation)

    assert "sk-secret" not in repr(relayed) + repr(conversation.problems)


def delta(seq: int, text: str, message_id: str = "m1") -> bytes:
    content = [{"type": "text", "text": text}]
    return line("message_delta", seq, message_id=message_id, role="assistant", content=content, unknown=7)


def told_by(relayed: list[Relayed]) -> list[str]:
    return [text_of(item.event.body.content) for item in relayed if isinstance(item.event.body, MessageDelta)]


def test_a_secret_leaves_in_no_event_and_the_event_agrees_with_its_line() -> None:
    conversation = new_conversation(redactor=HIDING)
    before = [STARTED, line("log", 2, level="info", message=f"the key is {KEY}", x=1.50)]

    relayed = relay(*before, result(3, KEY), conversation=conversation)

    assert [item.line + b"\n" for item in relayed] == [
        part.replace(KEY.encode(), b"***") for part in (*before, result(3, KEY))
    ]
    assert [parse_event(item.line) for item in relayed] == [item.event for item in relayed]
    assert conversation.terminal == relayed[-1].event.body
    assert not conversation.problems


def test_a_secret_in_a_fault_of_an_event_is_not_told() -> None:
    conversation = new_conversation(redactor=HIDING)
    unpaired = line("tool_finished", 2, tool_call_id=KEY, tool_name="Bash", status="completed")

    relayed = relay(STARTED, unpaired, result(3), conversation=conversation)

    assert KEY not in repr(relayed) + repr(conversation.problems)


def test_a_vendors_event_whose_type_holds_a_secret_becomes_a_remark() -> None:
    relayed = relay(STARTED, line(f"_acme/{KEY}", 2), result(3), conversation=new_conversation(redactor=HIDING))

    assert logs(relayed) == ["dropped an event: '_acme/***' contains a secret"]
    assert types(relayed) == ["run_started", "log", "result"]


def test_two_keys_that_were_secrets_become_one() -> None:
    hiding = new_conversation(redactor=Redactor({"KEY": KEY, "OTHER": "another-key"}))

    relayed = relay(STARTED, line("_acme/thing", 2, found={KEY: 1, "another-key": 2}), conversation=hiding)

    assert json.loads(relayed[1].line)["found"] == {"***": 2}


def strings_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in strings_of(item))]
    if isinstance(value, list):
        return [text for item in value for text in strings_of(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("vector", [v for v in load_vectors("event") if v["valid"]], ids=lambda vector: vector["id"])
def test_an_event_stays_one_whatever_word_of_it_is_a_secret(vector: dict[str, Any]) -> None:
    document = vector["document"]
    for secret in {text for text in strings_of(document) if len(text) >= 8} - {document["event_type"]}:
        event = parse_event(Redactor({"S": secret}).line(json.dumps(document).encode()))

        assert event.body.event_type == document["event_type"]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["The key is sk-", "secret", "-key", ", isn't it?"], ["The key is sk-", "***", "", ", isn't it?"]),
        (["it is sk-secret", "-key! sk-secret-key"], ["it is ***", "! ***"]),
        (["sk-secret", "ive matters"], ["sk-secret", "ive matters"]),
        (["sk-secret-ke", "", "sk-secret-key"], ["sk-secret-ke", "", "***"]),
        (["sk-secret-k"], ["sk-secret-k"]),
    ],
    ids=["in three pieces", "in two, and once more", "only its beginning", "its beginning before it", "at the end"],
)
def test_a_secret_in_pieces_is_put_together_before_it_leaves(texts: list[str], told: list[str]) -> None:
    deltas = [delta(seq, text) for seq, text in enumerate(texts, 2)]

    relayed = relay(STARTED, *deltas, result(len(texts) + 2), conversation=new_conversation(redactor=HIDING))

    assert told_by(relayed) == told
    assert [json.loads(item.line)["seq"] for item in relayed] == list(range(1, len(texts) + 3))
    assert all(json.loads(item.line).get("unknown") == 7 for item in relayed[1:-1])


def delta_of(seq: int, *blocks: dict[str, str], message_id: str = "m1") -> bytes:
    return line("message_delta", seq, message_id=message_id, role="assistant", content=list(blocks))


def thought(text: str) -> dict[str, str]:
    return {"type": "reasoning", "text": text}


def blocks_of(relayed: list[Relayed]) -> list[Any]:
    return [item.document["content"] for item in relayed if item.event_type == "message_delta"]


def test_a_secret_in_pieces_of_reasoning_is_put_together_before_it_leaves() -> None:
    pieces = [delta_of(2, thought("it is sk-secret")), delta_of(3, thought("-key"), thought(", or not"))]

    relayed = relay(STARTED, *pieces, result(4), conversation=new_conversation(redactor=HIDING))

    assert blocks_of(relayed) == [[thought("it is ***")], [thought(", or not"), thought("")]]


def test_reasoning_and_text_of_one_message_are_not_put_together() -> None:
    said = {"type": "text", "text": "-key sk-secret-key"}
    relayed = relay(
        STARTED, delta_of(2, thought("sk-secret")), delta_of(3, said), conversation=new_conversation(redactor=HIDING)
    )

    assert blocks_of(relayed) == [[thought("sk-secret")], [{"type": "text", "text": "-key ***"}]]


@pytest.mark.parametrize(
    "blocks",
    [
        [{"type": "text", "text": f"a {KEY}"}, {"type": "reasoning", "text": f"{KEY} b"}],
        [{"type": "_acme/picture", "data": f"x{KEY}"}],
        [{"type": "_acme/picture", "data": "x"}, {"type": "text", "text": KEY}],
        [],
    ],
    ids=["two kinds", "unknown", "unknown and text", "none"],
)
def test_a_delta_of_several_or_unknown_kinds_is_redacted_by_itself_and_stays_in_order(blocks: list[Any]) -> None:
    chunks = [delta_of(2, thought("sk-secret")), delta_of(3, *blocks), delta_of(4, thought("more"))]

    relayed = relay(STARTED, *chunks, result(5), conversation=new_conversation(redactor=HIDING))

    kept = json.loads(json.dumps(blocks).replace(KEY, "***"))
    assert blocks_of(relayed) == [[thought("sk-secret")], kept, [thought("more")]]
    assert types(relayed) == ["run_started", *["message_delta"] * 3, "result"]


def test_only_what_may_be_the_beginning_of_a_secret_waits_and_what_comes_meanwhile_stays_in_order() -> None:
    conversation = new_conversation(redactor=HIDING)
    beat = line("heartbeat", 4, phase="model", last_progress_seq=3)

    assert types(relay_only(conversation, STARTED, delta(2, "plain"))) == ["run_started", "message_delta"]
    assert types(relay_only(conversation, delta(3, "a sk-secret"), beat)) == []
    assert types(relay_only(conversation, delta(5, "ary"))) == ["message_delta", "heartbeat", "message_delta"]
    assert types(relay_only(conversation, delta(6, "sk-secret"))) == []
    assert types(relay_only(conversation, delta(7, "-key", "m2"))) == ["message_delta"] * 2


def relay_only(conversation: Conversation, *chunks: bytes) -> list[Relayed]:
    return [item for chunk in chunks for item in conversation.receive(chunk)]


@given(st.text("abcdefgh-", min_size=8, max_size=12), st.text("abcdefgh- ", max_size=60), st.data())
def test_however_a_text_is_cut_into_pieces_no_secret_stands_in_it(secret: str, text: str, data: st.DataObject) -> None:
    text += secret + data.draw(st.sampled_from(["", " ", secret, secret[1:], secret[:-1]]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[begin:end] for begin, end in pairwise([0, *cuts, len(text)])]
    conversation = new_conversation(redactor=Redactor({"S": secret}))

    relayed = relay(STARTED, *(delta(seq, piece) for seq, piece in enumerate(pieces, 2)), conversation=conversation)

    assert len(told_by(relayed)) == len(pieces)
    assert secret not in "".join(told_by(relayed))
    assert "***" in "".join(told_by(relayed))


FRAGMENTS = st.one_of(
    st.sampled_from(
        [
            STARTED,
            result(2),
            result(3),
            line("tool_started", 2, tool_call_id="t", tool_name="Bash"),
            line("tool_finished", 3, tool_call_id="t", tool_name="Bash", status="completed"),
            line("log", 4, level="info", message="m"),
            line("log", 2, level="info", message="m", run_id="run_2"),
            line("heartbeat", 3, phase="model", last_progress_seq=1),
            b"\n",
            b"{",
            b"\xff\xfe",
            b"x" * 5000,
        ]
    ),
    st.binary(max_size=40),
)


DAMAGE = st.sampled_from(
    [b"", b'"', b"\\", b"\n", b"\xff", b'","', b"\\ud800", b"sk-secret", b"-key", b"sk-secret-key", b"}", b"9"]
)
STREAM = STARTED + b"".join(delta(seq, text) for seq, text in enumerate(["a", "sk-", 'b"', "\n", "é", "c"] * 2, 2))


@given(st.lists(st.tuples(st.integers(0, len(STREAM)), DAMAGE, st.integers(0, 3)), max_size=4), st.data())
def test_where_a_damaged_stream_is_cut_makes_no_difference(
    damage: list[tuple[int, bytes, int]], data: st.DataObject
) -> None:
    stream = STREAM + result(14)
    for at, scrap, cut in damage:
        stream = stream[:at] + scrap + stream[at + cut :]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=3)))
    in_pieces, at_once = (new_conversation(redactor=HIDING) for _ in range(2))

    relayed = relay(*(stream[begin:end] for begin, end in pairwise([0, *cuts, len(stream)])), conversation=in_pieces)
    expected = relay(stream, conversation=at_once)

    assert [item.line for item in relayed] == [item.line for item in expected]
    assert in_pieces.problem_count == at_once.problem_count
    assert in_pieces.terminal == at_once.terminal


@pytest.mark.parametrize("before", [STARTED, b""], ids=["in order", "renumbered"])
def test_half_a_surrogate_pair_is_read_as_replaced(before: bytes) -> None:
    damaged = delta(2, "a").replace(b'"message_id": "', b'"message_id": "\\ud800')
    relayed = relay(before + damaged)

    (message_id,) = [item.document["message_id"] for item in relayed if item.event_type == "message_delta"]
    assert str(message_id).startswith("\ufffd")


@given(st.lists(FRAGMENTS, max_size=12))
def test_whatever_comes_in_a_whole_run_goes_out(fragments: list[bytes]) -> None:
    relayed = relay(*fragments)

    lifecycle = RunLifecycle("run_1", "ses_1")
    for item in relayed:
        lifecycle.receive(item.document)
    lifecycle.end()
    assert [json.loads(item.line) for item in relayed][-1]["seq"] == len(relayed)


def tool_started(seq: int, call: str, name: str = "Bash", **fields: Any) -> bytes:
    return line("tool_started", seq, tool_call_id=call, tool_name=name, **fields)


def tool_finished(seq: int, call: str) -> bytes:
    return line("tool_finished", seq, tool_call_id=call, tool_name="Bash", status="completed")


@pytest.mark.requirement("AOX-233")
@pytest.mark.parametrize("unknown", [{}, {"depth": {"unknown": [1]}}], ids=["plain", "read"])
def test_tool_calls_beyond_those_that_may_be_open_are_left_out_and_the_others_are_closed(unknown: Any) -> None:
    count = MOST_OPEN_TOOLS + 2
    starts = [tool_started(seq, f"t{seq}", **unknown) for seq in range(2, count + 2)]
    ends = [tool_finished(count + 2, "t2"), tool_finished(count + 3, f"t{count + 1}")]
    again = tool_started(count + 4, "again")

    relayed = relay(STARTED, *starts, *ends, again, result(count + 5))

    found = types(relayed)
    assert (found.count("tool_started"), found.count("tool_finished")) == (MOST_OPEN_TOOLS + 1, MOST_OPEN_TOOLS + 1)
    assert logs(relayed) == [
        *[f"the executor broke the protocol: too many tool calls are open ({MOST_OPEN_TOOLS}); dropped the event"] * 2,
        f"the executor broke the protocol: tool call 't{count + 1}' was finished but never started; dropped the event",
        "the executor broke the protocol: tool call 't3' was never finished",
    ]
    lifecycle = RunLifecycle("run_1", "ses_1")
    for item in relayed:
        lifecycle.receive(item.document)
    lifecycle.end()


@pytest.mark.requirement("AOX-095")
@pytest.mark.parametrize(
    "part",
    [
        line("message", 4, message_id="m", role="assistant", content=[], parent_tool_call_id="a"),
        delta(4, "x").replace(b'"unknown": 7', b'"parent_tool_call_id": "a"'),
        tool_started(4, "b", parent_tool_call_id="a"),
    ],
    ids=["message", "message_delta", "tool_started"],
)
def test_a_part_outside_of_its_call_is_left_out_and_told(part: bytes) -> None:
    relayed = relay(STARTED, tool_started(2, "a"), tool_finished(3, "a"), part, result(5))

    kind = json.loads(part)["event_type"]
    assert types(relayed) == ["run_started", "tool_started", "tool_finished", "log", "result"]
    assert logs(relayed) == [
        f"the executor broke the protocol: {kind} is part of tool call 'a', which is not open; dropped the event"
    ]


@pytest.mark.requirement("AOX-095")
def test_a_call_that_ends_before_its_part_ends_behind_it() -> None:
    calls = [tool_started(2, "a"), tool_started(3, "b", parent_tool_call_id="a"), tool_finished(4, "a")]

    relayed = relay(STARTED, *calls, result(5))

    assert [item.document["tool_call_id"] for item in relayed if item.event_type == "tool_finished"] == ["b", "a"]
    assert logs(relayed) == [
        "the executor broke the protocol: tool call 'a' was finished before a tool call that is part of it;"
        " dropped the event",
        "the executor broke the protocol: tool call 'a' was never finished",
    ]


@pytest.mark.requirement("AOX-095")
@pytest.mark.parametrize("end", [[], [result(5)]], ids=["the runner's end", "the executor's end"])
def test_calls_that_are_open_at_the_end_are_closed_parts_first(end: list[bytes]) -> None:
    calls = [tool_started(2, "a"), tool_started(3, "b", parent_tool_call_id="a"), tool_started(4, "c")]

    relayed = relay(STARTED, *calls, *end)

    ended = [str(item.document["tool_call_id"]) for item in relayed if item.event_type == "tool_finished"]
    assert (sorted(ended), ended.index("b") < ended.index("a")) == (["a", "b", "c"], True)


def test_long_names_of_open_tool_calls_count_by_their_length() -> None:
    calls = [tool_started(seq, f"{seq}", "x" * 3000) for seq in range(2, 102)]

    relayed = relay(STARTED, *calls, result(102))

    assert types(relayed).count("tool_started") == MOST_CHARACTERS // 3002
    assert types(relayed)[-1] == "result"


def bare(event_type: str, **fields: Any) -> bytes:
    return json.dumps({"event_type": event_type, **fields}).encode() + b"\n"


@pytest.mark.requirement("AOX-254")
def test_events_that_say_only_what_the_executor_knows_are_passed_on_whole() -> None:
    relayed = relay(
        bare("run_started"),
        bare("message", content=[{"type": "text", "text": "Hi"}]),
        bare("tool_started", tool_call_id="c1", tool_name="Read"),
        bare("tool_finished", tool_call_id="c1"),
        bare("result", result_text="done"),
    )

    envelope = {"session_id": "ses_1", "run_id": "run_1", "timestamp": "2026-01-01T00:00:00Z"}
    assert [json.loads(item.line) for item in relayed] == [
        {
            "event_type": "run_started",
            **envelope,
            "seq": 1,
            "schema_version": "3.0",
            "executor": {"name": "x", "version": "1"},
        },
        {
            "event_type": "message",
            **envelope,
            "seq": 2,
            "message_id": "msg_run_1_2",
            "role": "assistant",
            "content": [{"type": "text", "text": "Hi"}],
        },
        {"event_type": "tool_started", **envelope, "seq": 3, "tool_call_id": "c1", "tool_name": "Read"},
        {
            "event_type": "tool_finished",
            **envelope,
            "seq": 4,
            "tool_call_id": "c1",
            "tool_name": "Read",
            "status": "completed",
        },
        {
            "event_type": "result",
            **envelope,
            "seq": 5,
            "result_text": "done",
            "result_data": None,
            "stop_reason": "end_turn",
        },
    ]


@pytest.mark.requirement("AOX-254")
def test_events_with_and_without_numbers_are_one_sequence_also_behind_noise() -> None:
    conversation = new_conversation()

    relayed = relay(
        STARTED, b"noise\n", bare("log", level="info", message="a"), line("log", 3, level="info", message="b"),
        bare("failure", error={"type": "rate_limited", "message": "later"}), conversation=conversation,
    )  # fmt: skip

    assert types(relayed) == ["run_started", "log", "log", "log", "failure"]
    assert [json.loads(item.line)["seq"] for item in relayed] == [1, 2, 3, 4, 5]
    assert conversation.problem_count == 1
    assert conversation.terminal is not None
    assert conversation.terminal.error.retryable  # type: ignore[union-attr]  # a failure


def test_an_event_that_is_too_long_is_told_from_other_long_lines() -> None:
    events, noise = new_conversation(), new_conversation()

    relay(STARTED, b'{"event_type":"result","result_text":"' + b"x" * 5000 + b'"}\n', conversation=events)
    relay(STARTED, b"x" * 5000 + b"\n", conversation=noise)

    assert (events.has_long_event, noise.has_long_event) == (True, False)


@pytest.mark.requirement("AOX-078")
@pytest.mark.parametrize(
    ("chunks", "settle"),
    [
        ([USED], lambda terminal: terminal),
        ([USED, line("failure", 3, **CANCELLED)], lambda _: MISSING),
        ([line("failure", 2, **CANCELLED, usage=FIGURES)], lambda _: MISSING),
    ],
    ids=["the executor dies", "the runner knows the cause", "only its failure has it"],
)
def test_an_end_that_the_runner_writes_has_the_usage_that_was_told(chunks: list[bytes], settle: Any) -> None:
    conversation = new_conversation(settle=settle)
    relayed = relay(STARTED, *chunks, conversation=conversation)

    assert json.loads(relayed[-1].line)["usage"] == FIGURES
    assert (conversation.terminal, conversation.problem_count) == (relayed[-1].event.body, 0)


def test_an_end_that_the_executor_wrote_is_passed_on_as_it_is() -> None:
    assert relay(STARTED, USED, result(3))[-1].line + b"\n" == result(3)

"""The conversation, fed literals. What it relays is a whole run, whatever it was fed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_protocol.events import ErrorInfo, ExecutorIdentity, Failure
from ao_protocol.lifecycle import RunLifecycle
from ao_runner.conversation import MAX_TOLD_PROBLEMS, Conversation, Relayed, RunIdentity

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


STARTED = line("run_started", 1, schema_version="3.0", executor={"name": "x", "version": "1"})


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
    assert conversation.late_problems == ["'result' came after the terminal event and was left out"]


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
    conversation = new_conversation(redact=lambda text: text.replace("sk-secret-key", "***"))

    relayed = relay(STARTED, noise, conversation=conversation)

    assert "sk-secret" not in repr(relayed) + repr(conversation.problems)


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


@given(st.lists(FRAGMENTS, max_size=12))
def test_whatever_comes_in_a_whole_run_goes_out(fragments: list[bytes]) -> None:
    relayed = relay(*fragments)

    lifecycle = RunLifecycle("run_1", "ses_1")
    for item in relayed:
        lifecycle.receive(item.event)
    lifecycle.end()
    assert [json.loads(item.line) for item in relayed][-1]["seq"] == len(relayed)

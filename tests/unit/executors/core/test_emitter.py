"""The emitter: numbers, tracks and ends the events of one run."""

import json
from base64 import b64encode
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_executors.core.emitter import Emitter, EventTooLarge
from ao_executors.core.fitting import shortened_line
from ao_protocol.events import (
    Heartbeat,
    Log,
    Message,
    RetryError,
    RetryScheduled,
    ToolFinished,
    ToolStarted,
    Usage,
)
from ao_protocol.framing import NotIJson, decode_object
from ao_protocol.message_content import TextBlock

NOW = "2026-01-10T12:00:00Z"
STARTED = ToolStarted(tool_call_id="call_1", tool_name="Read")
FINISHED = ToolFinished(tool_call_id="call_1", tool_name="Read", status="completed")
RETRY = RetryScheduled(error=RetryError(type="rate_limited", message="429"), attempt=1, delay_seconds=2)
SAID = Message(message_id="m", role="assistant", content=[TextBlock(text="Hi")])
RESULT = {"result_text": "Hi", "result_data": None, "stop_reason": "end_turn"}


class Written(list[bytes]):
    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self]


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
def events(written: Written) -> Emitter:
    return Emitter(written.append, run_id="run_1", session_id="ses_1", now=lambda: NOW)


@pytest.mark.requirement("AOX-070")
def test_an_event_is_one_flat_line(events: Emitter, written: Written) -> None:
    events.emit(SAID)

    assert written == [
        b'{"event_type":"message","session_id":"ses_1","run_id":"run_1","seq":1,"timestamp":"2026-01-10T12:00:00Z",'
        b'"message_id":"m","role":"assistant","content":[{"type":"text","text":"Hi"}]}\n'
    ]


@pytest.mark.requirement("AOX-092")
def test_nothing_follows_the_terminal_event(events: Emitter, written: Written) -> None:
    events.end("result", RESULT)
    events.emit(SAID)
    events.end("failure", {"status": "failed", "error": {}})

    assert [document["event_type"] for document in written.documents] == ["result"]
    assert events.ended


@pytest.mark.requirement("AOX-093")
@pytest.mark.parametrize(
    ("event_type", "fields", "status"),
    [
        ("failure", {"status": "cancelled", "error": {}}, "cancelled"),
        ("failure", {"status": "failed", "error": {}}, "failed"),
        ("result", RESULT, "failed"),
    ],
    ids=["cancelled", "failed", "result"],
)
def test_an_open_tool_call_is_closed_before_the_end(
    events: Emitter, written: Written, event_type: str, fields: dict[str, object], status: str
) -> None:
    events.emit(STARTED)
    events.end(event_type, fields)

    closed, terminal = written.documents[-2:]
    assert (closed["event_type"], closed["tool_call_id"], closed["status"]) == ("tool_finished", "call_1", status)
    assert terminal["event_type"] == event_type


def test_a_result_warns_of_each_call_that_it_leaves_unfinished(events: Emitter, written: Written) -> None:
    events.emit(ToolStarted(tool_call_id="call_1", tool_name="Bash", tool_input={"command": "make"}))
    events.end("result", RESULT)

    warning = written.documents[1]
    assert (warning["event_type"], warning["level"]) == ("log", "warning")
    assert warning["message"].endswith('call of Bash does, which is ended with it: {"command": "make"}')


def test_a_failure_warns_of_no_unfinished_call(events: Emitter, written: Written) -> None:
    events.emit(STARTED)
    events.end("failure", {"status": "failed", "error": {}})

    assert [document["event_type"] for document in written.documents] == ["tool_started", "tool_finished", "failure"]


def test_a_tool_call_that_is_finished_is_not_closed_again(events: Emitter, written: Written) -> None:
    events.emit(STARTED)
    events.emit(FINISHED)
    events.end("result", RESULT)

    assert [document["event_type"] for document in written.documents] == ["tool_started", "tool_finished", "result"]


@pytest.mark.requirement("AOX-078")
@pytest.mark.parametrize(
    ("own", "expected"), [({}, 20), ({"usage": {"input_tokens": 30}}, 30)], ids=["without usage", "with usage"]
)
def test_a_terminal_event_without_usage_has_that_of_the_last_usage_event(
    events: Emitter, written: Written, own: dict[str, object], expected: int
) -> None:
    events.emit(Usage(input_tokens=10))
    events.emit(Usage(input_tokens=20))
    following = events.for_next_run("run_2")
    events.end("failure", {"status": "failed", "error": {"type": "internal_error", "message": "x"}, **own})
    following.end("result", RESULT)

    failed, of_the_next_run = written.documents[-2:]
    assert failed["usage"]["input_tokens"] == expected
    assert "usage" not in of_the_next_run


@pytest.mark.requirement("AOX-081")
def test_heartbeats_and_logs_are_no_progress(events: Emitter) -> None:
    events.emit(SAID)
    events.emit(Heartbeat(phase="model", last_progress_seq=1))
    events.emit(Log(level="info", message="still here"))

    assert events.last_progress_seq == 1


def test_the_phase_follows_the_events(events: Emitter) -> None:
    phases = [events.phase]
    for body in (STARTED, FINISHED, RETRY, Log(level="info", message="waiting"), SAID):
        events.emit(body)
        phases.append(events.phase)

    assert phases == ["model", "tool", "model", "retry_wait", "retry_wait", "model"]


def test_behind_its_delay_a_retry_waits_for_the_model(events: Emitter) -> None:
    events.emit(RETRY.model_copy(update={"delay_seconds": 0}))

    assert events.phase == "model"


@pytest.mark.requirement("AOX-103")
def test_side_effects_are_possible_once_a_tool_was_started(events: Emitter) -> None:
    before = events.side_effects
    events.emit(STARTED)
    events.emit(FINISHED)

    assert (before, events.side_effects) == ("none", "possible")


@pytest.mark.requirement("AOX-032")
def test_half_a_character_becomes_the_replacement_character(events: Emitter, written: Written) -> None:
    events.emit(Log(level="info", message="cut \ud83d"))

    assert "cut �".encode() in written[0]


@pytest.mark.requirement("AOX-198")
def test_a_secret_is_taken_out_of_texts_in_whatever_form(written: Written) -> None:
    secret = 'p"w/12 34567'
    events = Emitter(written.append, run_id="run_1", session_id="ses_1", secrets=["", "short", secret])
    forms = f"{json.dumps(secret)} {quote(secret, safe='')} {b64encode(secret.encode()).decode()} short"

    events.emit(Log(level="info", message=forms))
    events.emit(ToolStarted(tool_call_id="c", tool_name="t", tool_input={secret: [secret], f"a {secret}": 1}))

    log, started = written.documents
    assert log["message"] == '"***" *** *** short'
    assert started["tool_input"] == {"***": ["***"], "a ***": 1}


@pytest.mark.requirement("AOX-198")
def test_names_that_are_two_secrets_leave_one_name(written: Written) -> None:
    events = Emitter(written.append, run_id="run_1", session_id="ses_1", secrets=["first-secret", "second-secret"])

    events.emit(ToolStarted(tool_call_id="c", tool_name="t", tool_input={"first-secret": 1, "second-secret": 2}))

    assert decode_object(written[0][:-1])["tool_input"] == {"***": 2}


@pytest.mark.requirement("AOX-198")
@pytest.mark.parametrize("secret", ["event_type", "result_text", "end_turn", "rate_limited", NOW, "12345678"])
def test_what_the_protocol_needs_is_no_secret(written: Written, secret: str) -> None:
    events = Emitter(written.append, run_id="run_1", session_id="ses_1", secrets=[secret], now=lambda: NOW)
    fields = {**RESULT, "usage": {"input_tokens": 12345678}}
    error = RetryError(type="rate_limited", message="429")

    events.emit(RetryScheduled(error=error, attempt=1, delay_seconds=12345678.5))
    events.end("result", fields)

    retry, result = written.documents
    assert (retry["event_type"], result["event_type"]) == ("retry_scheduled", "result")
    assert (retry["error"]["type"], retry["delay_seconds"], retry["timestamp"]) == ("rate_limited", 12345678.5, NOW)
    assert {name: result[name] for name in fields} == fields


def nested(levels: int, inner: Any) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.requirement("AOX-030")
@pytest.mark.parametrize(
    ("given", "written_as"),
    [
        ({"channel_id": 1234567890123456789}, {"channel_id": "1234567890123456789"}),
        ([-(2**53), 2**53 - 1, True, 1.5], ["-9007199254740992", 9007199254740991, True, 1.5]),
        (2**60, "1152921504606846976"),
        (nested(63, "x"), nested(63, "x")),
        (nested(64, "x"), nested(63, '["x"]')),
        (nested(66, 2**60), nested(63, "[[[1152921504606846976]]]")),
    ],
    ids=["in an object", "in a list", "alone", "63 levels", "64 levels", "both"],
)
def test_what_a_tool_is_given_becomes_what_every_receiver_reads(
    events: Emitter, written: Written, given: Any, written_as: Any
) -> None:
    events.emit(ToolStarted(tool_call_id="c", tool_name="send", tool_input=given))
    events.emit_fields("tool_finished", {"tool_call_id": "c", "tool_name": "send", "tool_output": given})
    events.emit_fields("_mine/given", {"a": given})
    events.end("failure", {"status": "failed", "error": {"type": "tool_failed", "details": {"n": 2**60}}})

    started, finished, vendors, failure = (decode_object(line[:-1]) for line in written)
    assert (started["tool_input"], finished["tool_output"], vendors["a"]) == (written_as, written_as, written_as)
    assert failure["error"] == {"type": "tool_failed", "details": {"n": "1152921504606846976"}}


def test_a_tool_may_be_given_what_is_no_json(events: Emitter, written: Written) -> None:
    for value in (float("nan"), [float("-inf")], nested(100_000, 1)):
        events.emit_fields("tool_started", {"tool_call_id": "c", "tool_name": "send", "tool_input": value})

    first, second, third = (decode_object(line[:-1])["tool_input"] for line in written)
    assert (first, second) == ("nan", ["-inf"])
    assert "nested too deep" in json.dumps(third)


def test_a_figure_of_the_protocol_that_does_not_fit_is_no_payload(events: Emitter) -> None:
    with pytest.raises(NotIJson, match="is outside"):
        events.emit_fields("usage", {"input_tokens": 2**53})


def test_an_event_that_cannot_be_written_takes_no_number(events: Emitter, written: Written) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        events.emit_fields("_test/number", {"value": float("nan")})
    events.emit(SAID)

    assert [document["seq"] for document in written.documents] == [1]


def test_a_tool_call_begins_once_and_ends_once_with_what_is_known_of_it(events: Emitter, written: Written) -> None:
    for _ in range(2):
        events.start_tool("call_1", "Bash", {"command": "ls"})
    for call_id in ("call_0", "call_1", "call_1"):
        events.finish_tool(call_id, "completed", tool_output="a")

    started, finished = written.documents
    assert (started["event_type"], finished["event_type"]) == ("tool_started", "tool_finished")
    assert (finished["tool_name"], finished["tool_input"], finished["tool_output"]) == ("Bash", {"command": "ls"}, "a")
    assert (events.open_tools, events.known_tools) == ({}, {"call_1"})


def test_a_call_with_the_id_of_one_that_has_ended_has_an_id_of_its_own(events: Emitter, written: Written) -> None:
    for call_id in ("call_1", "call_1.2", "call_1"):
        events.start_tool(call_id, "Bash")
        events.start_tool("part", "Read", parent=call_id)
        events.finish_tool(call_id, "completed")

    told = [(event["tool_call_id"], event.get("parent_tool_call_id")) for event in written.documents]
    assert told == [
        *[("call_1", None), ("part", "call_1"), ("part", None), ("call_1", None)],
        *[("call_1.2", None), ("part.2", "call_1.2"), ("part.2", None), ("call_1.2", None)],
        *[("call_1.3", None), ("part.3", "call_1.3"), ("part.3", None), ("call_1.3", None)],
    ]
    assert (events.open_tools, len(events.known_tools)) == ({}, 6)


def test_usage_is_the_sum_of_what_is_added(events: Emitter, written: Written) -> None:
    events.add_usage({"input_tokens": 1, "output_tokens": None, "cost_usd": 0.1})
    events.add_usage({"input_tokens": 2, "output_tokens": 3, "cost_usd": 0.2})

    names = ("input_tokens", "output_tokens", "cost_usd")
    figures = [{name: document.get(name) for name in names} for document in written.documents]
    assert figures == [
        {"input_tokens": 1, "output_tokens": 0, "cost_usd": 0.1},
        {"input_tokens": 3, "output_tokens": 3, "cost_usd": 0.3},
    ]


LIMIT = 4096


def shrunk(event_type: str, **fields: object) -> dict[str, Any]:
    line = shortened_line({"event_type": event_type, "seq": 1, **fields}, LIMIT)
    assert line is not None
    assert len(line) <= LIMIT
    assert line.endswith(b"\n")
    document: dict[str, Any] = json.loads(line)
    return document


@pytest.mark.requirement("AOX-028", "AOX-029")
@given(st.text(min_size=1, max_size=20).map(lambda text: text * LIMIT))
def test_a_text_of_any_characters_is_cut_to_fit_and_marked(text: str) -> None:
    document = shrunk("log", level="info", message=text)

    assert text.startswith(document["message"])
    assert document["truncated"] is True
    assert document["original_bytes"] == len(text.encode())


def test_what_is_no_text_is_cut_as_its_json() -> None:
    document = shrunk("tool_started", tool_name="Write", tool_input={"content": "y" * LIMIT})

    assert document["tool_input"].startswith('{"content": "yyy')


def test_a_small_field_survives_beside_a_large_one() -> None:
    document = shrunk("tool_finished", tool_name="Read", tool_input={"path": "a"}, tool_output="z" * LIMIT)

    assert document["tool_input"] == {"path": "a"}
    assert document["original_bytes"] == LIMIT


def test_reasoning_that_is_cut_stays_reasoning_and_is_left_out_beside_a_text_that_is_cut() -> None:
    thought, text = ({"type": kind, "text": kind[0] * 2 * LIMIT} for kind in ("reasoning", "text"))

    for blocks, kind in (([thought], "reasoning"), ([thought, text], "text")):
        (block,) = shrunk("message", message_id="m", role="assistant", content=blocks)["content"]
        assert (block["type"], set(block["text"])) == (kind, {kind[0]})


def test_two_large_fields_are_both_cut() -> None:
    document = shrunk("tool_finished", tool_name="Write", tool_input="a" * LIMIT, tool_output="z" * 2 * LIMIT)

    assert document["original_bytes"] == 3 * LIMIT


@pytest.mark.requirement("AOX-029")
def test_data_under_a_contract_is_never_cut(events: Emitter) -> None:
    events.max_event_bytes = LIMIT
    with pytest.raises(EventTooLarge, match=r"the result event has \d+ bytes and 4096 are allowed"):
        events.emit_fields("result", {"result_text": None, "result_data": "x" * LIMIT})


def test_a_vendors_event_is_not_cut(events: Emitter) -> None:
    events.max_event_bytes = LIMIT
    with pytest.raises(EventTooLarge):
        events.emit_fields("_vendor/x", {"text": "x" * LIMIT})


def failure(**error: object) -> dict[str, Any]:
    error_fields = {"type": "parameters_validation_failed", "message": "they do not fit", "retryable": False}
    return shrunk("failure", status="failed", error=error_fields | error)


@pytest.mark.requirement("AOX-192")
def test_a_failure_leaves_out_its_details_first() -> None:
    document = failure(validation_errors=["$.a: no"], details={"schema": "x" * LIMIT})

    assert document["error"]["details"]["truncated"] is True
    assert document["error"]["validation_errors"] == ["$.a: no"]
    assert document["error"]["message"] == "they do not fit"


def test_a_failure_then_leaves_out_the_last_validation_errors() -> None:
    errors = [f"$[{place}]: is wrong" for place in range(LIMIT)]
    document = failure(validation_errors=errors)

    kept = document["error"]["validation_errors"]
    assert kept[:2] == errors[:2]
    assert len(kept) < len(errors)


def test_a_failure_then_cuts_its_message() -> None:
    document = failure(message="\x00" * LIMIT, validation_errors=["$.a: " + "x" * LIMIT])

    assert document["error"]["message"].startswith("\x00\x00")


def test_a_verdict_leaves_out_its_last_errors() -> None:
    errors = ["$.a: " + "x" * 1000 for _ in range(8)]
    document = shrunk("output_validation", attempt=1, valid=False, errors=errors, retries_left=0)

    assert document["errors"][:3] == errors[:3]

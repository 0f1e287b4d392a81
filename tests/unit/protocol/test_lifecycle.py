"""What may follow what: the whole table, and what breaks a run; and the defaults of events of core level (SPEC 5.2)."""

from typing import Any

import pytest

from ao_protocol.events import BODIES, event_from_document
from ao_protocol.lifecycle import (
    TRANSITIONS,
    VENDOR,
    EventOutOfOrder,
    KnownOfRun,
    Phase,
    RunLifecycle,
    SequenceBroken,
    WrongRun,
    advance,
    complete_event,
)
from ao_protocol.published import load_vectors
from ao_protocol.wire import JsonObject

WHILE_RUNNING = (
    *("session_bound", "message", "message_delta", "tool_started", "tool_finished", "output_validation"),
    *("retry_scheduled", "usage", "heartbeat", "log", "input_requested", "input_resolved", "_acme/progress"),
)
ALLOWED = {
    ("invoked", "run_started"): "running",
    **{("running", kind): "running" for kind in WHILE_RUNNING},
    ("running", "result"): "ended",
    ("running", "failure"): "ended",
}
EVERY_PAIR = [(phase, event_type) for phase in Phase for event_type in (*BODIES, "_acme/progress")]
CONVERSATIONS = {vector["id"]: vector["events"] for vector in load_vectors("conversation")}
START, RESULT = CONVERSATIONS["conversation-shortest"]
REFUSAL = CONVERSATIONS["conversation-unreadable-line"][1]


@pytest.mark.parametrize(("phase", "event_type"), EVERY_PAIR, ids=[f"{phase}-{kind}" for phase, kind in EVERY_PAIR])
@pytest.mark.requirement("AOX-090", "AOX-092", "AOX-094")
def test_an_event_leads_where_the_protocol_says_or_is_out_of_order(phase: Phase, event_type: str) -> None:
    following = ALLOWED.get((phase, event_type))
    if following is not None:
        assert advance(phase, event_type) == following
        return
    with pytest.raises(EventOutOfOrder) as out_of_order:
        advance(phase, event_type)
    assert str(out_of_order.value) == f"{event_type!r} is not allowed while the run is {phase}"


def test_the_table_names_every_phase_and_only_known_events() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert {kind for row in TRANSITIONS.values() for kind in row} == {*BODIES, VENDOR}


def test_after_a_fault_the_next_event_is_judged_by_the_one_received() -> None:
    lifecycle = RunLifecycle("run_1", "ses_1")
    lifecycle.receive(START)
    with pytest.raises(SequenceBroken, match="seq is 5, expected 2"):
        lifecycle.receive({**RESULT, "seq": 5})

    lifecycle.receive({**RESULT, "seq": 6})

    assert lifecycle.phase is Phase.ENDED


def unnamed(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**document, **dict.fromkeys(names or ("run_id", "session_id"))}


NAMED: dict[str, Any] = {"run_id": "run_1", "session_id": "ses_1"}


@pytest.mark.parametrize(
    ("start", "refusal"),
    [
        (unnamed(START), unnamed(REFUSAL)),
        (unnamed(START, "run_id"), {**REFUSAL, **NAMED, "run_id": None}),
    ],
    ids=["no name", "one name"],
)
@pytest.mark.requirement("AOX-043")
def test_a_refusal_of_a_line_that_could_not_be_read_may_name_no_run(
    start: dict[str, Any], refusal: dict[str, Any]
) -> None:
    lifecycle = RunLifecycle("run_1", "ses_1")

    lifecycle.receive(start)
    lifecycle.receive(refusal)

    assert lifecycle.phase is Phase.ENDED


@pytest.mark.parametrize(
    ("start", "following", "sentence"),
    [
        (unnamed(START), unnamed(RESULT), 'run_id is null, expected "run_1"'),
        (unnamed(START), RESULT, 'run_id is null, expected "run_1"'),
        (unnamed(START, "session_id"), RESULT, 'session_id is null, expected "ses_1"'),
        (unnamed(START), {**REFUSAL, **NAMED}, 'run_id is null, expected "run_1"'),
        (START, unnamed(REFUSAL), 'run_id is null, expected "run_1"'),
    ],
    ids=["a result without names", "a result with names", "one name", "a refusal with names", "a start with names"],
)
@pytest.mark.requirement("AOX-073")
def test_otherwise_a_run_that_has_names_keeps_them(
    start: dict[str, Any], following: dict[str, Any], sentence: str
) -> None:
    lifecycle = RunLifecycle("run_1", "ses_1")
    lifecycle.receive(start)

    with pytest.raises(WrongRun, match=sentence):
        lifecycle.receive(following)

    assert lifecycle.phase is Phase.RUNNING


def test_a_start_of_another_session_leaves_the_run_as_it_was() -> None:
    lifecycle = RunLifecycle("run_1", "ses_1")
    with pytest.raises(WrongRun, match='session_id is "ses_2"'):
        lifecycle.receive({**START, "run_id": None, "session_id": "ses_2"})

    lifecycle.receive({**START, "seq": 2})
    lifecycle.receive({**RESULT, "seq": 3})

    assert lifecycle.phase is Phase.ENDED


ENVELOPE: JsonObject = {"session_id": "ses_1", "run_id": "run_1", "seq": 7, "timestamp": "2026-01-10T12:00:00Z"}


def completed(document: JsonObject) -> JsonObject:
    known = KnownOfRun("run_1", "ses_1", {"name": "mini", "version": "1"}, "3.0")
    return complete_event(document, known, seq=7, timestamp="2026-01-10T12:00:00Z", open_tools={"call_1": "Read"})


FINISHED: JsonObject = {"event_type": "tool_finished", "tool_call_id": "call_1"}
COMPLETED: dict[str, tuple[JsonObject, JsonObject]] = {
    "run_started": (
        {"event_type": "run_started"},
        {"schema_version": "3.0", "executor": {"name": "mini", "version": "1"}},
    ),
    "message": (
        {"event_type": "message", "content": [{"type": "text", "text": "Hi"}]},
        {"message_id": "msg_run_1_7", "role": "assistant"},
    ),
    "tool that went well": (FINISHED, {"tool_name": "Read", "status": "completed"}),
    "tool that failed": ({**FINISHED, "error": "no such file"}, {"tool_name": "Read", "status": "failed"}),
    "result as text": (
        {"event_type": "result", "result_text": "Hi"},
        {"result_data": None, "stop_reason": "end_turn"},
    ),
    "result as data": (
        {"event_type": "result", "result_data": {"a": 1}, "stop_reason": "completed"},
        {"result_text": None},
    ),
    "a vendor's own": ({"event_type": "_mine/note", "fact": 1}, {}),
}


@pytest.mark.requirement("AOX-254")
@pytest.mark.parametrize(("written", "added"), COMPLETED.values(), ids=COMPLETED)
def test_an_event_of_core_level_becomes_whole(written: JsonObject, added: JsonObject) -> None:
    document = completed(written)

    assert document == {**written, **ENVELOPE, **added}
    assert event_from_document(document).envelope.seq == 7


@pytest.mark.requirement("AOX-254")
@pytest.mark.parametrize(
    ("error_type", "status", "retryable", "side_effects", "origin"),
    [
        ("rate_limited", "failed", True, "possible", "executor"),
        ("internal_error", "failed", False, "possible", "executor"),
        ("unsupported_schema_version", "failed", False, "none", "caller"),
        ("cancelled", "cancelled", False, "possible", "caller"),
        ("a_type_of_tomorrow", "failed", False, "possible", "executor"),
    ],
)
def test_a_failure_with_type_and_message_gets_the_defaults_of_its_type(
    error_type: str, status: str, retryable: bool, side_effects: str, origin: str
) -> None:
    error: JsonObject = {"type": error_type, "message": "why"}
    document = completed({"event_type": "failure", "error": error})

    whole = {**error, "retryable": retryable, "side_effects": side_effects, "origin": origin}
    assert document == {"event_type": "failure", **ENVELOPE, "status": status, "error": whole}
    event_from_document(document)


def test_what_an_event_says_itself_stays_as_it_is() -> None:
    whole = {"event_type": "result", **ENVELOPE, "result_text": "a", "result_data": None, "stop_reason": "x"}
    wrong: JsonObject = {"event_type": "result", "seq": "7", "run_id": None, "result_text": 1, "stop_reason": None}

    assert completed(whole) is whole
    assert {name: completed(wrong)[name] for name in wrong} == wrong


@pytest.mark.parametrize(
    "document",
    [
        {"event_type": "result"},
        {"event_type": "failure"},
        {"event_type": "failure", "error": {"type": "internal_error"}},
        {"event_type": "tool_finished", "tool_call_id": "call_9"},
        {"result_text": "Hi"},
    ],
    ids=["no answer", "no error", "an error without a message", "a tool that never started", "no type"],
)
def test_what_only_the_executor_knows_is_not_made_up(document: JsonObject) -> None:
    with pytest.raises(ValueError, match="invalid"):
        event_from_document(completed(document))

"""Events of core level become complete events by the defaults of SPEC 5.2."""

import pytest

from ao_protocol.events import event_from_document
from ao_protocol.lifecycle import KnownOfRun, complete_event
from ao_protocol.wire import JsonObject

KNOWN = KnownOfRun("run_1", "ses_1", {"name": "mini", "version": "1"}, "3.0")
ENVELOPE: JsonObject = {"session_id": "ses_1", "run_id": "run_1", "seq": 7, "timestamp": "2026-01-10T12:00:00Z"}


def completed(**document: object) -> JsonObject:
    return complete_event(
        dict(document),  # type: ignore[arg-type]  # JSON
        KNOWN,
        seq=7,
        timestamp="2026-01-10T12:00:00Z",
        open_tools={"call_1": "Read"},
    )


@pytest.mark.requirement("AOX-254")
@pytest.mark.parametrize(
    ("written", "added"),
    [
        pytest.param(
            {"event_type": "run_started"},
            {"schema_version": "3.0", "executor": {"name": "mini", "version": "1"}},
            id="run_started",
        ),
        pytest.param(
            {"event_type": "message", "content": [{"type": "text", "text": "Hi"}]},
            {"message_id": "msg_run_1_7", "role": "assistant"},
            id="message",
        ),
        pytest.param(
            {"event_type": "tool_finished", "tool_call_id": "call_1"},
            {"tool_name": "Read", "status": "completed"},
            id="tool that went well",
        ),
        pytest.param(
            {"event_type": "tool_finished", "tool_call_id": "call_1", "error": "no such file"},
            {"tool_name": "Read", "status": "failed"},
            id="tool that failed",
        ),
        pytest.param(
            {"event_type": "result", "result_text": "Hi"},
            {"result_data": None, "stop_reason": "end_turn"},
            id="result as text",
        ),
        pytest.param(
            {"event_type": "result", "result_data": {"a": 1}, "stop_reason": "completed"},
            {"result_text": None},
            id="result as data",
        ),
        pytest.param({"event_type": "_mine/note", "fact": 1}, {}, id="a vendor's own"),
    ],
)
def test_an_event_of_core_level_becomes_whole(written: JsonObject, added: JsonObject) -> None:
    document = completed(**written)

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
    document = completed(event_type="failure", error={"type": error_type, "message": "why"})

    expected: JsonObject = {
        "event_type": "failure",
        **ENVELOPE,
        "status": status,
        "error": {
            "type": error_type,
            "message": "why",
            "retryable": retryable,
            "side_effects": side_effects,
            "origin": origin,
        },
    }
    assert document == expected
    event_from_document(document)


def test_what_an_event_says_itself_stays_as_it_is() -> None:
    whole: JsonObject = {
        "event_type": "result",
        **ENVELOPE,
        "result_text": "a",
        "result_data": None,
        "stop_reason": "x",
    }
    wrong: JsonObject = {"event_type": "result", "seq": "7", "run_id": None, "result_text": 1, "stop_reason": None}

    assert completed(**whole) == whole
    assert {name: completed(**wrong)[name] for name in wrong} == wrong


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"event_type": "result"}, id="a result without an answer"),
        pytest.param({"event_type": "failure"}, id="a failure without an error"),
        pytest.param({"event_type": "failure", "error": {"type": "internal_error"}}, id="an error without a message"),
        pytest.param({"event_type": "tool_finished", "tool_call_id": "call_9"}, id="a tool that never started"),
        pytest.param({"result_text": "Hi"}, id="no type"),
    ],
)
def test_what_only_the_executor_knows_is_not_made_up(document: JsonObject) -> None:
    with pytest.raises(ValueError, match="invalid"):
        event_from_document(completed(**document))

"""Events: what stands on the wire for each, and what is wrong with one that is none."""

from typing import Any

import pytest

from ao_protocol.events import (
    BODIES,
    Envelope,
    ErrorInfo,
    Event,
    Failure,
    InputRequested,
    InvalidEvent,
    Message,
    OutputSummary,
    Result,
    RunStarted,
    TextBlock,
    VendorEvent,
    event_from_document,
    parse_event,
)
from ao_protocol.framing import encode_line
from ao_protocol.published import Vector, load_vectors
from ao_protocol.wire import JsonObject

VALID = [vector for vector in load_vectors("event") if vector["valid"]]
ENVELOPE = Envelope(session_id="ses_1", run_id="run_1", seq=2, timestamp="2026-01-10T12:00:00Z")
ON_THE_WIRE: dict[str, Any] = {"session_id": "ses_1", "run_id": "run_1", "seq": 2, "timestamp": "2026-01-10T12:00:00Z"}


def test_an_event_is_flat_on_the_wire() -> None:
    body = Message(message_id="m1", role="assistant", content=[TextBlock(text="Hello")])

    assert Event(envelope=ENVELOPE, body=body).to_document() == {
        "event_type": "message",
        **ON_THE_WIRE,
        "message_id": "m1",
        "role": "assistant",
        "content": [{"type": "text", "text": "Hello"}],
    }


@pytest.mark.requirement("AOX-075")
def test_a_result_shows_both_of_its_fields() -> None:
    text = Result(result_text="Hello", result_data=None, stop_reason="end_turn")
    data = Result(
        result_text=None,
        result_data=None,
        stop_reason="end_turn",
        output=OutputSummary(schema_source="blueprint", retry_count=0),
    )

    assert Event(envelope=ENVELOPE, body=text).to_document() == {
        "event_type": "result",
        **ON_THE_WIRE,
        "result_text": "Hello",
        "result_data": None,
        "stop_reason": "end_turn",
    }
    assert Event(envelope=ENVELOPE, body=data).to_document() == {
        "event_type": "result",
        **ON_THE_WIRE,
        "result_text": None,
        "result_data": None,
        "stop_reason": "end_turn",
        "output": {"schema_source": "blueprint", "retry_count": 0, "ambiguous": False},
    }


@pytest.mark.requirement("AOX-076")
def test_a_failure_shows_its_error_and_no_result() -> None:
    error = ErrorInfo(
        type="rate_limited",
        message="try again in 20 s",
        retryable=True,
        side_effects="none",
        origin="provider",
        retry_after_seconds=20,
    )

    assert Event(envelope=ENVELOPE, body=Failure(status="failed", error=error)).to_document() == {
        "event_type": "failure",
        **ON_THE_WIRE,
        "status": "failed",
        "error": {
            "type": "rate_limited",
            "message": "try again in 20 s",
            "retryable": True,
            "side_effects": "none",
            "origin": "provider",
            "retry_after_seconds": 20,
        },
    }


def test_the_field_schema_keeps_its_name_on_the_wire() -> None:
    body = InputRequested.model_validate({"request_id": "q", "kind": "k", "title": "?", "schema": {"type": "boolean"}})

    assert Event(envelope=ENVELOPE, body=body).to_document()["schema"] == {"type": "boolean"}


@pytest.mark.requirement("AOX-074")
def test_a_vendors_event_keeps_all_its_fields() -> None:
    document: JsonObject = {"event_type": "_acme/progress", **ON_THE_WIRE, "percent": 3, "deep": {"a": [None]}}
    event = event_from_document(document)

    assert event.body == VendorEvent(event_type="_acme/progress", fields={"percent": 3, "deep": {"a": [None]}})
    assert event.to_document() == document


@pytest.mark.parametrize("vector", VALID, ids=[vector["id"] for vector in VALID])
def test_an_event_reads_back_as_it_was_written(vector: Vector) -> None:
    event = event_from_document(vector["document"])

    assert parse_event(encode_line(event.to_document())) == event


@pytest.mark.parametrize(
    ("event_type", "terminal"), [(name, name in {"result", "failure"}) for name in BODIES], ids=list(BODIES)
)
def test_result_and_failure_are_terminal_and_nothing_else_is(event_type: str, terminal: bool) -> None:
    vector = next(vector for vector in VALID if vector["document"]["event_type"] == event_type)

    assert event_from_document(vector["document"]).is_terminal is terminal


@pytest.mark.requirement("AOX-070")
def test_every_wrong_field_is_named_with_what_was_found() -> None:
    started: JsonObject = {"event_type": "run_started", **ON_THE_WIRE, "schema_version": "3", "executor": {"name": ""}}

    with pytest.raises(InvalidEvent) as invalid:
        event_from_document(started)

    assert invalid.value.problems == [
        "$.schema_version: string should match pattern '^(0|[1-9][0-9]{0,5})\\.(0|[1-9][0-9]{0,5})$', found '3'",
        "$.executor.name: string should have at least 1 character, found ''",
        "$.executor.version: field required",
    ]
    assert str(invalid.value).startswith("invalid event 'run_started': $.schema_version: ")


@pytest.mark.requirement("AOX-074")
def test_an_unknown_event_type_is_told_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidEvent, match=r"unknown event type 'progress', expected one of run_started, .*_vendor/name"
    ):
        event_from_document({"event_type": "progress", **ON_THE_WIRE})


def test_a_line_that_is_no_json_is_no_event() -> None:
    with pytest.raises(InvalidEvent, match="invalid line: not JSON: Expecting value"):
        parse_event(b"Loading model...")


@pytest.mark.requirement("AOX-102")
def test_a_failure_that_contradicts_itself_cannot_be_made() -> None:
    error = ErrorInfo(type="internal_error", message="x", retryable=False, side_effects="none", origin="executor")

    with pytest.raises(ValueError, match=r"status is cancelled and error\.type is internal_error"):
        Failure(status="cancelled", error=error)


def test_an_event_cannot_be_changed() -> None:
    body = RunStarted.model_validate({"schema_version": "3.0", "executor": {"name": "x", "version": "1"}})

    with pytest.raises(ValueError, match="frozen"):
        body.schema_version = "4.0"  # type: ignore[misc]  # what mypy forbids is what is tried here

"""Events: what stands on the wire for each, and what is wrong with one that is none."""

from typing import Any

import pytest

from ao_protocol.events import (
    BODIES,
    Body,
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
    VendorEvent,
    event_from_document,
    parse_event,
)
from ao_protocol.framing import encode_line
from ao_protocol.message_content import TextBlock
from ao_protocol.published import Vector, load_vectors
from ao_protocol.wire import JsonObject

VALID = [vector for vector in load_vectors("event") if vector["valid"]]
ENVELOPE = Envelope(session_id="ses_1", run_id="run_1", seq=2, timestamp="2026-01-10T12:00:00Z")
ON_THE_WIRE: dict[str, Any] = {"session_id": "ses_1", "run_id": "run_1", "seq": 2, "timestamp": "2026-01-10T12:00:00Z"}
ERROR: dict[str, Any] = {"retryable": True, "side_effects": "none", "origin": "provider", "retry_after_seconds": 20}
WRITTEN: dict[str, tuple[Body, JsonObject]] = {
    "message": (
        Message(message_id="m1", role="assistant", content=[TextBlock(text="Hello")]),
        {"message_id": "m1", "role": "assistant", "content": [{"type": "text", "text": "Hello"}]},
    ),
    "a result shows both of its fields": (
        Result(result_text="Hello", result_data=None, stop_reason="end_turn"),
        {"result_text": "Hello", "result_data": None, "stop_reason": "end_turn"},
    ),
    "also where both are null": (
        Result(
            result_text=None,
            result_data=None,
            stop_reason="end_turn",
            output=OutputSummary(schema_source="blueprint", retry_count=0),
        ),
        {
            "result_text": None,
            "result_data": None,
            "stop_reason": "end_turn",
            "output": {"schema_source": "blueprint", "retry_count": 0, "ambiguous": False},
        },
    ),
    "a failure shows its error and no result": (
        Failure(status="failed", error=ErrorInfo(type="rate_limited", message="try again in 20 s", **ERROR)),
        {"status": "failed", "error": {"type": "rate_limited", "message": "try again in 20 s", **ERROR}},
    ),
    "the field schema keeps its name": (
        InputRequested.model_validate({"request_id": "q", "kind": "k", "title": "?", "schema": {"type": "boolean"}}),
        {"request_id": "q", "kind": "k", "title": "?", "schema": {"type": "boolean"}},
    ),
    "a vendor's event keeps all its fields": (
        VendorEvent(event_type="_acme/progress", fields={"percent": 3, "deep": {"a": [None]}}),
        {"percent": 3, "deep": {"a": [None]}},
    ),
}


@pytest.mark.requirement("AOX-074", "AOX-075", "AOX-076")
@pytest.mark.parametrize(("body", "fields"), WRITTEN.values(), ids=WRITTEN)
def test_an_event_is_flat_on_the_wire(body: Body, fields: JsonObject) -> None:
    event = Event(envelope=ENVELOPE, body=body)
    document: JsonObject = {"event_type": body.event_type, **ON_THE_WIRE, **fields}

    assert event.to_document() == document
    assert event_from_document(document) == event


@pytest.mark.parametrize("vector", VALID, ids=[vector["id"] for vector in VALID])
def test_an_event_reads_back_as_it_was_written(vector: Vector) -> None:
    event = event_from_document(vector["document"])

    assert parse_event(encode_line(event.to_document())) == event


@pytest.mark.parametrize("event_type", BODIES)
def test_result_and_failure_are_terminal_and_nothing_else_is(event_type: str) -> None:
    vector = next(vector for vector in VALID if vector["document"]["event_type"] == event_type)

    assert event_from_document(vector["document"]).is_terminal is (event_type in {"result", "failure"})


@pytest.mark.requirement("AOX-070")
def test_every_wrong_field_is_named_with_what_was_found() -> None:
    started: JsonObject = {"event_type": "run_started", **ON_THE_WIRE, "schema_version": "3", "executor": {"name": ""}}

    with pytest.raises(InvalidEvent) as invalid:
        event_from_document(started)

    assert invalid.value.problems == [
        '$.schema_version: string should match pattern "^(0|[1-9][0-9]{0,5})\\.(0|[1-9][0-9]{0,5})$", found "3"',
        '$.executor.name: string should have at least 1 character, found ""',
        '$.executor: "version" is a required property',
    ]
    assert str(invalid.value).startswith('invalid event "run_started": $.schema_version: ')


@pytest.mark.requirement("AOX-074")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"Loading model...", "invalid line: not JSON: Expecting value"),
        (
            encode_line({"event_type": "progress", **ON_THE_WIRE}),
            r"unknown event type .progress., expected one of run_started, .*_vendor/name",
        ),
    ],
    ids=["no JSON", "an unknown type"],
)
def test_what_is_no_event_is_refused_with_its_reason(line: bytes, sentence: str) -> None:
    with pytest.raises(InvalidEvent, match=sentence):
        parse_event(line)


@pytest.mark.requirement("AOX-102")
def test_a_failure_that_contradicts_itself_cannot_be_made() -> None:
    with pytest.raises(ValueError, match=r"status is cancelled and error\.type is internal_error"):
        Failure(status="cancelled", error=ErrorInfo(type="internal_error", message="x", **ERROR))


def test_an_event_cannot_be_changed() -> None:
    body = RunStarted.model_validate({"schema_version": "3.0", "executor": {"name": "x", "version": "1"}})

    with pytest.raises(ValueError, match="frozen"):
        body.schema_version = "4.0"  # type: ignore[misc]  # what mypy forbids is what is tried here

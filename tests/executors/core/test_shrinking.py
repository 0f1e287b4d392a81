"""Events that would be longer than a line may be."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ao_executors.core.emitter import EventTooLarge, shrink

LIMIT = 4096


def shrunk(event_type: str, **fields: object) -> dict[str, Any]:
    line = shrink({"event_type": event_type, "seq": 1, **fields}, LIMIT)
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


def test_two_large_fields_are_both_cut() -> None:
    document = shrunk("tool_finished", tool_name="Write", tool_input="a" * LIMIT, tool_output="z" * 2 * LIMIT)

    assert document["original_bytes"] == 3 * LIMIT


@pytest.mark.requirement("AOX-029")
def test_data_under_a_contract_is_never_cut() -> None:
    with pytest.raises(EventTooLarge, match=r"the result event has \d+ bytes and 4096 are allowed"):
        shrink({"event_type": "result", "result_text": None, "result_data": "x" * LIMIT}, LIMIT)


def test_a_vendors_event_is_not_cut() -> None:
    with pytest.raises(EventTooLarge):
        shrink({"event_type": "_vendor/x", "text": "x" * LIMIT}, LIMIT)


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
